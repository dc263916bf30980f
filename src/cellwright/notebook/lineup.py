"""Which cells of two documents are the same cell, and in what order the merged cells stand.

Works on ids, kinds and sources alone; what a merged cell holds is decided above (see merge).
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from cellwright.notebook.document import Document

__all__ = ["match_cells", "merge_order", "moved_cells"]

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
