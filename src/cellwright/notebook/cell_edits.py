"""What people do with several cells at once, as changes of a document, and what takes changes back. Pure.

Each function reads a document and returns the changes; nothing is altered until they are applied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.errors import NotebookError
from cellwright.notebook.cells import Cell, CellKind, new_id, source_hash
from cellwright.notebook.document import (
    CellAdded,
    CellDeleted,
    CellMetadataSet,
    CellMoved,
    Change,
    Document,
    OutputsSet,
    SourceChanged,
    add_cell,
    change_source,
    decode_change,
    encode_change,
)

__all__ = [
    "CellCopy",
    "EditStep",
    "FoldPart",
    "change_kinds",
    "copy_cells",
    "decode_step",
    "delete_cells",
    "encode_step",
    "fold_cells",
    "is_folded",
    "merge_cells",
    "move_cells",
    "paste_cells",
    "reversing",
    "rewrite_cells",
    "split_cell",
]

FoldPart: TypeAlias = Literal["source", "outputs"]

_COMMON_FIELDS = frozenset({"id", "cell_type", "source", "metadata", "outputs", "execution_count"})

_MOST_COPIED = 1 << 20
"""Of a cell's outputs, in characters; a copy of a cell with more has none."""


class CellCopy(msgspec.Struct, frozen=True):
    """A cell as it is held to be put elsewhere."""

    kind: CellKind
    source: str
    metadata: dict[str, Any] = {}
    outputs: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}


def copy_cells(document: Document, cell_ids: Sequence[str]) -> list[CellCopy]:
    """The cells in the notebook's order, whatever the order they are named in."""
    copies = []
    for record in document.records:
        if record.id in cell_ids:
            outputs = record.fields.get("outputs", [])
            held = outputs if len(json.dumps(outputs)) <= _MOST_COPIED else []
            rest = {key: value for key, value in record.fields.items() if key not in _COMMON_FIELDS}
            copies.append(CellCopy(record.kind, record.source, dict(record.fields["metadata"]), held, rest))
    return copies


def paste_cells(
    document: Document, copies: Iterable[CellCopy], position: int, *, max_cells: int
) -> list[Change]:
    """Put copies at a position, under new ids.

    Raises:
        TooManyCells: the notebook would have more than ``max_cells``.
    """
    draft, changes = document.copy(), list[Change]()
    for place, copy in enumerate(copies, position):
        added = add_cell(
            draft, copy.kind, copy.source, max_cells=max_cells, position=place, metadata=copy.metadata
        )
        if copy.fields:
            added = msgspec.structs.replace(added, fields=copy.fields)
        made: list[Change] = [added]
        if copy.kind == "code" and copy.outputs:
            made.append(OutputsSet(added.cell_id, copy.outputs, None))
        for change in made:
            draft.apply(change)
        changes += made
    return changes


def delete_cells(document: Document, cell_ids: Iterable[str]) -> list[Change]:
    """Delete cells; one that is gone already is passed over."""
    return [CellDeleted(cell_id) for cell_id in dict.fromkeys(cell_ids) if cell_id in document]


def move_cells(document: Document, cell_ids: Sequence[str], before: str | None) -> list[Change]:
    """Move cells, in their order, to before another, or to the end."""
    draft, changes = document.copy(), list[Change]()
    if before in cell_ids:
        return []
    for cell_id in _in_order(document, cell_ids):
        here = draft.index(cell_id)
        last = len(draft) - 1
        there = last if before is None else draft.index(before) - (here < draft.index(before))
        if here != there:
            changes.append(CellMoved(cell_id, there))
            draft.apply(changes[-1])
    return changes


def change_kinds(document: Document, cell_ids: Iterable[str], kind: CellKind) -> list[Change]:
    """Make code cells of texts or texts of code cells, under their ids; a text has no outputs."""
    changes = list[Change]()
    for cell_id in cell_ids:
        cell = document.cell(cell_id)
        if cell.kind != kind:
            position = document.index(cell_id)
            changes += [
                CellDeleted(cell_id),
                CellAdded(cell_id, kind, cell.source, position, dict(cell.metadata)),
            ]
    return changes


def split_cell(document: Document, cell_id: str, at: int) -> list[Change]:
    """Cut a cell in two at a character of its source.

    Raises:
        NotebookError: there is no such place in it.
    """
    cell = document.cell(cell_id)
    if not 0 <= at <= len(cell.source):
        raise NotebookError(
            f"There is no position {at} in the cell", hint=f"Give one from 0 to {len(cell.source)}"
        )
    head, tail = cell.source[:at].removesuffix("\n"), cell.source[at:].removeprefix("\n")
    own = {key: value for key, value in cell.metadata.items() if key not in {"execution", "cellwright"}}
    if cell.language is not None and "cellwright" in cell.metadata:
        own["cellwright"] = {
            key: value for key, value in cell.metadata["cellwright"].items() if key == "language"
        }
    added = CellAdded(new_id(document), cell.kind, tail, document.index(cell_id) + 1, own)
    return [SourceChanged(cell_id, head), added]


def merge_cells(document: Document, cell_ids: Sequence[str]) -> list[Change]:
    """Put the sources of cells together in the first of them.

    Raises:
        NotebookError: they are fewer than two, or of different kinds or languages.
    """
    cells = [document.cell(cell_id) for cell_id in _in_order(document, cell_ids)]
    if len(cells) < 2:
        raise NotebookError("One cell cannot be merged", hint="Choose several with Shift and the arrow keys")
    if len({(cell.kind, cell.language) for cell in cells}) > 1:
        raise NotebookError(
            "Cells of different kinds cannot be merged", hint="Change their kind first, with the keys m and y"
        )
    joint = "\n" if cells[0].kind == "code" else "\n\n"
    source = joint.join(cell.source for cell in cells)
    return [SourceChanged(cells[0].id, source), *(CellDeleted(cell.id) for cell in cells[1:])]


def fold_cells(document: Document, cell_ids: Iterable[str], part: FoldPart) -> list[Change]:
    """Fold the sources or the outputs of cells, or unfold them where all are folded, as Jupyter's programs keep it."""
    cells, key = [document.cell(cell_id) for cell_id in cell_ids], f"{part}_hidden"
    fold = not all(_jupyter(cell).get(key) is True for cell in cells)
    changes = list[Change]()
    for cell in cells:
        held = {name: value for name, value in _jupyter(cell).items() if name != key}
        metadata = {name: value for name, value in cell.metadata.items() if name != "jupyter"}
        held |= {key: True} if fold else {}
        changes.append(CellMetadataSet(cell.id, metadata | ({"jupyter": held} if held else {})))
    return changes


def is_folded(cell: Cell, part: FoldPart) -> bool:
    """Whether this part of a cell is folded."""
    return _jupyter(cell).get(f"{part}_hidden") is True


def rewrite_cells(document: Document, sources: Iterable[tuple[str, int, str]]) -> list[Change]:
    """Give cells other sources, each made from the version that is named.

    Raises:
        StaleEdit: one of them was changed meanwhile; none is rewritten.
    """
    return [
        change_source(document, cell_id, source, expected_version=version)
        for cell_id, version, source in sources
    ]


def _jupyter(cell: Cell) -> Mapping[str, Any]:
    held = cell.metadata.get("jupyter")
    return held if isinstance(held, Mapping) else {}


def _in_order(document: Document, cell_ids: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(cell_ids), key=document.index)


# What takes changes back.


class EditStep(msgspec.Struct, frozen=True):
    """Changes that bring a document to where it was, and the sources that it must still have for that."""

    changes: tuple[Change, ...]
    expects: dict[str, str]
    """Hashes of sources by cell: who changed one meanwhile must not lose it."""

    def fitting(self, document: Document) -> list[Change]:
        """The changes as they fit a document in which others have worked.

        Raises:
            NotebookError: a cell is gone, or has another source.
        """
        for cell_id, mark in self.expects.items():
            if cell_id not in document or source_hash(document.cell(cell_id).source) != mark:
                raise NotebookError(
                    "Somebody changed the cell meanwhile: taking this back would lose that",
                    hint="Change it by hand, or ask whoever works on it",
                )
        fitted, draft = list[Change](), document.copy()
        for change in self.changes:
            fitting = change
            if isinstance(change, CellAdded | CellMoved):
                last = len(draft) - isinstance(change, CellMoved)
                fitting = msgspec.structs.replace(change, position=min(change.position, last))
            draft.apply(fitting)
            fitted.append(fitting)
        return fitted


def reversing(document: Document, changes: Sequence[Change]) -> EditStep:
    """What takes these changes back, once they were made to this document."""
    draft, back = document.copy(), list[list[Change]]()
    for change in changes:
        back.append(_reverse(draft, change))
        draft.apply(change)
    written = {one.cell_id for one in changes if isinstance(one, SourceChanged | CellAdded)}
    expects = {
        cell_id: source_hash(draft.cell(cell_id).source) for cell_id in sorted(written) if cell_id in draft
    }
    return EditStep(tuple(change for group in reversed(back) for change in group), expects)


def _reverse(document: Document, change: Change) -> list[Change]:
    match change:
        case CellAdded():
            return [CellDeleted(change.cell_id)]
        case CellDeleted(cell_id):
            return _again(document, cell_id)
        case CellMoved(cell_id):
            return [CellMoved(cell_id, document.index(cell_id))]
        case SourceChanged(cell_id):
            return [SourceChanged(cell_id, document.cell(cell_id).source)]
        case CellMetadataSet(cell_id):
            return [CellMetadataSet(cell_id, dict(document.cell(cell_id).metadata))]
        case OutputsSet(cell_id):
            cell = document.cell(cell_id)
            return [OutputsSet(cell_id, list(cell.outputs), cell.execution_count)]
        case _:
            raise NotebookError("What changes the notebook as a whole cannot be taken back")


def _again(document: Document, cell_id: str) -> list[Change]:
    """A cell as it stands, to be added once more."""
    cell = document.cell(cell_id)
    fields = next(record.fields for record in document.records if record.id == cell_id)
    rest = {key: value for key, value in fields.items() if key not in _COMMON_FIELDS}
    added = CellAdded(cell_id, cell.kind, cell.source, document.index(cell_id), dict(cell.metadata))
    changes: list[Change] = [msgspec.structs.replace(added, fields=rest) if rest else added]
    if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
        changes.append(OutputsSet(cell_id, list(cell.outputs), cell.execution_count))
    return changes


def encode_step(step: EditStep) -> str:
    """The step as JSON."""
    changes = [json.loads(encode_change(change)) for change in step.changes]
    return json.dumps({"changes": changes, "expects": step.expects}, separators=(",", ":"))


def decode_step(text: str) -> EditStep:
    """The step that was encoded."""
    held = json.loads(text)
    changes = tuple(decode_change(json.dumps(change).encode()) for change in held["changes"])
    return EditStep(changes, held["expects"])
