"""What an engine does beside its callers: saving notebooks, suspending idle sessions, returning memory, work apart.

Decides when; what a save or a suspension does is the session's.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from cellwright.engine import recovery
from cellwright.engine.hosts import HostLink, link_name, place_name
from cellwright.engine.journal import Journal, Statement
from cellwright.engine.records import Batch, ExecutionRecord, Recorder, put_session
from cellwright.engine.session import Session
from cellwright.errors import CellwrightError, SaveFailed
from cellwright.hosts import protocol

__all__ = ["Hearing", "MemoryReturn", "Retention", "Saver", "run_apart", "suspend_idle"]

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
        self._woken = anyio.Event()
        self._dirty_since: dict[str, float] = {}
        self._told: set[str] = set()

    def wake(self) -> None:
        self._woken.set()

    async def run(self, sessions: Callable[[], list[Session]]) -> None:
        while True:
            due_in = [
                await self._save_if_due(session) for session in sessions() if session.context.file.is_due
            ]
            if due_in:
                await anyio.sleep(max(0.01, min(due_in)))
            else:
                await self._woken.wait()
                self._woken = anyio.Event()

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
            if session.id not in self._told:
                self._told.add(session.id)
                self._failed(session, error)
            return _AFTER_FAILURE_S
        self._told.discard(session.id)
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


async def run_apart(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do work that nobody waits for; what it raises is logged."""
    try:
        await work()
    except Exception:  # noqa: BLE001  # boundary: what one session left lying about must not end the engine of all
        _log.exception("background_work_failed")


# What hosts tell, routed to the sessions it is about; and what the journal and a host know differently,
# settled.

log = logging.getLogger(__name__)


class Hearing:
    """The engine, as a link to a host knows it (see ``host_link.LinkListener``)."""

    def __init__(self, sessions: Mapping[str, Session], recorder: Recorder) -> None:
        self._sessions = sessions
        self._recorder = recorder

    def taken(self, events: list[protocol.Event], consumed: Statement, committed: Callable[[], None]) -> None:
        """Fold what a host said into its sessions."""
        batch = Batch()
        for event in events:
            session = self._sessions.get(_session_of(event.kernel_id))
            if session is not None:
                self._take(batch, session, event)
        batch.statements.append(consumed)
        batch.after.append(committed)
        self._recorder.commit(batch)

    def _take(self, batch: Batch, session: Session, event: protocol.Event) -> None:
        try:
            session.reports.take(batch, event)
        except Exception:  # boundary: what one session cannot take in is told there, and nobody else notices
            log.exception("event_not_taken", extra={"session": session.id, "seq": event.seq})
            message = f"What the kernel's host told could not be taken in ({type(event.body).__name__})"
            data = {"code": "host", "message": message, "hint": "The engine's log has the reason"}
            self._recorder.note(batch, "notebook.error", session.record, data)

    def lost(self, link: HostLink, why: str) -> None:
        """A host is gone."""
        self._tell(link, lambda session, batch: session.reports.lose_host(batch, why))

    def out_of_reach(self, link: HostLink, why: str) -> None:
        """A host cannot be reached."""
        self._tell(link, lambda session, batch: session.reports.lose_sight(batch, why))

    async def back(self, link: HostLink, attached: protocol.Attached) -> None:
        """A host is reached again."""
        began = {session.id: session.record.kernel_id for session in self._on(link.name)}
        now = await link.call(protocol.Status(), protocol.Attached)
        # A kernel that was started meanwhile is in neither list, and is nobody's loss.
        fresh = {
            kernel_id
            for session in self._on(link.name)
            if (kernel_id := session.record.kernel_id) != began.get(session.id)
        }
        known = {kernel.kernel_id for kernel in now.kernels} | fresh
        await self.reconcile(link, attached, also=known)
        self._tell(link, lambda session, batch: session.reports.see_again(batch))

    async def reconcile(
        self, link: HostLink, attached: protocol.Attached, *, also: Collection[str | None] = ()
    ) -> None:
        """Settle what the journal and a host know differently, now that all the host said is taken in.

        ``also`` are kernels that it has since then.
        """
        living = {kernel.kernel_id: kernel for kernel in attached.kernels}
        sessions = [one for one in self._sessions.values() if link_name(one.record) == link.name]
        for session in sessions:
            if session.record.returning_to is not None:
                await session.checkpointing.complete_return(set(living))
        batch = Batch()
        for session in sessions:
            kernel = living.pop(session.record.kernel_id or "", None)
            if kernel is None and session.state == "active" and session.record.kernel_id not in also:
                session.reports.lose_host(batch, "The process that owned the kernel went away")
            elif kernel is not None:
                session.reports.drop_unknown(batch, {kernel.running, *kernel.waiting})
        await self._recorder.commit(batch)
        for session in sessions:
            session.checkpointing.undo_pending()
        for kernel_id in living:  # started for an engine that did not live to journal it
            await link.call(protocol.StopKernel(kernel_id), type(None))

    def kernels_on(self, name: str) -> int:
        """How many sessions have a kernel on a host."""
        active = (one.record for one in self._sessions.values() if one.state == "active")
        return sum(name in (place_name(record), link_name(record)) for record in active)

    def expiring(self) -> set[str]:
        """The hosts that said that their end is near."""
        return {link_name(one.record) for one in self._sessions.values() if one.record.expires_at is not None}

    def _on(self, name: str) -> list[Session]:
        return [
            one for one in self._sessions.values() if link_name(one.record) == name and one.state == "active"
        ]

    def _tell(self, link: HostLink, tell: Callable[[Session, Batch], None]) -> None:
        batch = Batch()
        for session in self._on(link.name):
            tell(session, batch)
        self._recorder.commit(batch)


def _session_of(kernel_id: str) -> str:
    return kernel_id.rpartition(".")[0]


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
                else recovery.load_session_record(self._journal, session_id)
            )
            if before is None or before.let_go >= generation:
                continue
            after = replace(before, let_go=generation)
            if session is not None:
                session.context.record = after
            noted.append(put_session(after))
        return noted
