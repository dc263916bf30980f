"""What must happen to a document so that it says what a sheet says, as the changes that a journal keeps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cellwright.livedocs.sheets import Sheet, SheetCell
from cellwright.notebook import (
    CellAdded,
    CellDeleted,
    CellKind,
    CellMetadataSet,
    CellMoved,
    Change,
    Document,
    DocumentReplaced,
    NotebookMetadataSet,
    OutputsSet,
    SourceChanged,
)
from cellwright.notebook.cells import CellRecord
from cellwright.notebook.jsontext import same
from cellwright.notebook.merge import moved_cells

__all__ = ["placements", "revisions"]


def revisions(document: Document, before: Sheet, after: Sheet) -> list[Change]:
    """The changes that bring a document from its own sheet, ``before``, to another; it is not altered itself.

    What the two sheets agree in is left as the document has it, also where a sheet cannot say it all.
    """
    news = after.by_id
    olds = {cell.id: cell for cell in before.cells if cell.id in news and news[cell.id].kind == cell.kind}
    changes: list[Change] = [CellDeleted(cell_id) for cell_id in before.ids if cell_id not in olds]
    for cell_id, place, is_new in placements(list(olds), after.ids):
        if is_new:
            changes += _added(news[cell_id], place)
        else:
            changes.append(CellMoved(cell_id, place))
    for cell in after.cells:
        if cell.id in olds:
            changes += _altered(document, olds[cell.id], cell)
    if not same(before.metadata, after.metadata):
        metadata = _taken(document.metadata, before.metadata or {}, after.metadata or {})
        changes.append(NotebookMetadataSet(metadata))
    return _with_attachments(document, olds, after, changes)


def placements(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, int, bool]]:
    """What to put where, one after the other, so that the cells of ``after`` stand in its order.

    Each is a cell, its position counted without it, and whether it is new. As few as can be are moved.
    """
    order, moved, known = list(before), moved_cells(before, after), set(before)
    previous: str | None = None
    for cell_id in after:
        if cell_id in moved:
            order.remove(cell_id)
        if cell_id in moved or cell_id not in known:
            place = 0 if previous is None else order.index(previous) + 1
            order.insert(place, cell_id)
            yield cell_id, place, cell_id not in known
        previous = cell_id


def _added(cell: SheetCell, place: int) -> Iterator[Change]:
    yield CellAdded(cell.id, cast("CellKind", cell.kind), cell.source, place, dict(cell.metadata))
    if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
        yield OutputsSet(cell.id, [dict(output) for output in cell.outputs], cell.execution_count)


def _altered(document: Document, before: SheetCell, after: SheetCell) -> Iterator[Change]:
    if before is after:
        return
    if before.source != after.source:
        yield SourceChanged(after.id, after.source)
    if not same(before.outputs, after.outputs) or before.execution_count != after.execution_count:
        yield OutputsSet(after.id, [dict(output) for output in after.outputs], after.execution_count)
    if not same(before.metadata, after.metadata):
        own = document.cell(after.id).metadata
        yield CellMetadataSet(after.id, _taken(own, before.metadata, after.metadata))


def _taken(own: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """A document's own values, but for those in which the two sheets differ."""
    kept = {key: value for key, value in own.items() if key in after or key not in before}
    new = {key: value for key, value in after.items() if key not in before or not same(before[key], value)}
    return kept | new


def _with_attachments(
    document: Document, olds: Mapping[str, SheetCell], after: Sheet, changes: list[Change]
) -> list[Change]:
    """No change says what is attached to a cell: where that differs, the whole document is said anew."""
    attached = {
        cell.id: dict(cell.attachments)
        for cell in after.cells
        if not same(cell.attachments, olds[cell.id].attachments if cell.id in olds else {})
    }
    if not attached:
        return changes
    twin = document.copy()
    for change in changes:
        twin.apply(change)
    records = [
        _attach(record, attached[record.id]) if record.id in attached else record for record in twin.records
    ]
    whole = Document(twin.shell, records, versions=twin.versions)
    return [DocumentReplaced(whole.to_bytes().decode(), whole.versions)]


def _attach(record: CellRecord, attachments: dict[str, Any]) -> CellRecord:
    if attachments:
        return record.changed({"attachments": attachments})
    return record.changed({}, without=frozenset({"attachments"}))
