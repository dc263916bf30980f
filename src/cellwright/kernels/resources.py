"""The resources of one kernel: its sandbox with the channel to it, its proxy socket, its cgroup, its directory.

They go when the kernel has ended; a ``CheckpointGroup`` may outlive its kernel.
"""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import anyio

from cellwright.errors import KernelStartError
from cellwright.kernels.confinement import Isolation
from cellwright.kernels.monitor import MonitorChannel
from cellwright.kernels.processes import KernelProcess
from cellwright.sandbox.cgroups import Group, Groups, processors
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import ProxySocket

__all__ = ["NO_CGROUP", "KernelCgroup", "KernelCgroups", "KernelResources"]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KernelResources:
    """The resources of one kernel, closed when the kernel has ended."""

    directory: Path
    line: MonitorChannel | None = None
    proxy_socket: ProxySocket | None = None
    group: Group | None = None
    _listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def run(self) -> None:
        """Listen to the kernel's monitor, until it is gone or this is closed."""
        if self.line is not None:
            with self._listening:
                await self.line.run()

    def joined(self) -> None:
        """Do nothing: these resources have one kernel."""

    async def left(self, process: KernelProcess) -> None:  # as every home has it
        """Close the resources, since their kernel has ended."""
        await self.close()

    async def close(self) -> None:
        """Save what was written last, and let go of everything."""
        self._listening.cancel()
        with anyio.CancelScope(shield=True):
            if self.line is not None:
                await self.line.close()
            if self.proxy_socket is not None:
                await self.proxy_socket.close()
            if self.group is not None:
                removed = await anyio.to_thread.run_sync(self.group.remove)
                if not removed:  # the next host tries again
                    log.warning("group_left_behind path=%s pids=%s", self.group.path, self.group.pids)
        shutil.rmtree(self.directory, ignore_errors=True)


# The part of the machine that a kernel gets before its first instruction: a cgroup of its own, or processors.


@dataclass(frozen=True, slots=True)
class KernelCgroup:
    """One kernel's cgroup and processors. The descriptor is the starter's to hand over and close."""

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
        """Remove the cgroup of a kernel that did not start."""
        if self.group is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.group.remove)


NO_CGROUP = KernelCgroup()


class KernelCgroups:
    """Makes cgroups and chooses processors for the kernels of one launcher."""

    def __init__(self, isolation: Isolation | None) -> None:
        self._policy = isolation.policy if isolation is not None else None
        self._groups = isolation.groups if isolation is not None else None
        self._turns = count()

    async def next(self, narrowed: Policy | None = None) -> KernelCgroup:
        """The next kernel's cgroup and processors; ``narrowed`` is the policy of a session that may do less than others.

        Raises:
            KernelStartError: its group could not be made.
        """
        policy = narrowed if self._policy is not None and narrowed is not None else self._policy
        if policy is None:
            return NO_CGROUP
        group, entrance = await self._enclosed(policy)
        shared = self._groups is not None and "cpu" in self._groups.controllers
        available = sorted(os.sched_getaffinity(0))
        own = [] if shared else processors(policy.cpus, available, next(self._turns))
        return KernelCgroup(group, entrance, tuple(own))

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
