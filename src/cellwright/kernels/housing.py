"""Makes what a fork server's kernels live in, and looks after it: families in boxes, and boxes below those."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cellwright.errors import CheckpointRefused
from cellwright.kernels.boxes import Isolation
from cellwright.kernels.boxlines import BoxLine, Nested
from cellwright.kernels.families import Family, Makings
from cellwright.kernels.kernel import Beginning, Kernel
from cellwright.kernels.lodgings import Lodging
from cellwright.kernels.processes import wanted
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import DOOR
from cellwright.sandbox.workspace import Place, needs_own_fork

__all__ = ["Housing"]


class Housing:
    """All families of one fork server."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        *,
        bring_up: Callable[[Beginning], Awaitable[Kernel]],
        lives: Callable[[int], AbstractContextManager[None]],
        isolation: Isolation | None,
        readable: Callable[[], list[str]],
        directory: Path,
        lifeline_fd: int,
        start_timeout_s: float,
    ) -> None:
        """``lives`` counts a process among those that live, for a while."""
        self._tasks = tasks
        self._lives = lives
        self._isolation = isolation
        self._readable = readable
        self._directory = directory
        self._lifeline_fd = lifeline_fd
        self._numbers = count(1)
        self._makings = Makings(
            bring_up=bring_up,
            grow=self._grow,
            mounts=self.mounts,
            start_timeout_s=start_timeout_s,
        )

    def found(self, lodging: Lodging, line: BoxLine, monitor: int) -> Family:
        """A family in a box that was just made."""
        boxed = self._isolation is not None and self._isolation.stands_by
        family = Family(lodging, line, self._makings, monitor=monitor, depth=1 if boxed else 0)
        if self._isolation is not None and not boxed:
            family.unforkable = "without namespaces (tier C) no copy of a kernel may look at its own memory"
        self._tasks.start_soon(self._look_after, family, monitor)
        return family

    def mounts(self, place: Place, policy: Policy | None) -> list[dict[str, Any]]:
        """What shows a place to the kernels in a box."""
        if self._isolation is None:
            return []
        return self._isolation.under(policy).mounts(place, self._readable())

    async def _grow(self, family: Family, place: Place, policy: Policy) -> tuple[Family, Nested]:
        """A box below a family's, in which nobody lives yet."""
        if self._isolation is None or not self._isolation.stands_by:
            raise CheckpointRefused("without namespaces a branch has no box of its own")
        if needs_own_fork(place):
            raise CheckpointRefused(f"a project directly below / ({place.top}) cannot be shown to a branch")
        mounts = self.mounts(place, policy)
        directory = self._directory / f"b{next(self._numbers)}"
        directory.mkdir(mode=0o700)
        door = self._isolation.under(policy).door()
        if door is not None:
            await self._tasks.start(door.serve, directory / DOOR)
        try:
            nested = await family.line.grow(
                mounts,
                saved=Path(place.written),
                lifeline_fd=self._lifeline_fd,
                door=directory / DOOR if door is not None else None,
            )
        except BaseException:
            with anyio.CancelScope(shield=True):
                await Lodging(directory, door=door).close()
            raise
        lodging = Lodging(directory, nested.line, door)
        below = Family(lodging, nested.line, self._makings, monitor=nested.pid, depth=2, above=family)
        below.settled(place, mounts)
        self._tasks.start_soon(self._look_after, below, nested.pid)
        return below, nested

    async def _look_after(self, family: Family, monitor: int) -> None:
        # Should the fork server die, its monitors become children of this process.
        with self._lives(monitor), wanted(monitor):
            await family.run()
