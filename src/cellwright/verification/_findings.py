"""Finds doubts about a notebook before anything is run again, from its cells and its executions. Pure.

A cell is **stale** where its source is not the one that ran last, **never run**, **out of order** where it took a name
from elsewhere than a run from the top would give it, and **hidden** state holds it up where no cell gives it a name any
more. Names are those of Python (see ``notebook.python_names``); of other languages only the first two are known. Whether
the notebook holds is not decided here, but by running it (see ``_rehearsal``).
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cellwright.engine.records import ExecutionRecord
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import canonical_language
from cellwright.notebook.python_names import CellNames, cell_names, names_of

__all__ = ["Finding", "FindingKind", "find_problems"]

FindingKind: TypeAlias = Literal[
    "stale", "never_run", "out_of_order", "hidden", "hidden_file", "changed_input", "random"
]
_GIVEN = frozenset(dir(builtins)) | frozenset(
    [
        "get_ipython",
        "display",
        "In",
        "Out",
        "exit",
        "quit",
        "open",
        "_",
        "__",
        "___",
        "_i",
        "_ii",
        "_iii",
        "_ih",
        "_oh",
        "_dh",
        "__name__",
        "__doc__",
    ]
)
_OF_IPYTHON = re.compile(r"_i?\d+")
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """One doubt about one cell."""

    kind: FindingKind
    cell_id: str
    message: str
    names: tuple[str, ...] = ()
    """The names, or files, that it is about."""

    @property
    def refutes(self) -> bool:
        """Whether a notebook with this is not verified, even where a run from the top puts out the same."""
        return self.kind in ("hidden_file", "changed_input")


@dataclass(frozen=True, slots=True)
class _Ran:
    """One run, as far as it matters here."""

    number: int
    kernel: int
    cell_id: str | None
    source: str
    language: str = "python"

    @property
    def defines(self) -> frozenset[str]:
        """The names that it gave to others."""
        return cell_names(self.source, self.language).defines


def find_problems(
    document: Document, history: Sequence[ExecutionRecord] = (), *, language: str = "python"
) -> tuple[Finding, ...]:
    """Every doubt, in the order of the cells.

    ``history`` is what ran in the notebook's session, oldest first. Of cells that it does not know, the numbers that
    stand in the notebook say in which order they ran.
    """
    cells = [cell for cell in document.cells if cell.runs]
    runs = [*_runs_of_notebook(cells, history), *_runs_of(history)]
    last = {run.cell_id: run for run in runs if run.cell_id is not None}
    found: list[Finding] = []
    order = _Order(cells, runs, last) if language == "python" else None
    for place, cell in enumerate(cells):
        found += _own_problems(cell, last.get(cell.id))
        if order is not None:
            found += order.problems(place)
    return tuple(found)


def _runs_of(history: Iterable[ExecutionRecord]) -> list[_Ran]:
    return [
        _Ran(one.number, one.generation, one.cell_id, one.source, one.language or "python")
        for one in sorted(history, key=lambda one: one.number)
        if one.started_at is not None and not one.undone and not one.rolled_back
    ]


def _runs_of_notebook(cells: Sequence[Cell], history: Sequence[ExecutionRecord]) -> list[_Ran]:
    """Runs that only the notebook knows of; all before those of the history, and in a kernel that is gone."""
    known = {one.cell_id for one in history if one.started_at is not None}
    counted = [(cell.execution_count, cell) for cell in cells if cell.id not in known]
    numbered = [(count, cell) for count, cell in counted if count is not None]
    numbered.sort(key=lambda one: one[0])
    return [
        _Ran(place - len(numbered), 0, cell.id, cell.source, canonical_language(cell.language or "python"))
        for place, (_, cell) in enumerate(numbered)
    ]


def _own_problems(cell: Cell, ran: _Ran | None) -> list[Finding]:
    ours = cell.metadata.get("cellwright")
    if isinstance(ours, Mapping) and ours.get("stale"):
        return [Finding("stale", cell.id, "shows what a run put out that was undone since")]
    if ran is None:
        # What is shown without a number was made elsewhere: nothing is known of it.
        told = [] if cell.outputs else [Finding("never_run", cell.id, "has never run")]
        return told if cell.execution_count is None else []
    if ran.source != cell.source:
        return [Finding("stale", cell.id, "was edited after it ran last")]
    return []


class _Order:
    """Who gave which cell its names, and who would in a run from the top."""

    def __init__(self, cells: Sequence[Cell], runs: Sequence[_Ran], last: Mapping[str, _Ran]) -> None:
        self._cells = cells
        self._runs = runs
        self._last = last
        self._names = [names_of(cell) for cell in cells]
        self._places = {cell.id: place for place, cell in enumerate(cells)}

    def problems(self, place: int) -> list[Finding]:
        """What is wrong with the names that one cell takes; several names with one reason are one finding."""
        cell, names = self._cells[place], self._names[place]
        reasons: dict[tuple[FindingKind, str], list[str]] = {}
        for name in sorted(_wanted(names)):
            reason = self._reason(place, name)
            if reason is not None:
                reasons.setdefault(reason, []).append(name)
        return [
            Finding(kind, cell.id, message.format(names=_listed(found)), tuple(found))
            for (kind, message), found in reasons.items()
        ]

    def _reason(self, place: int, name: str) -> tuple[FindingKind, str] | None:
        given_by = self._giver_above(place, name)
        if given_by is None:
            return self._without_giver(place, name)
        ran = self._last.get(self._cells[place].id)
        if ran is None or name in self._names[place].later:
            return None
        return self._out_of_order(ran, self._cells[given_by].id, place, name)

    def _giver_above(self, place: int, name: str) -> int | None:
        for above in reversed(range(place)):
            if name in self._names[above].defines:
                return above
            if name in self._names[above].deletes:
                return None
        return None

    def _without_giver(self, place: int, name: str) -> tuple[FindingKind, str] | None:
        if any(names.opaque for names in self._names[:place]):
            return None  # one of them may well define it
        below = [other for other in range(place + 1, len(self._cells)) if name in self._names[other].defines]
        if below and name in self._names[place].later:
            return None  # it is there by the time that somebody calls the function
        if below:
            return "out_of_order", f"uses {{names}}, which only cell {self._cells[below[0]].id} below defines"
        return "hidden", f"uses {{names}}, which no cell above defines{self._last_giver(name)}"

    def _last_giver(self, name: str) -> str:
        giver = next((ran for ran in reversed(self._runs) if name in ran.defines), None)
        if giver is None:
            return ""
        if giver.cell_id is None:
            return " (code that is in no cell did)"
        if giver.cell_id in self._places:
            return f" (cell {giver.cell_id} did before it was edited)"
        return f" (cell {giver.cell_id}, now deleted, did)"

    def _out_of_order(self, ran: _Ran, giver: str, place: int, name: str) -> tuple[FindingKind, str] | None:
        taken = self._taken_from(ran, name)
        latest = self._last.get(giver)
        if taken is not None and taken.cell_id != giver:
            return self._taken_elsewhere(taken, giver, place)
        if latest is not None and latest.number > ran.number:
            return "out_of_order", f"ran before cell {giver}, which defines {{names}}, ran last"
        return None

    def _taken_elsewhere(self, taken: _Ran, giver: str, place: int) -> tuple[FindingKind, str] | None:
        if taken.cell_id is None:
            return "hidden", "took {names} from code that is in no cell"
        other = self._places.get(taken.cell_id)
        if other is None:
            return "hidden", f"took {{names}} from cell {taken.cell_id}, which is deleted"
        if other == place:
            return "out_of_order", "ran more than once, and took {names} from its own earlier run"
        if other > place:
            return "out_of_order", f"took {{names}} from cell {taken.cell_id}, which stands below it"
        return "out_of_order", f"took {{names}} from cell {taken.cell_id}, and cell {giver} defines it now"

    def _taken_from(self, ran: _Ran, name: str) -> _Ran | None:
        """The run that gave a run its value of a name, in the same kernel, as far as is known."""
        before = [one for one in self._runs if one.number < ran.number and one.kernel == ran.kernel]
        return next((one for one in reversed(before) if name in one.defines), None)


def _wanted(names: CellNames) -> set[str]:
    every = names.uses | names.later
    return {name for name in every if name not in _GIVEN and not _OF_IPYTHON.fullmatch(name)}


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
