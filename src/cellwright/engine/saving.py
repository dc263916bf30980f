"""Writes notebooks to their files a little after they went quiet, and now and then while they do not."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from cellwright.engine.sessions import Session
from cellwright.errors import CellwrightError

__all__ = ["Saver"]

# A notebook that never goes quiet is still written this many quiet periods after its first unsaved change.
_MOST_PERIODS = 10
_AFTER_FAILURE_S = 5.0


class Saver:
    """One task that saves all sessions; whoever changes a document wakes it."""

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
            due_in = [await self._save_if_due(session) for session in sessions() if session.keeper.is_due]
            if due_in:
                await anyio.sleep(max(0.01, min(due_in)))
            else:
                await self._woken.wait()
                self._woken = anyio.Event()

    async def _save_if_due(self, session: Session) -> float:
        """Save a session that is due; return how long until it is due otherwise."""
        now = time.monotonic()
        first = self._dirty_since.setdefault(session.id, now)
        due = min(session.changed_at + self._quiet_s, first + self._quiet_s * _MOST_PERIODS)
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
