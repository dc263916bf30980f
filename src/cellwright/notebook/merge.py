"""Three-way merge of notebooks, cell by cell: what we have, what somebody else saved, and what both came from.

Nothing that either side wrote is dropped: where both changed one cell's text, ours stays and theirs becomes a cell
of its own behind it. Pure; when to merge and where to report is the engine's business.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cellwright.notebook._parse import Shell
from cellwright.notebook.cells import TIMES_SECTION, CellRecord, derived_id, same
from cellwright.notebook.document import Document

__all__ = ["Conflict", "Merge", "merge", "merge_order", "moved_cells"]
_CONTENT = ("cell_type", "source", "attachments")

_RUN = ("outputs", "execution_count")

_TIMES = f"metadata.{TIMES_SECTION}"

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that both sides changed, and what became of it."""

    cell_id: str | None
    """The cell, or None where it is about the notebook's own metadata."""
    copy_id: str | None
    """The cell that holds their text, where one was added."""
    description: str


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged document, what both sides had changed, and whether it differs from ours at all."""

    document: Document
    conflicts: tuple[Conflict, ...]
    changed: bool


def merge(base: Document, ours: Document, theirs: Document) -> Merge:
    """Bring both sides' changes since ``base`` together; none of the three is altered."""
    names = match_cells(base, ours, theirs)
    cells = _Cells(
        base={record.id: record for record in base.records},
        ours={record.id: record for record in ours.records},
        theirs={names.get(record.id, record.id): _renamed(record, names) for record in theirs.records},
    )
    conflicts: list[Conflict] = []
    merged: dict[str, CellRecord] = {}
    copies: dict[str, CellRecord] = {}
    for cell_id in dict.fromkeys([*cells.ours, *cells.theirs]):
        outcome = cells.merged(cell_id)
        conflicts += outcome.conflicts
        if outcome.record is not None:
            merged[cell_id] = outcome.record
        if outcome.copy is not None:
            copies[cell_id] = outcome.copy
    shell, shell_conflicts = _merge_shells(base.shell, ours.shell, theirs.shell)
    records: list[CellRecord] = []
    for cell_id in merge_order([*cells.base], [*cells.ours], [*cells.theirs], merged):
        records += [merged[cell_id], *([copies[cell_id]] if cell_id in copies else [])]
    document = Document(shell, records, versions=_versions(base, ours, merged))
    changed = document.to_bytes() != ours.to_bytes()
    return Merge(document, (*shell_conflicts, *conflicts), changed)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What becomes of one cell: None where it is gone, and a copy where their text needs a cell of its own."""

    record: CellRecord | None
    copy: CellRecord | None = None
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cells:
    """All three sides' cells under the ids that they have in common."""

    base: Mapping[str, CellRecord]
    ours: Mapping[str, CellRecord]
    theirs: Mapping[str, CellRecord]

    def merged(self, cell_id: str) -> _Outcome:
        before, mine, other = self.base.get(cell_id), self.ours.get(cell_id), self.theirs.get(cell_id)
        if mine is not None and other is not None:
            return self._both(before, mine, other)
        survivor = mine if mine is not None else other
        if survivor is None or before is None:
            return _Outcome(survivor)
        if _same_fields(_CONTENT, survivor, before):
            return _Outcome(None)  # its outputs may be new, but a run is no edit and does not undo a deletion
        who = (
            "edited here and deleted in the file"
            if mine is not None
            else "deleted here and edited in the file"
        )
        note = Conflict(cell_id, None, f"Cell {cell_id!r} was {who}; the edited cell is kept")
        return _Outcome(survivor, conflicts=(note,))

    def _both(self, before: CellRecord | None, mine: CellRecord, other: CellRecord) -> _Outcome:
        if before is not None and mine.raw == before.raw:
            return _Outcome(other)
        if mine.raw == other.raw or (before is not None and other.raw == before.raw):
            return _Outcome(mine)
        content: tuple[str, ...] = _CONTENT
        run: tuple[str, ...] = _RUN
        if mine.fields["cell_type"] != other.fields["cell_type"]:
            content, run = _CONTENT + _RUN, ()  # outputs go with the kind of cell that has them
        clash = not _same_fields(content, mine, other) and not any(
            _same_fields(content, side, before) for side in (mine, other)
        )
        from_theirs: tuple[str, ...] = content if _same_fields(content, mine, before) else ()
        if _same_fields(run, mine, before):
            from_theirs += run
        fields = {
            key: mine.fields[key] for key in (*content, *run) if key in mine.fields and key not in from_theirs
        }
        fields |= {key: other.fields[key] for key in from_theirs if key in other.fields}
        rest, notes = self._rest(before, mine, other)
        record = _pick(mine, other, {**rest, **fields, "id": mine.id})
        if not clash:
            return _Outcome(record, conflicts=notes)
        return self._with_copy(record, other, notes)

    def _rest(
        self, before: CellRecord | None, mine: CellRecord, other: CellRecord
    ) -> tuple[dict[str, Any], tuple[Conflict, ...]]:
        """Metadata, and whatever else a cell may hold that is neither text nor outputs."""
        decided = (*_CONTENT, *_RUN, "id")
        earlier = _without(before.fields if before else {}, decided)
        merged, paths = _merge_mappings(
            earlier, _without(mine.fields, decided), _without(other.fields, decided)
        )
        text = "Cell {!r}: {} was changed here and in the file; ours is kept"
        # Two programs that show one run tell its times each by its own clock: nobody edited them.
        reported = [path for path in paths if not path.startswith(_TIMES)]
        return merged, tuple(Conflict(mine.id, None, text.format(mine.id, path)) for path in reported)

    def _with_copy(self, record: CellRecord, other: CellRecord, notes: tuple[Conflict, ...]) -> _Outcome:
        copy_id = derived_id(f"{record.id}:{other.source}", {*self.base, *self.ours, *self.theirs})
        own = other.fields["metadata"].get("cellwright")
        marker = {**(own if isinstance(own, dict) else {}), "conflict_with": record.id}
        copy = other.changed({"id": copy_id, "metadata": {**other.fields["metadata"], "cellwright": marker}})
        text = f"Cell {record.id!r} was edited here and in the file; the file's text is in cell {copy_id!r} after it"
        return _Outcome(record, copy, (Conflict(record.id, copy_id, text), *notes))


def _renamed(record: CellRecord, names: Mapping[str, str]) -> CellRecord:
    return record.changed({"id": names[record.id]}) if record.id in names else record


def _same_fields(keys: Iterable[str], left: CellRecord, right: CellRecord | None) -> bool:
    if right is None:
        return False
    return all(_same(left.fields.get(key, _ABSENT), right.fields.get(key, _ABSENT)) for key in keys)


def _same(left: Any, right: Any) -> bool:
    if left is _ABSENT or right is _ABSENT:
        return left is right
    return same(left, right)


def _without(fields: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    dropped = set(keys)
    return {key: value for key, value in fields.items() if key not in dropped}


def _pick(mine: CellRecord, other: CellRecord, fields: dict[str, Any]) -> CellRecord:
    """A record of these fields that keeps as many bytes as can be."""
    for side in (mine, other):
        if same(side.fields, fields):
            return side
    touched = {key: value for key, value in fields.items() if not _same(mine.fields.get(key, _ABSENT), value)}
    return mine.changed(touched, without=frozenset(mine.fields.keys() - fields.keys()))


def _merge_mappings(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Merge key by key; the second part names the keys that both sides changed, where ours is kept."""
    merged: dict[str, Any] = {}
    clashes: list[str] = []
    for key in dict.fromkeys([*ours, *theirs]):
        before, mine, other = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        if isinstance(mine, dict) and isinstance(other, dict):
            inner = before if isinstance(before, dict) else {}
            merged[key], deeper = _merge_mappings(inner, mine, other, f"{path}{key}.")
            clashes += deeper
            continue
        if not _same(mine, other) and not _same(mine, before) and not _same(other, before):
            clashes.append(f"{path}{key}")
        chosen = other if _same(mine, before) else mine
        if chosen is not _ABSENT:
            merged[key] = chosen
    return merged, clashes


def _merge_shells(base: Shell, ours: Shell, theirs: Shell) -> tuple[Shell, tuple[Conflict, ...]]:
    outline = theirs if _outline(ours) == _outline(base) else ours
    source, paths = _merge_metadata(base, ours, theirs)
    text = "Notebook metadata: {} was changed here and in the file; ours is kept"
    conflicts = tuple(Conflict(None, None, text.format(path)) for path in paths)
    members = outline.members.with_texts({"metadata": source.members.texts["metadata"]})
    return replace(outline, members=members, metadata=source.metadata), conflicts


def _merge_metadata(base: Shell, ours: Shell, theirs: Shell) -> tuple[Shell, list[str]]:
    """The shell that holds the merged metadata, with the bytes of one side where that can be."""
    before, mine, other = (side.members.texts["metadata"] for side in (base, ours, theirs))
    if mine in {before, other}:
        return theirs, []
    if other == before:
        return ours, []
    metadata, paths = _merge_mappings(base.metadata, ours.metadata, theirs.metadata)
    for side in (ours, theirs):
        if same(side.metadata, metadata):
            return side, paths
    return ours.with_metadata(metadata), paths


def _outline(shell: Shell) -> tuple[Any, ...]:
    return _without(shell.members.texts, ["metadata"]), shell.members.leads, shell.gaps, shell.margins


def _versions(base: Document, ours: Document, merged: Mapping[str, CellRecord]) -> dict[str, int]:
    """A cell that takes their text is at a new version of ours, so that edits of the old text are noticed."""
    versions = {}
    for cell_id, record in merged.items():
        known = ours if cell_id in ours else base if cell_id in base else None
        if known is not None:
            cell = known.cell(cell_id)
            versions[cell_id] = cell.version + (cell.source != record.source)
    return versions


# Which cells of two documents are the same cell, and in what order the merged cells stand.

_ALIKE = 0.6

_LOOK_AHEAD = 8  # cells; comparing each with each would take minutes in a long notebook

_COMPARED_CHARACTERS = 2_000

_Text = tuple[str, str]


def match_cells(base: Document, ours: Document, theirs: Document) -> dict[str, str]:
    """Their cells under new ids that are really cells we know: their id to ours.

    A cell of the same kind and text as one that vanished is that one. Where not one id is left, the other program
    regenerates ids, and then a cell that is merely alike is taken for an edited one too.
    """
    known = {record.id for record in (*base.records, *ours.records)}
    lost = [record for record in base.records if record.id not in theirs]
    found = [record for record in theirs.records if record.id not in known]
    texts = _Texts([(record.kind, record.source) for record in lost], [(r.kind, r.source) for r in found])
    pairs = texts.equal()
    if len(lost) == len(base):
        pairs += texts.alike(anchored=bool(pairs))
    return {found[right].id: lost[left].id for left, right in pairs}


def merge_order(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], kept: Collection[str]
) -> list[str]:
    """The order of the kept cells: ours, with the cells that only they moved or added put where they put them."""
    moved = moved_cells(base, theirs) - moved_cells(base, ours)
    order = [cell_id for cell_id in ours if cell_id in kept and cell_id not in moved]
    placed = set(order)
    only_ours = placed.difference(base, theirs)
    previous: str | None = None
    for cell_id in theirs:
        if cell_id in kept and cell_id not in placed:
            place = 0 if previous is None else order.index(previous) + 1
            # What both sides added in one place stands together, ours first.
            while place < len(order) and order[place] in only_ours:
                place += 1
            order.insert(place, cell_id)
            placed.add(cell_id)
        if cell_id in placed:
            previous = cell_id
    return order


def moved_cells(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """The fewest cells whose moving explains the new order: all but a longest run that kept its order."""
    place = {cell_id: index for index, cell_id in enumerate(before)}
    common = [cell_id for cell_id in after if cell_id in place]
    tails: list[int] = []
    ends: list[str] = []
    links: dict[str, str | None] = {}
    for cell_id in common:
        length = bisect_left(tails, place[cell_id])
        links[cell_id] = ends[length - 1] if length else None
        tails[length : length + 1] = [place[cell_id]]
        ends[length : length + 1] = [cell_id]
    stayed: set[str] = set()
    current = ends[-1] if ends else None
    while current is not None:
        stayed.add(current)
        current = links[current]
    return set(common) - stayed


class _Texts:
    """Kinds and texts of cells that vanished and of cells that are new, to be paired by their places."""

    def __init__(self, lost: Sequence[_Text], found: Sequence[_Text]) -> None:
        self._lost, self._found = lost, found
        self._blocks = difflib.SequenceMatcher(None, lost, found, autojunk=False).get_opcodes()

    def equal(self) -> list[tuple[int, int]]:
        """Pair what is the same."""
        return [
            pair
            for tag, low, high, start, stop in self._blocks
            if tag == "equal"
            for pair in zip(range(low, high), range(start, stop), strict=True)
        ]

    def alike(self, *, anchored: bool) -> list[tuple[int, int]]:
        """Pair what stands between the same neighbours and is an edit of the other.

        ``anchored``: some cells are the same. As many cells as before among them are the old ones, however edited.
        """
        pairs: list[tuple[int, int]] = []
        for tag, low, high, start, stop in self._blocks:
            if tag == "replace" and anchored and high - low == stop - start:
                places = zip(range(low, high), range(start, stop), strict=True)
                pairs += [pair for pair in places if self._lost[pair[0]][0] == self._found[pair[1]][0]]
            elif tag == "replace":
                pairs += self._by_likeness(range(low, high), range(start, stop))
        return pairs

    def _by_likeness(self, lefts: range, rights: range) -> Iterable[tuple[int, int]]:
        first = lefts.start
        for right in rights:
            near = range(first, min(first + _LOOK_AHEAD, lefts.stop))
            likeness = {left: _likeness(self._lost[left], self._found[right]) for left in near}
            best = max(near, key=likeness.__getitem__, default=None)
            if best is not None and likeness[best] >= _ALIKE:
                yield best, right
                first = best + 1


def _likeness(left: _Text, right: _Text) -> float:
    if left[0] != right[0]:
        return 0.0
    matcher = difflib.SequenceMatcher(None, left[1][:_COMPARED_CHARACTERS], right[1][:_COMPARED_CHARACTERS])
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0
