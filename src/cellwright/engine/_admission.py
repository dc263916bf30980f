"""How many sessions may have a kernel at once, and which one makes room for another.

Nobody waits here for room: where none can be made, a session is refused at once, and its caller decides what then.
Counts those that are starting too: a kernel takes a while, and many may be asked for meanwhile. How a session is
suspended is its own matter (see ``kernel``).
"""

from __future__ import annotations

import time
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

# Whoever works with a session pauses between two calls, a model to think and a person to read: one that was used just
# now is not given up, nor do sessions that are made faster than they are used suspend one another in turn.
_LEAST_IDLE_S = 60.0


class Admission:
    """Lets sessions have kernels up to a limit. At the limit the longest idle session makes room, or new ones are refused."""

    def __init__(self, active: Callable[[], list[Session]], options: EngineOptions) -> None:
        self._active = active
        self._limit = options.max_sessions
        self._suspends = options.suspends_when_full
        self._starting: set[str] = set()
        self._deciding = anyio.Lock()

    def check(self) -> None:
        """Refuse early a session that could not have a kernel anyway.

        Raises:
            TooManySessions: the limit is reached, and no session can make room.
        """
        if self._missing(()) > 0 and not self._spare(()):
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
        while self._missing((record.id,)) > 0:
            if not suspends:
                raise self._refusal("none is to make room for a trial")
            async with self._deciding:  # one at a time, or two would each suspend a session for the same room
                if self._missing((record.id,)) > 0:
                    await self._make_room((record.id, *spare))
        self._starting.add(record.id)
        try:
            yield
        finally:
            self._starting.discard(record.id)

    async def _make_room(self, spare: Collection[str]) -> None:
        idle = self._spare(spare)
        if not idle:
            raise self._refusal()
        await idle[0].kernel.suspend(reason=_REASON)

    def _missing(self, but: Collection[str]) -> int:
        """How many sessions too many there would be with one more."""
        taken = {session.id for session in self._active()} | self._starting
        return len(taken.difference(but)) + 1 - self._limit

    def _spare(self, but: Collection[str]) -> list[Session]:
        """The sessions that can make room, the longest idle first."""
        if not self._suspends:
            return []
        before = time.monotonic() - _LEAST_IDLE_S
        idle = [one for one in self._active() if one.is_idle and one.last_active <= before]
        others = (one for one in idle if one.id not in (*but, *self._starting))
        return sorted(others, key=lambda one: one.last_active)

    def _refusal(self, why: str | None = None) -> TooManySessions:
        at_work = f"each of them is at work or was within the last {_LEAST_IDLE_S:g} s"
        why = why or (at_work if self._suspends else "when_full is 'refuse'")
        return TooManySessions(
            f"As many sessions are active as the setting max_sessions allows, {self._limit}, and {why}",
            hint="Suspend or delete one, or raise CELLWRIGHT_MAX_SESSIONS",
        )
