"""A session's context: what an agent that forgot everything needs to go on.

The notebook's name with its time, what is imported and defined, how each cell and the plan stand, and the last error. Names come
from the kernel where it is alive and idle, else from what ran in it last (``Knowledge``).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cellwright.engine import Engine, Event, Execution, Inspection, Session
from cellwright.engine.cell_states import cell_states
from cellwright.engine.lineage import Lineage, contains
from cellwright.engine.records import Handback, Hold
from cellwright.errors import CellwrightError, UnknownExecution, UnknownSession
from cellwright.mcp.outputs import clean
from cellwright.notebook import Cell
from cellwright.notebook.document import comments_of
from cellwright.notebook.python_names import Names, names_defined
from cellwright.plans.reports import plan_in
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_tail

__all__ = ["Knowledge", "Known", "context_of", "fit_lists", "handback_note", "hold_data", "inspected"]

DEFAULT_CONTEXT_TOKENS = 1_500

_REMARK = 300


async def context_of(
    knowledge: Knowledge, session: Session, *, max_tokens: int | None = None
) -> dict[str, Any]:
    """The context as data, within a budget."""
    known = await knowledge.of(session)
    cells = session.cells
    states = cell_states(session, cells)
    about: dict[str, Any] = {
        "session_id": session.id,
        "notebook": session.name,
        "language": session.language,
        "state": session.state,
        "generation": session.generation,
        **await _names(session, known),
        "cells": [f"{cell.id}: {states[cell.id]}" for cell in cells],
    }
    if remarks := _remarks(cells):
        about["comments"] = remarks
    if known.failure is not None:
        failure = known.failure
        about["last_error"] = {
            "cell_id": failure.cell_id,
            "execution_id": failure.execution_id,
            "status": failure.state,
            "error": f"{failure.ename}: {failure.evalue}"[:300],
        }
    if (plan := plan_in(session.document.metadata)) is not None:
        about["plan"] = plan
    if (hold := session.record.hold) is not None:
        about["held"] = hold_data(hold)
    if session.checkpoints:
        about["checkpoints"] = [kept.name or kept.id for kept in reversed(session.checkpoints)]
    if session.reason:
        about["reason"] = session.reason
    return fit_lists(about, max_tokens or DEFAULT_CONTEXT_TOKENS)


def _remarks(cells: Sequence[Cell]) -> list[str]:
    """What people said of cells, the newest first."""
    found = [(one.at, f"{cell.id}, {one.by}: {one.text}") for cell in cells for one in comments_of(cell)]
    return [cut_tail(clean(text), _REMARK) for _, text in sorted(found, reverse=True)]


async def _names(session: Session, known: Known) -> dict[str, Any]:
    if session.state == "active" and not session.runs.live:
        try:
            return {**inspected(await session.inspect()), "names_from": "kernel"}
        except CellwrightError:
            pass  # it became busy or died meanwhile, or is not of our own: what ran last is still known
    names = known.names
    return {
        "imports": [
            name if name == module else f"{module} as {name}" for name, module in names.imports.items()
        ],
        "functions": [f"{name}{parameters}" for name, parameters in names.functions.items()],
        "variables": list(names.variables),
        "names_from": f"source of generation {known.generation}"
        if session.runs_python
        else f"nowhere: {session.language} is not read for names",
    }


def inspected(inspection: Inspection) -> dict[str, Any]:
    """A kernel's names in few words, newest first."""
    imports = [
        module.name if module.module in {None, module.name} else f"{module.module} as {module.name}"
        for module in inspection.modules
    ]
    functions = [f"{function.name}{function.signature}" for function in inspection.functions]
    classes = [f"class {found.name}" for found in inspection.classes]
    variables = []
    for variable in inspection.variables:
        shape = "\u00d7".join(str(side) for side in variable.shape) if variable.shape else None
        length = f"[{variable.length}]" if variable.length is not None else None
        value = f"= {variable.digest}" if variable.digest else None
        variables.append(
            " ".join(filter(None, [f"{variable.name}: {variable.type}", shape or length, value]))
        )
    found: dict[str, Any] = {"imports": imports, "functions": [*functions, *classes], "variables": variables}
    return {**found, "unlisted": inspection.omitted} if inspection.omitted else found


def fit_lists(about: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """The same with its longest lists shortened until all of it keeps to the budget; what is gone is counted."""
    budget = max_tokens * CHARACTERS_PER_TOKEN
    lists = {key: list(value) for key, value in about.items() if isinstance(value, list)}
    while len(json.dumps({**about, **lists}, ensure_ascii=False)) > budget and any(lists.values()):
        longest = max(lists, key=lambda key: sum(len(str(item)) for item in lists[key]))
        lists[longest] = lists[longest][: len(lists[longest]) * 2 // 3]
    omitted = {key: len(about[key]) - len(kept) for key, kept in lists.items() if len(kept) < len(about[key])}
    return {**about, **lists, **({"omitted": omitted} if omitted else {})}


# What an agent forgets of a session: the names its cells defined, and the last thing that failed.

_MAX_PENDING = 10_000

_REMEMBERED = 256

_RETURNS = frozenset({"notebook.session.rolled_back", "notebook.session.adopted"})


@dataclass(frozen=True, slots=True)
class Failure:
    """The last thing that went wrong."""

    execution_id: str
    cell_id: str | None
    state: str
    ename: str
    evalue: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An execution that ended; ``failure`` says how, if it did not end well."""

    execution_id: str
    cell_id: str | None
    generation: int
    source: str
    language: str
    failure: Failure | None


@dataclass(slots=True)
class Known:
    """What is known of one session."""

    generation: int = 0
    names: Names = field(default_factory=Names)
    failure: Failure | None = None
    _taken: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def take(self, ended: Ended, *, keeps_names: bool = False) -> None:
        """An execution ended; one that was taken in before is passed over.

        A later generation begins without names, unless it is said to have gone on from the one before.
        """
        if ended.execution_id in self._taken:
            return
        self._taken.append(ended.execution_id)
        if ended.generation > self.generation:
            self.generation = ended.generation
            self.names = self.names if keeps_names else Names()
        if ended.failure is not None:
            self.failure = ended.failure
            return
        if self.failure is not None and self.failure.cell_id == ended.cell_id:
            self.failure = None
        if ended.generation == self.generation:
            self.names.add(names_defined(ended.source, ended.language))


class Knowledge:
    """What is known of all sessions; kept up by the engine's events, begun from the journal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, Known] = {}
        self._sources: dict[str, str] = {}

    async def of(self, session: Session) -> Known:
        """What is known of a session."""
        found = self._known.get(session.id)
        if found is None or _went_back(session.record.lineage, found):
            ran = [*await self._ran_before(session), *await self._engine.history(session.id, outputs=False)]
            self._known[session.id] = found = _known_of(ran, session.record.lineage, session.language)
        return found

    async def _ran_before(self, session: Session) -> list[Execution]:
        """What ran in the sessions that this one was grown from, as far as it is part of its state."""
        found: list[Execution] = []
        lineage = session.record.lineage
        for other in dict.fromkeys(span.session for span in lineage):
            if other is None or other == session.id:
                continue
            spans = tuple(span for span in lineage if span.session == other)
            with suppress(UnknownSession):  # deleted, or taken back by another
                ran = await self._engine.history(other, outputs=False)
                found += [execution for execution in ran if contains(spans, execution.record)]
        return found

    async def learn(self, session: Session, execution: Execution) -> Known:
        """Take in an execution that ended, if its event has not come by yet."""
        known = await self.of(session)
        if execution.done:
            _fold(known, execution, session.language)
        return known

    def take(self, event: Event) -> None:
        """Take in what happened in a session that somebody has asked about."""
        if event.data.get("session") == "deleted" or event.kind in _RETURNS:
            self._known.pop(event.session_id, None)
        if event.kind == "notebook.session.adopted":
            self._known.pop(event.data["branch"], None)
        known = self._known.get(event.session_id)
        if known is None or event.execution_id is None:
            return
        if event.kind == "notebook.cell.executing" and "source" in event.data:
            self._sources[event.execution_id] = event.data["source"]
            if len(self._sources) > _MAX_PENDING:
                del self._sources[next(iter(self._sources))]
        elif event.kind == "notebook.cell.completed":
            known.take(
                Ended(
                    execution_id=event.execution_id,
                    cell_id=event.cell_id,
                    generation=event.generation,
                    source=self._source(event.execution_id),
                    language=self._language(event.session_id, event.execution_id),
                    failure=_failure(event.execution_id, event.cell_id, event.data),
                )
            )

    def _source(self, execution_id: str) -> str:
        """What ran; from the journal where its beginning was not heard."""
        if execution_id in self._sources:
            return self._sources.pop(execution_id)
        try:
            return self._engine.execution(execution_id).record.source
        except UnknownExecution:  # its session was deleted meanwhile
            return ""

    def _language(self, session_id: str, execution_id: str) -> str:
        """What the code was written in."""
        try:
            own = self._engine.execution(execution_id).record.language
            return own or self._engine.session(session_id).language
        except (UnknownExecution, UnknownSession):  # deleted meanwhile
            return "python"


def _went_back(lineage: Lineage, known: Known) -> bool:
    """Whether the session returned to an earlier state, and what is known is of before that."""
    return len(lineage) > 1 and lineage[-1].generation > known.generation


def _known_of(history: list[Execution], lineage: Lineage, language: str) -> Known:
    """What is known from what ran; of a session that went back, from what made the state that it went back to."""
    known = Known()
    went_back = len(lineage) > 1
    for execution in history:
        counts = not went_back or execution.record.rolled_back or contains(lineage, execution.record)
        if execution.done and counts:
            _fold(known, execution, language, keeps_names=went_back)
    if went_back:
        known.generation = lineage[-1].generation
    return known


def _fold(known: Known, execution: Execution, language: str, *, keeps_names: bool = False) -> None:
    """``language`` is the notebook's."""
    record = execution.record
    about = {"state": record.state, "error": record.error, "reason": record.reason}
    failure = _failure(record.id, record.cell_id, about)
    ended = Ended(
        record.id, record.cell_id, record.generation, record.source, record.language or language, failure
    )
    known.take(ended, keeps_names=keeps_names)


def _failure(execution_id: str, cell_id: str | None, data: Any) -> Failure | None:
    if data["state"] == "ok":
        return None
    error = data.get("error") or {}
    ename = str(error.get("ename") or data["state"])
    evalue = str(error.get("evalue") or data.get("reason") or "")
    return Failure(execution_id, cell_id, str(data["state"]), ename, evalue)


# What agents are told of people who take sessions over and give them back. Pure; who is refused is decided
# in ``calls``.

_MOST_CELLS = 20

_MAX_NOTE = 1_000


def handback_note(handback: Handback) -> str:
    """That a session was given back, what was done with it meanwhile, and what the person says."""
    done = [f"{what} {_cells(cells)}" for what, cells in handback.meanwhile.as_data().items()]
    text = f"A person had this session and gave it back: {'; '.join(done) or 'no cell changed'}"
    if handback.note:
        text += f". {clean(handback.by)} says: {clean(handback.note)[:_MAX_NOTE]}"
    return text if not done else f"{text} (notebook_read shows how they are now)"


def hold_data(hold: Hold) -> dict[str, Any]:
    """Who has a session, and since when."""
    since = datetime.fromtimestamp(hold.at, tz=UTC).isoformat(timespec="seconds")
    return {"by": clean(hold.by), "since": since}


def _cells(cells: list[str]) -> str:
    more = f" and {len(cells) - _MOST_CELLS} more" if len(cells) > _MOST_CELLS else ""
    return ", ".join(cells[:_MOST_CELLS]) + more
