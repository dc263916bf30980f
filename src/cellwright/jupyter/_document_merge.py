"""A notebook in the form that all of its writers share, and the three-way merge of such forms. Pure.

A shared document knows fewer values than a file: no lone surrogates, no numbers beyond a browser's, and no difference
between 1 and 1.0. A sheet has only what it knows, so that what merely passed through it is never taken for an edit.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

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
from cellwright.notebook.cells import CellRecord, same
from cellwright.notebook.merge import merge_order, moved_cells

__all__ = [
    "PRIVATE",
    "Sheet",
    "SheetCell",
    "TextEdit",
    "agreed",
    "edited",
    "merged_text",
    "placements",
    "plain",
    "revisions",
    "shared_metadata",
    "sheet_of",
    "text_edits",
]
_EXACT = 2**53

_KINDS = frozenset({"code", "markdown", "raw"})

_ABSENT = object()

# Whether somebody trusts a cell's outputs is theirs alone, and no part of the notebook.
PRIVATE = frozenset({"trusted"})

# What a server writes where a notebook says nothing.
_PLACEHOLDERS: Mapping[str, Any] = {
    "language_info": {"name": ""},
    "kernelspec": {"name": "", "display_name": ""},
}


@dataclass(frozen=True, slots=True)
class SheetCell:
    """One cell. Its values are never altered."""

    id: str
    kind: str
    source: str
    metadata: Mapping[str, Any]
    attachments: Mapping[str, Any]
    outputs: Sequence[Mapping[str, Any]]
    execution_count: int | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> SheetCell:
        """The cell with these fields, as nbformat names them; what is not as it has to be is left out.

        Whoever shares a document may have written anything into it.
        """
        value = plain(fields)
        kind = value.get("cell_type")
        code = kind == "code"
        count = value.get("execution_count")
        return cls(
            id=value["id"],
            kind=kind if kind in _KINDS else "raw",
            source=_text(value.get("source")),
            metadata={
                key: item for key, item in _mapping(value.get("metadata")).items() if key not in PRIVATE
            },
            attachments=_mapping(value.get("attachments")),
            outputs=[one for one in value.get("outputs") or () if is_sound_output(one)] if code else [],
            execution_count=count if code and type(count) is int else None,
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The cell as nbformat has it."""
        fields: dict[str, Any] = {
            "id": self.id,
            "cell_type": self.kind,
            "source": self.source,
            "metadata": dict(self.metadata),
        }
        if self.kind == "code":
            fields |= {"outputs": list(self.outputs), "execution_count": self.execution_count}
        if self.attachments:
            fields["attachments"] = dict(self.attachments)
        return fields

    def says(self, other: SheetCell) -> bool:
        """Whether the two are the same; to Python alone, True would be 1."""
        return self is other or (self == other and same(self.fields, other.fields))


@dataclass(frozen=True, slots=True)
class Sheet:
    """A whole notebook."""

    cells: tuple[SheetCell, ...] = ()
    metadata: Mapping[str, Any] | None = None

    @property
    def ids(self) -> list[str]:
        return [cell.id for cell in self.cells]

    def to_bytes(self) -> bytes:
        """The sheet as a notebook's file, the same bytes whatever the order of names: servers write them in an order of their own."""
        cells = [cell.fields for cell in self.cells]
        whole = {"cells": cells, "metadata": self.metadata or {}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(whole, ensure_ascii=False, sort_keys=True).encode()

    @property
    def by_id(self) -> dict[str, SheetCell]:
        return {cell.id: cell for cell in self.cells}


def sheet_of(
    document: Document,
    known: dict[str, tuple[CellRecord, SheetCell]] | None = None,
    like: Mapping[str, SheetCell] | None = None,
) -> Sheet:
    """A document's sheet.

    ``known`` keeps the cells between calls, as most stay what they are; a cell that says what it says in ``like`` is
    that very one, so that whoever compares the two need not look closer.
    """
    kept = known if known is not None else {}
    cells = []
    for record in document.records:
        before = kept.get(record.id)
        if before is None or before[0] is not record:
            cell, other = SheetCell.of(record.fields), (like or {}).get(record.id)
            same_as = other if other is not None and cell.says(other) else cell
            before = kept[record.id] = (record, same_as)
        cells.append(before[1])
    for gone in kept.keys() - set(document.versions):
        del kept[gone]
    return Sheet(tuple(cells), shared_metadata(document.metadata))


def shared_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook's metadata without what stands for nothing."""
    value: dict[str, Any] = plain(metadata)
    return {key: item for key, item in value.items() if item != _PLACEHOLDERS.get(key, _ABSENT)}


def is_sound_output(output: Any) -> bool:
    """Whether this is an output that everybody can show."""
    match output:
        case {"output_type": "stream", "name": str(), "text": str()}:
            return True
        case {"output_type": "display_data" | "execute_result", "data": dict()}:
            return True
        case {"output_type": "error", "ename": str(), "evalue": str(), "traceback": list(lines)}:
            return all(isinstance(line, str) for line in lines)
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def plain(value: Any) -> Any:
    """A value as a shared document gives it back."""
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        case bool() | None:
            return value
        case int() | float():
            return _real(value)
        case Mapping():
            return {plain(str(key)): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return plain(str(value))


def _real(value: float) -> float | int | None:
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


# Three sheets become one -------------------------------------------------------------------------------------------


def agreed(base: Sheet, ours: Sheet, theirs: Sheet, *, running: Collection[str] = ()) -> Sheet:
    """What both sides made of ``base``, together.

    Edits of one text are merged; where both set the same value otherwise, ours stands. A cell that one side edited and
    the other deleted is kept. Of ``running`` cells the outputs are ours.
    """
    befores, mines, others = base.by_id, ours.by_id, theirs.by_id
    merged: dict[str, SheetCell] = {}
    for cell_id in dict.fromkeys([*mines, *others]):
        before, mine, other = befores.get(cell_id), mines.get(cell_id), others.get(cell_id)
        if mine is not None and other is not None:
            merged[cell_id] = _agreed_cell(before, mine, other, ours_ran=cell_id in running)
            continue
        survivor = mine if mine is not None else other
        if survivor is not None and (before is None or before.source != survivor.source):
            merged[cell_id] = survivor
    order = merge_order(base.ids, ours.ids, theirs.ids, merged)
    metadata = _agreed_mapping(base.metadata or {}, ours.metadata or {}, theirs.metadata or {})
    return Sheet(tuple(merged[cell_id] for cell_id in order), metadata)


def _agreed_cell(before: SheetCell | None, mine: SheetCell, other: SheetCell, *, ours_ran: bool) -> SheetCell:
    if mine is before and not ours_ran:
        return other
    if other is before:
        return mine
    if before is None:
        # Both made it at once, or what they had in common is not known: whatever either wrote is kept.
        before = replace(mine, source="", metadata={}, attachments={}, outputs=[], execution_count=None)
    run_is_theirs = not ours_ran and same(_run_of(mine), _run_of(before))
    outputs, count = _run_of(other if run_is_theirs else mine)
    kind = other.kind if mine.kind == before.kind else mine.kind
    return SheetCell(
        id=mine.id,
        kind=kind,
        source=merged_text(before.source, mine.source, other.source),
        metadata=_agreed_mapping(before.metadata, mine.metadata, other.metadata),
        attachments=_agreed_mapping(before.attachments, mine.attachments, other.attachments),
        outputs=outputs if kind == "code" else [],
        execution_count=count if kind == "code" else None,
    )


def _run_of(cell: SheetCell) -> tuple[Sequence[Mapping[str, Any]], int | None]:
    return cell.outputs, cell.execution_count


def _agreed_mapping(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key in dict.fromkeys([*ours, *theirs]):
        before, mine, other = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            merged[key] = _agreed_mapping(before if isinstance(before, Mapping) else {}, mine, other)
            continue
        chosen = other if _alike(mine, before) else mine
        if chosen is not _ABSENT:
            merged[key] = chosen
    return merged


def _alike(left: Any, right: Any) -> bool:
    if left is _ABSENT or right is _ABSENT:
        return left is right
    return same(left, right)


# How one text becomes another by small edits, and how two people's edits of one text become one text. Pure.

_token = re.compile(r"\w+|\s|[^\w\s]")

# Comparing takes time that grows with the square of the texts: longer ones are compared by lines alone.
_MOST_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class TextEdit:
    """``text`` stands in place of the characters from ``start`` up to ``stop``, counted in the text as it was."""

    start: int
    stop: int
    text: str


def text_edits(before: str, after: str) -> list[TextEdit]:
    """Few and small edits, in order and apart from each other, that make ``after`` of ``before``."""
    if before == after:
        return []
    shortest = min(len(before), len(after))
    head = _most(shortest, lambda length: before[:length] == after[:length])
    tail = _most(shortest - head, lambda length: before.endswith(after[len(after) - length :]))
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old or not new:
        return [TextEdit(head, head + len(old), new)]
    return _joined(_between(old, new, head))


def edited(before: str, edits: Sequence[TextEdit]) -> str:
    """The text after these edits."""
    parts, end = [], 0
    for edit in edits:
        parts += [before[end : edit.start], edit.text]
        end = edit.stop
    return "".join([*parts, before[end:]])


def merged_text(base: str, ours: str, theirs: str) -> str:
    """Both sides' edits of ``base`` together: whatever one of them wrote is there, what one took out is not.

    What both wrote alike in one place is there once, so that an edit which came two ways is not made twice.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    written: dict[int, list[str]] = {}
    removed = [False] * len(base)
    for side in (ours, theirs):
        for edit in text_edits(base, side):
            removed[edit.start : edit.stop] = [True] * (edit.stop - edit.start)
            if edit.text:
                _add(written.setdefault(edit.start, []), edit.text)
    parts: list[str] = []
    for place in range(len(base) + 1):
        parts += written.get(place, ())
        if place < len(base) and not removed[place]:
            parts.append(base[place])
    return "".join(parts)


def _most(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to the limit for which it holds, where it holds for all that are smaller."""
    return bisect(range(1, limit + 1), 0, key=lambda length: int(not holds(length)))


def _between(old: str, new: str, offset: int) -> Iterator[TextEdit]:
    olds, news = _token.findall(old), _token.findall(new)
    if len(olds) > _MOST_TOKENS or len(news) > _MOST_TOKENS:
        olds, news = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if len(olds) > _MOST_TOKENS or len(news) > _MOST_TOKENS:
        yield TextEdit(offset, offset + len(old), new)
        return
    starts = [offset]
    for token in olds:
        starts.append(starts[-1] + len(token))
    matcher = difflib.SequenceMatcher(None, olds, news, autojunk=False)
    for tag, low, high, start, stop in matcher.get_opcodes():
        if tag != "equal":
            yield TextEdit(starts[low], starts[high], "".join(news[start:stop]))


def _joined(edits: Iterator[TextEdit]) -> list[TextEdit]:
    """Edits that touch as one."""
    joined: list[TextEdit] = []
    for edit in edits:
        if joined and joined[-1].stop == edit.start:
            last = joined.pop()
            joined.append(TextEdit(last.start, edit.stop, last.text + edit.text))
        else:
            joined.append(edit)
    return joined


def _add(written: list[str], text: str) -> None:
    """Put a second text in the same place, unless one of the two only goes on where the other ends."""
    for index, other in enumerate(written):
        if other.startswith(text):
            return
        if text.startswith(other):
            written[index] = text
            return
    written.append(text)


# What must happen to a document so that it says what a sheet says, as the changes that a journal keeps.
# Pure.


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
