"""What the journal remembers of all sessions: executions, requests to the network, events. Only reads."""

from __future__ import annotations

from cellwright.engine import recovery
from cellwright.engine.events import Event
from cellwright.engine.executions import Execution
from cellwright.engine.journal import Journal
from cellwright.engine.network import NetworkUse, read_requests
from cellwright.engine.sessions import Session
from cellwright.errors import UnknownExecution, UnknownSession

__all__ = ["Archive"]


class Archive:
    """Sessions, and what was journalled about them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sessions: dict[str, Session] = {}

    def session(self, session_id: str) -> Session:
        """One session.

        Raises:
            UnknownSession: there is none with that id.
        """
        if session_id in self._sessions:
            return self._sessions[session_id]
        known = ", ".join(list(self._sessions)[-5:]) or "none"
        raise UnknownSession(f"There is no session {session_id!r}", hint=f"The newest sessions are: {known}")

    def execution(self, execution_id: str) -> Execution:
        """An execution, running or long over, of any session.

        Raises:
            UnknownExecution: there is none with that id.
        """
        for session in self._sessions.values():
            if (execution := session.runs.find(execution_id)) is not None:
                return execution
        execution = recovery.load_execution(self._journal, execution_id)
        if execution is None:
            raise UnknownExecution(
                f"There is no execution {execution_id!r}", hint="List a session's executions with `history`"
            )
        return execution

    async def history(
        self, session_id: str, *, cell_id: str | None = None, after: int = 0, outputs: bool = True
    ) -> list[Execution]:
        """Every execution of a session, or of one cell, oldest first, with its outputs unless they are not wanted.

        With ``after`` only those that have a higher number.
        """
        self.session(session_id)
        await self._journal.catch_up()
        return recovery.load_executions(
            self._journal, session_id, cell_id=cell_id, after=after, outputs=outputs
        )

    async def network_log(self, session_id: str) -> NetworkUse:
        """What a session's code asked of the network: its newest requests, each with its verdict."""
        self.session(session_id)
        await self._journal.catch_up()
        return read_requests(self._journal, session_id)

    async def events_of(self, execution_id: str) -> list[Event]:
        """Everything that happened to one execution so far, oldest first."""
        await self._journal.catch_up()
        return recovery.read_event_rows(self._journal, "execution = ?", (execution_id,))

    @property
    def last_event(self) -> int:
        """The number of the newest event; what is asked for now holds at least what came of it."""
        return self._journal.last_seq

    def events(self, *, since: int, session_id: str | None = None, limit: int = 1_000) -> list[Event]:
        """Past events after number ``since``, oldest first: what a subscriber missed."""
        if session_id is None:
            return recovery.read_event_rows(self._journal, "seq > ?", (since,), limit)
        condition = "seq > ? AND session = ?"
        return recovery.read_event_rows(self._journal, condition, (since, session_id), limit)
