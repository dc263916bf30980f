"""A host's environment: the whole machine, or a part of one that was lent to it for a while. Decides nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import anyio
import psutil

from cellwright.hosts.protocol import HostOptions
from cellwright.kernels import Exit, Programs

__all__ = ["Ending", "HostEnvironment", "memory_fraction"]
# How full this machine's memory is, as the kernel or the container's limit has it. Reads; decides nothing.


_CGROUP = Path("/sys/fs/cgroup")

# v2 and v1: the limit, what is used, and the part of it that the kernel gives back when asked.
_CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def memory_fraction() -> float:
    """The larger of the machine's and the container's used part of memory, between 0 and 1."""
    machine = psutil.virtual_memory()
    return max(1 - machine.available / machine.total, _container_fraction(machine.total))


def _container_fraction(machine_bytes: int) -> float:
    for limit_file, used_file, stat_file, cache_key in _CGROUP_FILES:
        try:
            limit = int((_CGROUP / limit_file).read_text())
            used = int((_CGROUP / used_file).read_text())
            stat = (_CGROUP / stat_file).read_text()
        except (OSError, ValueError):  # no such file, or "max"
            continue
        if limit >= machine_bytes:
            continue
        cache = next((int(line.split()[1]) for line in stat.splitlines() if line.split()[0] == cache_key), 0)
        return max(0.0, (used - cache) / limit)
    return 0.0


# Before anybody has said how long.
_IDLE_S = 60.0

# How long after a kernel its host may be told of the same end.
_SAME_END_S = 3.0


def idle_here(options: HostOptions | None) -> float | None:
    """How long a host on this machine stays when nobody needs it."""
    return options.idle_s if options is not None else _IDLE_S


class Ending:
    """That the host itself is being ended, and why: who ends a job may end its kernels first."""

    def __init__(self, *, doubtful: bool = False) -> None:
        """``doubtful`` is an end of a kernel that may be the host's, where others end both at once."""
        self._doubtful = doubtful
        self._told = anyio.Event()
        self.why: str | None = None

    def tell(self, why: str) -> None:
        self.why = why
        self._told.set()

    async def explain(self, end: Exit) -> tuple[Exit, bool]:
        """A kernel's end as the host's, if that is what it is; and whether it is."""
        if self._doubtful and end.cause in ("signal", "unknown"):
            with anyio.move_on_after(_SAME_END_S):
                await self._told.wait()
            if self.why is not None:
                return replace(end, cause="killed", message=self.why), True
        return end, False


class JobSteps(Protocol):
    """Starts programs as steps of a job, each with memory of its own. A port: ``slurm.steps`` implements it."""

    def memory_for(self, session_bytes: int | None) -> int | None:
        """How much memory the step of a session has that may have so much; None where the job limits nothing."""
        ...

    def sized(self, memory: int | None) -> Programs:
        """What starts programs in steps of that size."""
        ...


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """The limits and the end of the machine or job that a host runs in; by default all of this machine."""

    idle_s: Callable[[HostOptions | None], float | None] = idle_here
    """How long the host stays when nobody needs it; None is for good."""
    memory_fraction: Callable[[], float] = memory_fraction
    """The used part of the memory that it has."""
    steps: JobSteps | None = None
    """How each kernel gets a job step of its own, where there are such."""
    ending: Ending = field(default_factory=Ending)
