"""Code as HTML, coloured by pygments in the language it is written in. Pure; an unknown language stays plain."""

from __future__ import annotations

import functools
from html import escape
from typing import Any

from cellwright.notebook.languages import canonical_language

__all__ = ["code_html"]

# Colouring a long text takes seconds and helps nobody: it is data.
_MAX_CHARACTERS = 200_000
# Magics and shell lines are no Python, and often in cells.
_LEXERS = {"python": "ipython3"}


def code_html(code: str, language: str) -> str:
    """Code as HTML, to stand in a ``pre`` of the page's style."""
    lexer = _lexer(canonical_language(language)) if len(code) <= _MAX_CHARACTERS else None
    if lexer is None:
        return escape(code, quote=False)
    from pygments import highlight  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra, untyped
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]  # noqa: PLC0415  # with it

    return str(highlight(code, lexer, HtmlFormatter(nowrap=True))).removesuffix("\n")


@functools.lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra, untyped
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # noqa: PLC0415  # with it

    for name in (_LEXERS.get(language, language), language):
        try:
            return get_lexer_by_name(name, stripnl=False, ensurenl=False)
        except ClassNotFound:
            continue
    return None
