"""Which kernels can wait, ready, for sessions that are not there yet, where each is a program of its own. Pure but for
the pools themselves. How one is started and taken over is ``deno``'s.

One that waits was confined and told its limits before: it fits a session that has the same, and that works in a folder
of its own beside those of others, which nothing shows to a kernel but the place that it is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import anyio
import anyio.abc

from cellwright.kernels.kernel import Kernel, KernelLaunch
from cellwright.kernels.standby import REFILL_PAUSE_S, Standby
from cellwright.sandbox.workspace import needs_own_fork

__all__ = ["Spares", "spare_of"]

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
    place = launch.place
    if place is None or launch.shared is not None or place.mode != "private" or needs_own_fork(place):
        return None
    above = PurePath(place.storage).parent
    if not PurePath(place.cwd).is_relative_to(above) or above == PurePath("/"):
        return None
    policy = replace(launch.policy, cell_seconds=0.0) if launch.policy is not None else None
    return replace(launch, kernel_id="", cwd=Path(above), place=None, layers=(), policy=policy)


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
