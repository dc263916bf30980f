"""Kernels that wait, ready, for the next launch of their fork server. How one is made is ``forkserver``'s."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import anyio
import anyio.abc

from cellwright.errors import KernelStartError
from cellwright.kernels.kernel import Kernel, KernelLaunch
from cellwright.sandbox.workspace import needs_own_fork

__all__ = ["Spares", "Standby", "spare_of"]
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


# Which kernels can wait, ready, for sessions that are not there yet, where each is a program of its own.
# Pure but for the pools themselves. How one is started and taken over is ``deno``'s.

MOST_SORTS = 2


@dataclass(frozen=True, slots=True)
class _Sort:
    """What kernels that wait must have in common with a launch."""

    above: str
    policy: object
    environment: tuple[tuple[str, str], ...]


def spare_of(launch: KernelLaunch) -> KernelLaunch | None:
    """How to start a kernel that waits for a launch like this one; None where none can.

    It has no place yet, and its ``cwd`` is the directory that all places it may get are in.
    """
    workspace = launch.workspace
    if (
        workspace is None
        or launch.shared is not None
        or workspace.mode != "private"
        or needs_own_fork(workspace)
    ):
        return None
    above = PurePath(workspace.storage).parent
    if not PurePath(workspace.cwd).is_relative_to(above) or above == PurePath("/"):
        return None
    policy = replace(launch.policy, cell_seconds=0.0) if launch.policy is not None else None
    return replace(launch, kernel_id="", cwd=Path(above), workspace=None, layers=(), policy=policy)


class Spares:
    """Keeps so many kernels waiting of each sort that was asked for lately."""

    def __init__(self, wanted: int, make: Callable[[KernelLaunch], Awaitable[Kernel]]) -> None:
        self._wanted = wanted
        self._make = make
        self._pools: dict[_Sort, Standby] = {}
        self._count = 0

    def pool(self, spare: KernelLaunch, tasks: anyio.abc.TaskGroup) -> Standby:
        """Those that wait for launches like this; the first launch finds none."""
        sort = _Sort(str(spare.cwd), spare.policy, tuple(sorted(spare.environment.items())))
        if sort not in self._pools:
            pool = self._pools[sort] = Standby(self._wanted, lambda: self._next(spare))
            tasks.start_soon(_keep, pool)
        # The newest last; of the others the one goes that nobody asked for longest.
        self._pools[sort] = found = self._pools.pop(sort)
        while len(self._pools) > MOST_SORTS:
            oldest = next(iter(self._pools))
            self._pools.pop(oldest).dismiss("nobody asks for its like any more")
        return found

    async def _next(self, spare: KernelLaunch) -> Kernel:
        self._count += 1
        name = f"{spare.directory.name}w{self._count}"
        return await self._make(replace(spare, directory=spare.directory.with_name(name)))


async def _keep(pool: Standby) -> None:
    # Whoever launches the first one needs the processor.
    await anyio.sleep(REFILL_PAUSE_S)
    await pool.keep()
