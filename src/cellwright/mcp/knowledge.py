"""What an agent forgets of a session: the names its cells defined, and the last thing that failed.

Read from the source of what ran, so that it costs no question to the kernel, is there for a kernel that is busy or
gone, and comes back from the journal after a restart. What the kernel really holds is told by an inspection (see
``context``).
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cellwright.engine import Engine, Event, Execution, Session
from cellwright.engine.lineage import Lineage, contains
from cellwright.errors import UnknownExecution, UnknownSession
from cellwright.notebook.python_names import Names, names_defined

__all__ = ["Ended", "Failure", "Knowledge", "Known"]

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
