"""Sessions that a person deleted a moment ago and can still restore.

No list shows them meanwhile, and nothing of them is gone: their kernels live on, idle. When a session's time is over
the engine deletes it for good.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import anyio

from cellwright.engine.records import Batch
from cellwright.engine.session import Session
from cellwright.errors import CellwrightError, UnknownSession

__all__ = ["Trash"]

_log = logging.getLogger(__name__)

# A session that could not be deleted is tried again.
_RETRY_S = 60.0


class Trash:
    """The deleted sessions among all of an engine."""

    def __init__(
        self, sessions: Mapping[str, Session], delete: Callable[[str], Awaitable[None]], *, keep_s: float
    ) -> None:
        """``delete`` ends one for good; each is kept for ``keep_s``."""
        self._sessions = sessions
        self._delete = delete
        self._keep_s = keep_s
        self._changed = anyio.Event()

    @property
    def sessions(self) -> list[Session]:
        """All that can be brought back, the newest first."""
        return sorted(self._deleted(), key=lambda one: one.record.deleted_at or 0, reverse=True)

    async def put(self, session: Session) -> None:
        """Hide a session, and stop what it runs."""
        with suppress(CellwrightError):  # a host out of reach stops it when the session ends for good
            await session.interrupt()
        await self._mark(session, time.time(), "deleted")
        self._changed.set()

    async def restore(self, session_id: str) -> Session:
        """Bring a deleted session back as it was.

        Raises:
            UnknownSession: it was not deleted, or is gone for good.
        """
        session = self._sessions.get(session_id)
        if session is None or session.record.deleted_at is None:
            raise UnknownSession(
                f"There is no deleted session {session_id!r} to bring back",
                hint="Its notebook file is where it was: open that",
            )
        await self._mark(session, None, "restored")
        return session

    async def run(self) -> None:
        """Delete for good what was not restored in time, until cancelled."""
        while True:
            self._changed = anyio.Event()
            for session in [one for one in self._deleted() if self._left_s(one) <= 0]:
                await self._end(session)
            left_s = [max(self._left_s(one), 0) or _RETRY_S for one in self._deleted()]
            with anyio.move_on_after(min(left_s, default=float("inf"))):
                await self._changed.wait()

    def _deleted(self) -> list[Session]:
        return [one for one in self._sessions.values() if one.record.deleted_at is not None]

    def _left_s(self, session: Session) -> float:
        at = session.record.deleted_at
        return float("inf") if at is None else at + self._keep_s - time.time()

    async def _end(self, session: Session) -> None:
        try:
            await self._delete(session.id)
        except CellwrightError as error:
            _log.warning("not_deleted session=%s %s", session.id, error)

    async def _mark(self, session: Session, at: float | None, change: str) -> None:
        batch = Batch()
        session.context.propose(batch, deleted_at=at)
        session.context.note(batch, "notebook.state.changed", {"session": change})
        await session.context.services.recorder.commit(batch)
