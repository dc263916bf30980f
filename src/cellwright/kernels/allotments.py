"""What of the machine a kernel gets before its first instruction: a group of its own, or processors to keep to.

How a group limits is ``cellwright.sandbox.cgroups``'; the process takes its place in ``cellwright_kernel.joining``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count

import anyio

from cellwright.errors import KernelStartError
from cellwright.kernels.boxes import Isolation
from cellwright.sandbox.cgroups import Group, Groups, processors
from cellwright.sandbox.policy import Policy

__all__ = ["NOTHING", "Allotment", "Allotter"]


@dataclass(frozen=True, slots=True)
class Allotment:
    """One kernel's part. The descriptor is the starter's to hand over and close."""

    group: Group | None = None
    entrance_fd: int = -1
    processors: tuple[int, ...] = ()

    @property
    def fds(self) -> list[int]:
        return [self.entrance_fd] if self.entrance_fd >= 0 else []

    def handed_over(self) -> None:
        for fd in self.fds:
            os.close(fd)

    async def remove(self) -> None:
        """Give it back, where no kernel came to be."""
        if self.group is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.group.remove)


NOTHING = Allotment()


class Allotter:
    """Hands out parts to the kernels of one launcher."""

    def __init__(self, isolation: Isolation | None) -> None:
        self._policy = isolation.policy if isolation is not None else None
        self._groups = isolation.groups if isolation is not None else None
        self._turns = count()

    async def next(self, narrowed: Policy | None = None) -> Allotment:
        """The next kernel's part; ``narrowed`` is the policy of a session that may do less than others.

        Raises:
            KernelStartError: its group could not be made.
        """
        policy = narrowed if self._policy is not None and narrowed is not None else self._policy
        if policy is None:
            return NOTHING
        group, entrance = await self._enclosed(policy)
        shared = self._groups is not None and "cpu" in self._groups.controllers
        available = sorted(os.sched_getaffinity(0))
        own = [] if shared else processors(policy.cpus, available, next(self._turns))
        return Allotment(group, entrance, tuple(own))

    async def _enclosed(self, policy: Policy) -> tuple[Group | None, int]:
        if self._groups is None:
            return None, -1
        try:
            return await anyio.to_thread.run_sync(_make, self._groups, policy)
        except OSError as error:
            raise KernelStartError(
                f"The kernel's group could not be made below {self._groups.directory}: {error}",
                hint="Run `cellwright doctor` to see what this machine allows",
            ) from error


def _make(groups: Groups, policy: Policy) -> tuple[Group, int]:
    group = groups.make(policy)
    try:
        return group, group.open_entrance()
    except BaseException:
        group.remove()
        raise
