"""An engine's background work: saving notebooks, suspending idle sessions, returning memory, deleting old history.

Decides when; what a save or a suspension does is the session's.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from cellwright.engine import _recovery
from cellwright.engine.journal import Journal, Statement
from cellwright.engine.records import ExecutionRecord, put_session
from cellwright.engine.session import Session
from cellwright.errors import CellwrightError, SaveFailed

__all__ = ["MemoryReturn", "Retention", "Saver", "suspend_idle"]

_log = logging.getLogger(__name__)

# A notebook that never goes quiet is still written this many quiet periods after its first unsaved change.
_MOST_PERIODS = 10

_AFTER_FAILURE_S = 5.0


class Saver:
    """Writes notebooks to their files a little after they went quiet, and now and then while they do not.

    One task saves all sessions; whoever changes a document wakes it.
    """

    def __init__(self, quiet_s: float, failed: Callable[[Session, CellwrightError], None]) -> None:
        self._quiet_s = quiet_s
        self._failed = failed
        self.woken = asyncio.Event()
        """Set by whoever changes a document."""
        self._dirty_since: dict[str, float] = {}
        self._reported: set[str] = set()

    async def run(self, sessions: Callable[[], list[Session]]) -> None:
        while True:
            due_in = [
                await self._save_if_due(session) for session in sessions() if session.context.file.is_due
            ]
            if due_in:
                await anyio.sleep(max(0.01, min(due_in)))
            else:
                await self.woken.wait()
                self.woken.clear()

    async def _save_if_due(self, session: Session) -> float:
        """Save a session that is due; return how long until it is due otherwise."""
        now = time.monotonic()
        first = self._dirty_since.setdefault(session.id, now)
        due = min(session.context.changed_at + self._quiet_s, first + self._quiet_s * _MOST_PERIODS)
        if now < due:
            return due - now
        del self._dirty_since[session.id]
        try:
            await session.save()
        except CellwrightError as error:
            # Told once, tried again until it works; the journal has everything meanwhile.
            if session.id not in self._reported:
                self._reported.add(session.id)
                self._failed(session, error)
            return _AFTER_FAILURE_S
        self._reported.discard(session.id)
        return self._quiet_s


_CHECKS_PER_PERIOD = 4

_LONGEST_CHECK_S = 60.0


async def suspend_idle(active: Callable[[], Sequence[Session]], limit_s: float) -> None:
    """Suspend sessions that have been idle for longer than the limit, for as long as this runs."""
    while True:
        await anyio.sleep(min(limit_s / _CHECKS_PER_PERIOD, _LONGEST_CHECK_S))
        for session in active():
            if not session.runs.live and time.monotonic() - session.last_active > limit_s:
                await session.suspend(reason=f"Idle for more than {limit_s:g} s (session_idle_s)")


# Several sessions often go together, and what held one is let go a moment later.
_WAIT_S = 2.0


class MemoryReturn:
    """Gives memory that deleted sessions left back to the system, which the C library would not do by itself."""

    def __init__(self, in_background: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]) -> None:
        self._in_background = in_background
        self._is_due = False

    def something_went(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._in_background(self._give_back)

    async def _give_back(self) -> None:
        await anyio.sleep(_WAIT_S)
        self._is_due = False
        await anyio.to_thread.run_sync(_trim)


def _trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # a GNU library's; others do it by themselves, or never
        trim(0)


# Lets go of old history: what ran and was changed longer ago than the settings keep it, and the oldest where
# it is large.

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
                else _recovery.load_session_record(self._journal, session_id)
            )
            if before is None or before.let_go >= generation:
                continue
            after = replace(before, let_go=generation)
            if session is not None:
                session.context.record = after
            noted.append(put_session(after))
        return noted
