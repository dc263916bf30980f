"""What an engine does beside its callers: saving notebooks, suspending idle sessions, returning memory, work apart.

Decides when; what a save or a suspension does is the session's.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio

from cellwright.engine.session import Session
from cellwright.errors import CellwrightError

__all__ = ["MemoryReturn", "Saver", "run_apart", "suspend_idle"]

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
