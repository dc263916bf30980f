"""Fork servers that each serve one session, made before they are needed: where every kernel is a job step of its own.

How one is started is ``launchers``'; what it does then is ``kernels.forkserver``'s.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc

from cellwright.errors import CellwrightError, KernelStartError
from cellwright.kernels import ForkServer

__all__ = ["ServerPool"]

_log = logging.getLogger(__name__)
# Whoever takes one needs the processor more than the next one does.
_REFILL_PAUSE_S = 1.0


@dataclass(slots=True)
class _Taker:
    """Somebody who waits for the next one."""

    served: anyio.Event = field(default_factory=anyio.Event)
    server: ForkServer | None = None
    error: CellwrightError | None = None


class ServerPool:
    """Those of one kind: so many wait, and who finds none gets the next that is made."""

    def __init__(
        self, tasks: anyio.abc.TaskGroup, wanted: int, make: Callable[[], Awaitable[ForkServer]]
    ) -> None:
        self._tasks = tasks
        self._wanted = wanted
        self._make = make
        self._waiting: deque[ForkServer] = deque()
        self._takers: deque[_Taker] = deque()
        self._coming = 0

    async def take(self) -> ForkServer:
        """One that stood by, or the next that is made.

        Raises:
            KernelStartError: there is none to be had.
        """
        while self._waiting:
            server = self._waiting.popleft()
            if not server.died.is_set():
                self.fill(after_s=_REFILL_PAUSE_S)
                return server
        taker = _Taker()
        self._takers.append(taker)
        if self._coming < len(self._takers):
            self._begin(0)
        try:
            await taker.served.wait()
        finally:
            if taker in self._takers:
                self._takers.remove(taker)
        if taker.server is None:
            raise taker.error or KernelStartError("No fork server could be started")
        return taker.server

    def fill(self, *, after_s: float = 0) -> None:
        """Make what is missing, meanwhile: one after the other."""
        if not self._coming and len(self._waiting) < self._wanted:
            self._begin(after_s)

    def _begin(self, after_s: float) -> None:
        self._coming += 1
        self._tasks.start_soon(self._make_one, after_s)

    async def _make_one(self, after_s: float) -> None:
        try:
            await anyio.sleep(after_s)
            server = await self._make()
        except CellwrightError as error:
            # Told to who waits; otherwise the next launch meets it again.
            _log.warning("step_failed %s", error)
            if self._takers:
                self._serve(error=error)
            return
        finally:
            self._coming -= 1
        if self._takers:
            self._serve(server)
        else:
            self._waiting.append(server)
        self.fill(after_s=_REFILL_PAUSE_S)

    def _serve(self, server: ForkServer | None = None, error: CellwrightError | None = None) -> None:
        taker = self._takers.popleft()
        taker.server, taker.error = server, error
        taker.served.set()
