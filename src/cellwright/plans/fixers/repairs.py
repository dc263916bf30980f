"""One repaired text, and what the repairs of text that does not compile have in common: lines and where their code ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from cellwright.plans.fixers.regions import line_starts, regions

__all__ = ["Line", "Repair", "Repaired", "error_line", "lines_of"]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A text that may be what was meant. Whether it compiles is for others to see."""

    text: str
    reason: str
    certain: bool


Repair: TypeAlias = Callable[[str, SyntaxError], Iterator[Repaired]]
"""Tries to fix one mistake of a text, near to where Python gave up."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text, by places in it."""

    start: int
    code_end: int
    """Where its code ends: before a comment and white space."""
    end: int
    indent: str
    inside: bool
    """Whether it begins within a string."""

    @property
    def is_blank(self) -> bool:
        return self.code_end <= self.start + len(self.indent)


@lru_cache(maxsize=8)
def lines_of(text: str) -> tuple[Line, ...]:
    starts = line_starts(text)
    comments = [region.start for region in regions(text) if region.kind == "comment"]
    strings = [region for region in regions(text) if region.kind == "string"]
    begins = [region.start for region in strings]
    lines = []
    for start, after in zip(starts, (*starts[1:], len(text) + 1), strict=True):
        end = start + len(text[start : min(after, len(text))].rstrip("\r\n"))
        comment = min([*comments[(place := bisect_left(comments, start)) : place + 1], end])
        code_end = start + len(text[start:comment].rstrip())
        body = text[start:end]
        indent = body[: len(body) - len(body.lstrip(" \t"))]
        before = bisect_left(begins, start) - 1
        inside = before >= 0 and start < strings[before].end
        lines.append(Line(start, max(code_end, start), end, indent, inside))
    return tuple(lines)


def error_line(text: str, error: SyntaxError) -> int:
    """The index of the line that Python gave up on."""
    return min(max((error.lineno or 1) - 1, 0), len(line_starts(text)) - 1)
