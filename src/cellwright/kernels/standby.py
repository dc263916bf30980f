"""Kernels that wait, ready, for the next launch of their fork server. How one is made is ``forkserver``'s."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

import anyio

from cellwright.errors import KernelStartError
from cellwright.kernels.kernel import Kernel

__all__ = ["Standby"]

log = logging.getLogger(__name__)

REFILL_PAUSE_S = 0.25


class Standby:
    """Keeps so many kernels waiting until it is dismissed."""

    def __init__(self, wanted: int, fork: Callable[[], Awaitable[Kernel]]) -> None:
        self._wanted = wanted
        self._fork = fork
        self._waiting: deque[Kernel] = deque()
        self._launching = 0
        self.launched = anyio.Event()
        """Set when a launch is over, and renewed by whoever waits for the next one."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[Kernel, ...]:
        return tuple(self._waiting)

    def take(self) -> Kernel | None:
        return self._waiting.popleft() if self._waiting else None

    @contextlib.contextmanager
    def launching(self) -> Iterator[None]:
        """Something is launched meanwhile."""
        self._launching += 1
        try:
            yield
        finally:
            self._launching -= 1
            self.launched.set()

    def dismiss(self, reason: str) -> None:
        """End those that wait, and have no others."""
        self._wanted = 0
        while self._waiting:
            self._waiting.popleft().process.kill_tree(reason)

    async def keep(self) -> None:
        """Fork what is missing, now and after each launch, until cancelled."""
        while True:
            while len(self._waiting) < self._wanted:
                try:
                    kernel = await self._fork()
                except KernelStartError as error:
                    log.warning("standby_kernel_failed", extra={"reason": str(error)})
                    break
                if len(self._waiting) < self._wanted:
                    self._waiting.append(kernel)
                else:
                    kernel.process.kill_tree("nobody waits for it any more")
            await self.launched.wait()
            await self._quiet()

    async def _quiet(self) -> None:
        """Wait until nothing was launched for a moment: whoever launches needs the processor more than the pool."""
        quiet = False
        while not quiet:
            self.launched = anyio.Event()
            with anyio.move_on_after(REFILL_PAUSE_S):
                await self.launched.wait()
            quiet = not self.launched.is_set() and not self._launching
