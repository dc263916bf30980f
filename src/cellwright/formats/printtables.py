"""Tables for print: a grid of cells from HTML or Markdown, cut to what a page holds. Pure.

A page cannot be scrolled: letters get smaller down to a limit, then columns go below each other in groups that repeat
the first, and long tables end with a line that says how much is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from cellwright.formats.htmltables import HtmlCell, rows_of
from cellwright.formats.markup import Element

__all__ = ["Grid", "grid_of", "set_grid", "table_node"]

MAX_ROWS = 60
_MAX_COLUMNS = 120
_CELL_CHARACTERS = 200
_SIZE, _LEAST_SIZE = 8.5, 6.0
# What fits on a line of the page, in characters at the usual size, and what a cell takes besides its text.
_ROOM, _PADDING = 120, 3
_WIDEST = 34
_NUMBER = re.compile(r"[-+\u2212$€£]*[\d.,]+(?:e[-+]?\d+)?\s?%?|NaN|nan|-?inf|None|NaT|<NA>|null")


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of equal length; the first ``head`` of them are headings."""

    rows: list[list[str]]
    head: int
    left_out: str = ""


def grid_of(table: Element) -> Grid | None:
    """An HTML table as a grid; cells that span several stand in the first of them."""
    found = list(rows_of(table))
    rows = [[_shown(cell) for cell in row.cells[:_MAX_COLUMNS]] for row in found[: MAX_ROWS * 4]]
    if not any(any(row) for row in rows):
        return None
    head = sum(1 for _ in takewhile(lambda row: row.in_head, found[: MAX_ROWS * 4]))
    width = max(len(row) for row in rows)
    even = [row + [""] * (width - len(row)) for row in rows]
    body = len(found) - head
    left_out = f"… {body - MAX_ROWS:,} of {body:,} rows are left out" if body > MAX_ROWS else ""
    return Grid(even[: head + MAX_ROWS], head, left_out)


def _shown(cell: HtmlCell) -> str:
    if cell.is_repeated:
        return ""
    return cell.text if len(cell.text) <= _CELL_CHARACTERS else f"{cell.text[: _CELL_CHARACTERS - 1]}…"


def set_grid(grid: Grid) -> list[dict[str, Any]]:
    """A grid as one table, or as several below each other where it is too wide for the page."""
    groups = _groups([_width(column) for column in zip(*grid.rows, strict=True)])
    set_tables: list[dict[str, Any]] = []
    for columns, size in groups:
        rows = [[row[column] for column in columns] for row in grid.rows]
        set_tables.append(
            table_node([[[_words(cell)] for cell in row] for row in rows], grid.head, size, rows)
        )
    if grid.left_out:
        set_tables.append({"t": "note", "v": grid.left_out})
    return set_tables


def table_node(
    cells: list[list[list[dict[str, Any]]]], head: int, size: float, texts: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """A table's data: cells of inline nodes; columns of numbers are set to the right."""
    aligns = ["right" if _numbers(column[head:]) else "left" for column in zip(*texts, strict=True)]
    rows = [[{"body": cell} for cell in row] for row in cells]
    return {"t": "table", "columns": len(aligns), "head": head, "size": size, "aligns": aligns, "rows": rows}


def _words(text: str) -> dict[str, Any]:
    return {"t": "text", "v": text}


def _width(column: Sequence[str]) -> int:
    return min(max(len(cell) for cell in column), _WIDEST) + _PADDING


def _groups(widths: list[int]) -> list[tuple[list[int], float]]:
    """Which columns stand beside each other, and the size of their letters."""
    shrunk = _SIZE * _ROOM / max(sum(widths), 1)
    if shrunk >= _LEAST_SIZE:
        return [(list(range(len(widths))), round(min(_SIZE, shrunk), 2))]
    room = _ROOM * _SIZE / _LEAST_SIZE
    fewest = len(_packed(widths, room))
    # As many groups as there must be, and all about as wide: nothing is gained by a last one of a single column.
    even = next(
        width
        for width in range(sum(widths) // fewest, sum(widths) + 1)
        if len(_packed(widths, width)) <= fewest
    )
    return [(group, _LEAST_SIZE) for group in _packed(widths, min(even, room))]


def _packed(widths: list[int], room: float) -> list[list[int]]:
    """Columns in groups that begin with the first column and fit; a group has at least one more."""
    groups: list[list[int]] = [[0]]
    used = widths[0]
    for column in range(1, len(widths)):
        if used + widths[column] > room and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0]
        groups[-1].append(column)
        used += widths[column]
    return groups


def _numbers(cells: Sequence[str]) -> bool:
    shown = [cell for cell in cells if cell]
    return bool(shown) and all(_NUMBER.fullmatch(cell) for cell in shown)
