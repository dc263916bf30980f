"""What may be done to a document: each function checks a wish and returns the change that fulfils it.

Pure: nothing is applied here. The caller journals the change, then applies it (see document). Positions count from
0; those below 0 are refused, since counting from the end means one thing for ``list.insert`` and another for people.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from cellwright.errors import NotebookError, StaleEdit, TooManyCells
from cellwright.notebook.cells import Cell, CellKind
from cellwright.notebook.changes import CellAdded, CellDeleted, CellMoved, SourceChanged
from cellwright.notebook.document import Document
from cellwright.notebook.ids import is_valid_id, new_id

__all__ = ["add_cell", "change_source", "delete_cell", "move_cell"]


def add_cell(
    document: Document,
    kind: CellKind,
    source: str,
    *,
    max_cells: int,
    position: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    cell_id: str | None = None,
) -> CellAdded:
    """Add a cell at a position, or at the end; without ``cell_id`` it gets a new one.

    Raises:
        TooManyCells: the notebook is full.
        NotebookError: the position, kind or id cannot be had.
    """
    if len(document) >= max_cells:
        raise TooManyCells(
            f"The notebook has {len(document)} cells, and the setting max_cells allows {max_cells}",
            hint="Delete cells, start another notebook, or raise CELLWRIGHT_MAX_CELLS",
        )
    if kind not in get_args(CellKind):
        raise NotebookError(f"There is no cell kind {kind!r}", hint="Use code, markdown or raw")
    place = len(document) if position is None else position
    _check_position(place, last=len(document))
    return CellAdded(
        cell_id=new_id(document) if cell_id is None else _free_id(document, cell_id),
        kind=kind,
        source=source,
        position=place,
        metadata=dict(metadata or {}),
    )


def change_source(
    document: Document, cell_id: str, source: str, *, expected_version: int | None = None
) -> SourceChanged:
    """Replace a cell's source.

    Raises:
        UnknownCell: no cell has that id.
        StaleEdit: the cell is no longer at the expected version, and its source is another.
    """
    cell = document.cell(cell_id)
    if cell.source != source:
        _check_version(cell, source, expected_version)
    return SourceChanged(cell_id, source)


def delete_cell(document: Document, cell_id: str, *, expected_version: int | None = None) -> CellDeleted:
    """Delete a cell.

    Raises:
        UnknownCell: no cell has that id.
        StaleEdit: the cell is no longer at the expected version.
    """
    _check_version(document.cell(cell_id), "", expected_version)
    return CellDeleted(cell_id)


def move_cell(document: Document, cell_id: str, position: int) -> CellMoved:
    """Move a cell so that it stands at ``position``.

    Raises:
        UnknownCell: no cell has that id.
        NotebookError: there is no such position.
    """
    document.index(cell_id)
    _check_position(position, last=len(document) - 1)
    return CellMoved(cell_id, position)


def _check_position(position: int, *, last: int) -> None:
    if not 0 <= position <= last:
        raise NotebookError(f"There is no position {position}", hint=f"Give one from 0 to {last}")


def _free_id(document: Document, cell_id: str) -> str:
    if not is_valid_id(cell_id):
        raise NotebookError(
            f"{cell_id!r} cannot be a cell's id", hint="Use 1 to 64 of the characters a-z, A-Z, 0-9, - and _"
        )
    if cell_id in document:
        raise NotebookError(f"There is already a cell {cell_id!r}", hint="Give another id, or none")
    return cell_id


def _check_version(cell: Cell, source: str, expected: int | None) -> None:
    if expected is None or cell.version == expected:
        return
    lines = difflib.unified_diff(
        cell.source.splitlines(),
        source.splitlines(),
        fromfile=f"{cell.id}, version {cell.version}",
        tofile=f"your edit of version {expected}",
        lineterm="",
    )
    raise StaleEdit(
        f"Cell {cell.id!r} is at version {cell.version}, and the edit was made for version {expected}",
        diff="\n".join(lines),
        hint=f"Read the cell again and repeat the edit with version {cell.version}",
    )
