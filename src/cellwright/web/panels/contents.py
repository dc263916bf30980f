"""A notebook's headings as a list of links to their cells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cellwright.notebook import Cell
from cellwright.web.requests import PageRequest

__all__ = ["Heading", "contents", "headings_of"]

_FENCE = re.compile(r"\s{0,3}(```|~~~)")

_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*")

_MARKS = re.compile(r"[*_`]|!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading of a text cell."""

    cell_id: str
    level: int
    text: str


async def contents(request: PageRequest) -> dict[str, Any]:
    """The headings of the notebook as it is."""
    return {"headings": headings_of(request.session().cells)}


def headings_of(cells: Iterable[Cell]) -> list[Heading]:
    """The headings of all text cells, in order. Pure."""
    return [
        Heading(cell.id, level, text)
        for cell in cells
        if cell.kind == "markdown"
        for level, text in _headings(cell.source)
    ]


def _headings(source: str) -> Iterable[tuple[int, str]]:
    fence = ""
    for line in source.splitlines():
        if (mark := _FENCE.match(line)) and fence in {"", mark[1]}:
            fence = "" if fence else mark[1]
        elif not fence and (found := _HEADING.fullmatch(line)) and found[2]:
            yield len(found[1]), _MARKS.sub(lambda piece: piece[1] or "", found[2])
