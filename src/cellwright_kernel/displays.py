# mypy: allow-untyped-calls
# (IPython is typed only in part.)
"""How values become outputs: as IPython does it, with a digest for agents beside it.

The digest stands in the output's metadata, under our own key, so that what people see is what any kernel would show.
"""

from __future__ import annotations

import re
from typing import Any

from IPython.core.formatters import DisplayFormatter

from cellwright_kernel.figurefacts import figure_facts
from cellwright_kernel.valuedigests import digest_of, hidden_digest

__all__ = ["KEY", "DigestingFormatter", "is_complete"]

KEY = "cellwright"
COMPLETE = 600
"""How long a text may be that says everything, before a digest is better than it."""
_left_out = re.compile(
    r"^\[\d+ rows x \d+ columns\]"  # pandas
    r"|\bLength: \d+, dtype"
    r"|^\u2502 \u2026|\u2506 \u2026 \u2506"  # polars
    r"|^\s*\.\.\.,|, \.\.\.,",  # numpy
    re.MULTILINE,
)


class DigestingFormatter(DisplayFormatter):
    """Formats for people and, where a value has one that is better than the plain text, adds its digest."""

    def format(
        self, obj: Any, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super().format(obj, include=include, exclude=exclude)
        plain = data.get("text/plain") if data else None
        if isinstance(plain, str) and KEY not in metadata:
            digest = hidden_digest(obj) if is_complete(plain) else digest_of(obj)
            if digest is not None:
                facts = figure_facts(obj)
                metadata = {
                    **metadata,
                    KEY: {"digest": digest} if facts is None else {"digest": digest, "figure": facts},
                }
        return data, metadata


def is_complete(text: str) -> bool:
    """Whether a value's text is short and has left nothing out."""
    return len(text) <= COMPLETE and not _left_out.search(text)
