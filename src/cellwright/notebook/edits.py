"""Edits of a document: each function checks a request and returns the change that fulfils it.

Pure: nothing is applied here. The caller journals the change, then applies it (see document). Positions count from
0; those below 0 are refused, since counting from the end means one thing for ``list.insert`` and another for people.
"""

from __future__ import annotations

import ast
import difflib
import json
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from cellwright.errors import NotebookError, StaleEdit, TooManyCells
from cellwright.notebook.cells import Cell, CellKind, is_valid_id, new_id
from cellwright.notebook.document import (
    CellAdded,
    CellDeleted,
    CellMetadataSet,
    CellMoved,
    Change,
    Document,
    SourceChanged,
)
from cellwright.notebook.languages import own_section

__all__ = [
    "Comment",
    "add_cell",
    "change_source",
    "comments_of",
    "delete_cell",
    "inject_parameters",
    "move_cell",
    "parse_parameter",
    "with_comment",
    "without_comment",
]


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


# Gives a notebook values from outside, in a cell that runs after its own defaults, as papermill does. Pure.

_DEFAULTS_TAG = "parameters"

_INJECTED_TAG = "injected-parameters"


def parse_parameter(text: str) -> tuple[str, Any]:
    """Read ``name=value``; the value is JSON or a Python literal where it is one, else the text itself.

    Raises:
        NotebookError: there is no name, or it cannot be a variable's.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise NotebookError(f"{text!r} is not a parameter", hint="Write it as name=value, e.g. rows=100")
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(value)
        except (ValueError, SyntaxError):
            continue
    return name, value


def inject_parameters(document: Document, values: Mapping[str, Any]) -> list[Change]:
    """The changes that put these values behind the cell tagged ``edits``, or first where there is none.

    A cell that an earlier run injected is replaced.
    """
    changes: list[Change] = []
    position = 0
    for index, cell in enumerate(cell for cell in document.cells if _INJECTED_TAG not in cell.tags):
        if _DEFAULTS_TAG in cell.tags:
            position = index + 1
    changes += [CellDeleted(cell.id) for cell in document.cells if _INJECTED_TAG in cell.tags]
    lines = ["# Parameters", *(f"{name} = {value!r}" for name, value in values.items())]
    added = CellAdded(
        cell_id=new_id(document),
        kind="code",
        source="\n".join(lines),
        position=position,
        metadata={"tags": [_INJECTED_TAG]},
    )
    return [*changes, added]


# What people remark on cells: kept in a cell's metadata, beside the code and never in it. Pure.

MAX_COMMENT = 4_000

_MOST = 50

_OWN, _KEY = "cellwright", "comments"


@dataclass(frozen=True, slots=True)
class Comment:
    """One remark."""

    by: str
    at: float
    text: str

    @property
    def key(self) -> str:
        """By which it is found among those of its cell."""
        return f"{self.at:.3f}"


def comments_of(cell: Cell) -> tuple[Comment, ...]:
    """A cell's comments, oldest first. What is no comment, in a file that somebody else wrote, is passed over."""
    held = own_section(cell.metadata).get(_KEY)
    found = [_comment(one) for one in held] if isinstance(held, list) else []
    return tuple(one for one in found if one is not None)


def with_comment(cell: Cell, comment: Comment) -> CellMetadataSet:
    """A cell's metadata with one more; of very many the oldest go."""
    text = comment.text[:MAX_COMMENT]
    return _with(cell, [*comments_of(cell), Comment(comment.by, round(comment.at, 3), text)][-_MOST:])


def without_comment(cell: Cell, key: str) -> CellMetadataSet:
    """A cell's metadata without one of them."""
    return _with(cell, [one for one in comments_of(cell) if one.key != key])


def _with(cell: Cell, comments: Iterable[Comment]) -> CellMetadataSet:
    ours = {name: value for name, value in own_section(cell.metadata).items() if name != _KEY}
    told = [asdict(one) for one in comments]
    metadata = dict(cell.metadata)
    metadata[_OWN] = {**ours, _KEY: told} if told else ours
    return CellMetadataSet(cell.id, metadata)


def _comment(held: Any) -> Comment | None:
    if not isinstance(held, Mapping):
        return None
    by, at, text = (held.get(name) for name in ("by", "at", "text"))
    if not isinstance(by, str) or not isinstance(text, str) or isinstance(at, bool):
        return None
    return Comment(by, float(at), text) if isinstance(at, int | float) else None
