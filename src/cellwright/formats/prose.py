"""Markdown of text cells as a tree of tokens, formulas included. Pure; whoever prints it walks the tree.

The tree is mistune's: ``{"type", "children" or "raw", "attrs"}``. Formulas are ``inline_math`` and ``block_math``, in
all the ways that notebooks write them: dollars, ``\\(…\\)``, ``\\[…\\]``, and bare environments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

__all__ = ["Token", "parse_prose", "text_of"]

Token: TypeAlias = Mapping[str, Any]

_ENVIRONMENT = (
    r"\\begin\{(?P<environment>equation\*?|align\*?|gather\*?|multline\*?|eqnarray\*?|displaymath|math)\}"
    r"[\s\S]{0,20000}?\\end\{(?P=environment)\}"
)
_BLOCK = (
    r"^ {0,3}\$\$(?P<dollars>(?:[^$\\]|\\[\s\S]|\$(?!\$)){1,20000}?)\$\$[ \t]*(?:\n|$)"
    r"|^ {0,3}\\\\?\[(?P<brackets>[^\n]{0,20000}?(?:\n[^\n]+?){0,200}?)\\\\?\][ \t]*(?:\n|$)"
    rf"|^ {{0,3}}(?P<bare>{_ENVIRONMENT})[ \t]*(?:\n|$)"
)
_INLINE = (
    r"\$\$(?P<inline_dollars>(?:[^$\\]|\\[\s\S]){1,20000}?)\$\$"
    r"|\$(?!\s|\$)(?P<dollar>(?:[^$\\\n]|\\.|\n(?!\n)){1,5000}?)(?<!\s)\$(?!\d)"
    r"|\\\\?\((?P<parentheses>[^\n]{1,5000}?)\\\\?\)"
)


def parse_prose(source: str) -> list[Token]:
    """The tokens of a Markdown text."""
    tokens, _ = _parser().parse(source)
    return tokens if isinstance(tokens, list) else []


def text_of(tokens: Iterable[Token]) -> str:
    """The text of tokens, without any form."""
    return "".join(_texts(tokens))


def _texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if "children" in token:
            yield from _texts(token["children"])
        elif token["type"] in {"softbreak", "linebreak"}:
            yield " "
        elif token["type"] not in {"inline_html", "footnote_ref"}:
            yield str(token.get("raw", ""))


@functools.cache
def _parser() -> Any:
    import mistune  # noqa: PLC0415  # an extra

    plugins: list[Any] = ["table", "strikethrough", "task_lists", "footnotes", "url", _formulas]
    parser = mistune.create_markdown(renderer=None, plugins=plugins)
    # Lists and quotes within each other; what is deeper is text. Whoever walks the tree may rely on it.
    parser.block.max_nested_level = 12
    return parser


def _formulas(markdown: Any) -> None:
    """mistune's plugin for formulas."""
    markdown.block.register("block_math", _BLOCK, _taken("block_math"), before="list")
    markdown.inline.register("inline_math", _INLINE, _taken("inline_math"), before="escape")
    for rules in (markdown.block.block_quote_rules, markdown.block.list_rules):
        markdown.block.insert_rule(rules, "block_math", before="list")


def _taken(kind: str) -> Callable[[Any, re.Match[str], Any], int]:
    def parse(_parser: Any, match: re.Match[str], state: Any) -> int:
        groups = match.groupdict()
        names = ("dollars", "brackets", "bare", "inline_dollars", "dollar", "parentheses")
        raw = next(text for name in names if (text := groups.get(name)) is not None)
        display = kind == "block_math" or groups.get("inline_dollars") is not None
        state.append_token({"type": "block_math" if display else kind, "raw": raw.strip()})
        return match.end()

    return parse
