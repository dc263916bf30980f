"""A notebook as all of its writers can hold it, and how three such sheets become one. Pure.

A shared document knows fewer values than a file: no lone surrogates, no numbers beyond a browser's, and no difference
between 1 and 1.0. A sheet has only what it knows, so that what merely passed through it is never taken for an edit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cellwright.livedocs.texts import merged_text
from cellwright.notebook import Document
from cellwright.notebook.cells import CellRecord
from cellwright.notebook.jsontext import same
from cellwright.notebook.merge import merge_order

__all__ = [
    "PRIVATE",
    "Sheet",
    "SheetCell",
    "agreed",
    "is_sound_output",
    "plain",
    "shared_metadata",
    "sheet_of",
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
        """The sheet as a notebook's file."""
        cells = [cell.fields for cell in self.cells]
        whole = {"cells": cells, "metadata": self.metadata or {}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(whole, ensure_ascii=False).encode()

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
