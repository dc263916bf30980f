"""Cells by their place, as other systems name them; ours are named by id, which no other edit can shift."""

from __future__ import annotations

from cellwright.engine import Session
from cellwright.errors import NotebookError
from cellwright.notebook import Cell

__all__ = ["LONG_S", "cell_at", "place_for"]

LONG_S = 24 * 3_600
"""The limit of a cell in systems that have none."""


def cell_at(session: Session, index: int) -> Cell:
    """The cell at a place; below 0 counts from the end.

    Raises:
        NotebookError: there is none.
    """
    cells = session.cells
    if not -len(cells) <= index < len(cells):
        raise NotebookError(
            f"There is no cell {index}", hint=f"The notebook has {len(cells)} cells, counted from 0"
        )
    return cells[index]


def place_for(index: int) -> int | None:
    """Where to insert: -1 means the end."""
    return None if index == -1 else index
