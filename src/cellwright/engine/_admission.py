"""How many sessions may have a kernel at once, and which one makes room for another.

Counts those that are starting too: a kernel takes a while, and many may be asked for meanwhile. How a session is
suspended is its own matter (see ``kernel``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import anyio

from cellwright.engine.options import EngineOptions
from cellwright.engine.records import SessionRecord
from cellwright.engine.session import Session
from cellwright.errors import TooManySessions

__all__ = ["Admission"]

_REASON = (
    "Another session needed a kernel, and this one was idle the longest (max_sessions); "
    "replaying it brings its variables back"
)


class Admission:
    """Lets sessions have kernels up to a limit. At the limit the longest idle session makes room, or all are refused."""

    def __init__(self, active: Callable[[], list[Session]], options: EngineOptions) -> None:
        self._active = active
        self._limit = options.max_sessions
        self._suspends = options.suspends_when_full
        self._starting: set[str] = set()
        self._started = anyio.Event()
        self._deciding = anyio.Lock()

    def check(self) -> None:
        """Refuse early a session that could not have a kernel anyway.

        Raises:
            TooManySessions: the limit is reached, and no session can make room.
        """
        may_wait = self._suspends and self._starting
        if self._missing(()) > 0 and not may_wait and not self._spare(()):
            raise self._refusal()

    @asynccontextmanager
    async def of(
        self, record: SessionRecord, *, spare: Collection[str] = (), suspends: bool = True
    ) -> AsyncIterator[None]:
        """Count a session as active while its kernel starts; the sessions ``spare`` do not make room for it.

        With ``suspends`` false none does: it has a kernel only where there is room.

        Raises:
            TooManySessions: the limit is reached, and no session can make room.
        """
        if record.is_unseen or record.id in self._starting:
            yield
            return
        async with self._deciding:
            while self._missing((record.id,)) > 0:
                if not suspends:
                    raise self._refusal("none is to make room for a trial")
                await self._make_room((record.id, *spare))
            self._starting.add(record.id)
        try:
            yield
        finally:
            self._starting.discard(record.id)
            self._started.set()

    async def _make_room(self, spare: Collection[str]) -> None:
        idle = self._spare(spare)
        if idle:
            await idle[0].kernel.suspend(reason=_REASON)
        elif self._suspends and self._starting:
            # Those are idle once they have their kernels.
            self._started = anyio.Event()
            await self._started.wait()
        else:
            raise self._refusal()

    def _missing(self, but: Collection[str]) -> int:
        """How many sessions too many there would be with one more."""
        taken = {session.id for session in self._active()} | self._starting
        return len(taken.difference(but)) + 1 - self._limit

    def _spare(self, but: Collection[str]) -> list[Session]:
        """The sessions that can make room, the longest idle first."""
        if not self._suspends:
            return []
        idle = [one for one in self._active() if one.is_idle and one.id not in (*but, *self._starting)]
        return sorted(idle, key=lambda one: one.last_active)

    def _refusal(self, why: str | None = None) -> TooManySessions:
        why = why or ("each of them is at work" if self._suspends else "when_full is 'refuse'")
        return TooManySessions(
            f"As many sessions are active as the setting max_sessions allows, {self._limit}, and {why}",
            hint="Suspend or delete one, or raise CELLWRIGHT_MAX_SESSIONS",
        )
