"""The blocks of a ``.src.md`` page, found as Srcbook finds them: top-level headings, code, links and all else. Pure.

Srcbook reads with *marked*; this reads with a CommonMark parser, which sees the same blocks. What the blocks mean is
not decided here (see srcmd).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["Block", "BlockKind", "blocks_of"]

BlockKind: TypeAlias = Literal["title", "filename", "code", "link", "comment", "text"]
_link = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]*)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block: its first line, from 1, the line after its last, and what it says."""

    kind: BlockKind
    line: int
    end: int
    content: str
    """A heading's text, the code of a code block, a link's target, or the raw lines."""


def blocks_of(text: str) -> list[Block]:
    """Every top-level block of a page, in order."""
    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").parse(text)
    return [
        _block(token, tokens, place, lines)
        for place, token in enumerate(tokens)
        if token.level == 0 and token.map is not None and token.nesting >= 0
    ]


def _block(token: Token, tokens: Sequence[Token], place: int, lines: Sequence[str]) -> Block:
    first, end = token.map or [0, 0]
    raw = "\n".join(lines[first:end])
    kind, content = _meaning(token, tokens, place, raw)
    return Block(kind, first + 1, end + 1, content)


def _meaning(token: Token, tokens: Sequence[Token], place: int, raw: str) -> tuple[BlockKind, str]:
    match token.type, token.tag:
        case "heading_open", "h1":
            return "title", tokens[place + 1].content
        case "heading_open", "h6":
            return "filename", tokens[place + 1].content
        case "fence" | "code_block", _:
            return "code", token.content.removesuffix("\n")
        case "html_block", _:
            return "comment", raw
        case "paragraph_open", _ if found := _link.fullmatch(raw.strip()):
            return "link", found["target"]
        case _:
            return "text", raw
