"""Sessions that nobody sees: each serves something else, goes with it, and is removed by the next engine otherwise.

How they begin and end; what they are for stands in ``rehearsal`` and ``oneshot``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from cellwright.engine.records import SessionRecord
from cellwright.engine.session import Session
from cellwright.errors import CellwrightError
from cellwright.notebook import Document

__all__ = ["Unseen"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unseen:
    """Makes and removes them. Belongs to the engine, whose sessions these are."""

    begin: Callable[[SessionRecord, Document], Awaitable[Session]]
    delete: Callable[[str], Awaitable[None]]
    new_id: Callable[[], str]
    in_background: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    _going: dict[str, anyio.Event] = field(default_factory=dict)
    """Those that are released; set once they are removed."""

    @asynccontextmanager
    async def open(self, record: SessionRecord, document: Document) -> AsyncIterator[Session]:
        """A session that is there as long as the block."""
        with anyio.CancelScope(shield=True):  # one that is half begun would be nobody's to remove
            session = await self.begin(record, document)
        try:
            yield session
        finally:
            if session.id in self._going:
                self.in_background(partial(self._remove, session.id))
            else:
                with anyio.CancelScope(shield=True):
                    await self.delete(session.id)

    def release(self, session: Session) -> None:
        """Have a session removed a moment after its block: whoever has what it came for need not wait for its end."""
        self._going[session.id] = anyio.Event()

    async def settled(self) -> None:
        """Wait until all that were released are removed."""
        for removed in list(self._going.values()):
            await removed.wait()

    async def _remove(self, session_id: str) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self.delete(session_id)
        finally:
            self._going.pop(session_id).set()

    async def clear(self, sessions: Iterable[Session]) -> None:
        """Remove what an engine left that did not live to do it."""
        for session in sessions:
            try:
                await self.delete(session.id)
            except CellwrightError as error:
                _log.warning("unseen_session_not_removed session=%s %s", session.id, error)
