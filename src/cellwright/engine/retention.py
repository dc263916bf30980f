"""Lets go of old history: what ran and was changed longer ago than the settings keep it, and the oldest where it is large.

What a session is, is never let go: its notebook, its newest execution, what runs, and what is not yet in its file.
Whoever then wants to make a state again from what ran is told that part of that is gone (see ``recovery``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

import anyio
import msgspec
from msgspec.structs import replace

from cellwright.engine import recovery
from cellwright.engine.journal import Journal, Statement
from cellwright.engine.records import ExecutionRecord, put_session
from cellwright.engine.session import Session
from cellwright.errors import SaveFailed

__all__ = ["Retention"]

_LOOK_S = 600.0
_DAY_S = 86_400.0
# At a time: others wait for as long as the journal is busy with it.
_STEP = 500
# What the notebook's file has, and of executions those that ended, as a whole, but for the newest of each session.
_OLDEST = """
WITH old AS (
    SELECT seq, session, execution,
        min(:upto, coalesce((SELECT seq FROM documents WHERE session = events.session), seq)) AS upto
    FROM events WHERE seq <= :upto
)
SELECT seq, execution FROM old
WHERE (execution IS NULL AND seq <= upto) OR (
    (SELECT max(seq) FROM events WHERE execution = old.execution) <= upto
    AND EXISTS (SELECT 1 FROM events WHERE execution = old.execution AND kind = 'notebook.cell.completed')
    AND (SELECT number FROM executions WHERE id = old.execution)
        < (SELECT max(number) FROM executions WHERE session = old.session)
)
ORDER BY seq LIMIT :step
"""


class Retention:
    """One task that keeps the journal within its limits."""

    def __init__(
        self, journal: Journal, sessions: Mapping[str, Session], *, days: float, max_bytes: int
    ) -> None:
        """Keep what is younger than ``days``, and of that no more than ``max_bytes``."""
        self._journal = journal
        self._sessions = sessions
        self._days = days
        self._max_bytes = max_bytes

    async def run(self) -> None:
        while True:
            with suppress(SaveFailed):  # it is written once there is room
                await self.look()
            await anyio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Let go of what is too old, then of the oldest while there is too much."""
        oldest = time.time() - self._days * _DAY_S
        recent = self._journal.read("SELECT seq FROM events WHERE time >= ? ORDER BY seq LIMIT 1", (oldest,))
        upto = recent[0][0] - 1 if recent else sys.maxsize
        while await self._let_go(upto):
            pass
        while self._journal.used_bytes > self._max_bytes:
            if not await self._let_go(sys.maxsize):
                return

    async def _let_go(self, upto: int) -> bool:
        """Let go of some of the oldest up to an event's number; false where there is nothing."""
        rows = self._journal.read(_OLDEST, {"upto": upto, "step": _STEP})
        if not rows:
            return False
        executions = dict.fromkeys(execution for _, execution in rows if execution is not None)
        gone: list[Statement] = [
            ("DELETE FROM events WHERE seq = ?", (seq,)) for seq, execution in rows if execution is None
        ]
        for execution_id in executions:
            gone.append(("DELETE FROM events WHERE execution = ?", (execution_id,)))
            gone.append(("DELETE FROM executions WHERE id = ?", (execution_id,)))
        await self._journal.write([*gone, *self._noted(executions)])
        return True

    def _noted(self, executions: Iterable[str]) -> list[Statement]:
        """Keep with each session up to which generation something of its history is gone."""
        upto: dict[str, int] = {}
        for execution_id in executions:
            found = self._journal.read("SELECT record FROM executions WHERE id = ?", (execution_id,))
            for record in (msgspec.json.decode(row[0], type=ExecutionRecord) for row in found):
                upto[record.session_id] = max(record.generation, upto.get(record.session_id, 0))
        noted: list[Statement] = []
        for session_id, generation in upto.items():
            session = self._sessions.get(session_id)
            before = (
                session.record
                if session is not None
                else recovery.load_session_record(self._journal, session_id)
            )
            if before is None or before.let_go >= generation:
                continue
            after = replace(before, let_go=generation)
            if session is not None:
                session.context.record = after
            noted.append(put_session(after))
        return noted
