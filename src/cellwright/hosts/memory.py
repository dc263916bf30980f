"""How much memory the machine, the container or the job of a process has, how much of it is in use, and what of it one
session may have where no setting says. Reads; stops nothing (see ``server``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeAlias

import psutil

__all__ = [
    "LEAST_SHARE",
    "V1",
    "V2",
    "GroupFiles",
    "MemoryUse",
    "group_use",
    "machine_memory",
    "session_share",
]

LEAST_SHARE = 512 << 20
"""What a session may have however full the machine is: as a limit, not as a promise."""

_MEGABYTE = 1 << 20

_CGROUP = Path("/sys/fs/cgroup")

GroupFiles: TypeAlias = tuple[str, str, str]
"""The names of a cgroup's limit, of what it uses, and of the part of that which is given back when asked."""

V1: GroupFiles = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")

V2: GroupFiles = ("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory that there is, and the part that runs have taken and cannot give back, in bytes."""

    total: int
    used: int

    @property
    def fraction(self) -> float:
        return self.used / self.total if self.total else 0.0


def machine_memory() -> MemoryUse:
    """The memory of this machine, or of the container or service around this process where that is less."""
    machine = psutil.virtual_memory()
    whole = MemoryUse(machine.total, machine.total - machine.available)
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return whole
    found = [use for place in _groups_around(own) if (use := group_use(*place)) is not None]
    return min((_within(use, whole) for use in found if use.total < whole.total), default=whole, key=_left)


def _within(container: MemoryUse, machine: MemoryUse) -> MemoryUse:
    """A container's memory, which is as full as the machine is where that is fuller."""
    used = int(container.total * max(container.fraction, machine.fraction))
    return MemoryUse(container.total, used)


def _left(use: MemoryUse) -> int:
    return use.total - use.used


def _groups_around(own: str) -> Iterator[tuple[Path, GroupFiles]]:
    """The cgroups that a process is in, by what ``/proc`` says of it, each with the names of its files."""
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (_CGROUP / "memory", V1) if controllers else (_CGROUP, V2)
        # Inside a container the path is the machine's, or starts where the container does: all that is there counts.
        inside = PurePath(path.lstrip("/"))
        for part in dict.fromkeys((inside, *inside.parents)):
            yield top / part, names


def session_share(use: MemoryUse) -> int:
    """What one session may have where no setting says: half of what nothing uses, and no less than ``LEAST_SHARE``.

    It is a ceiling that any number of sessions have at once, and no reservation: sessions that together come near to
    what there is meet ``max_memory_fraction``.
    """
    free = max(0, use.total - use.used)
    return max(free // 2, min(LEAST_SHARE, use.total)) // _MEGABYTE * _MEGABYTE


def group_use(directory: Path, names: GroupFiles) -> MemoryUse | None:
    """What a cgroup may have and has, by the names of its files; None where it has no limit."""
    limit_name, used_name, cache_name = names
    try:
        limit = int((directory / limit_name).read_text(encoding="ascii"))
        used = int((directory / used_name).read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return MemoryUse(limit, max(0, used - _cached(directory / "memory.stat", cache_name)))


def _cached(path: Path, name: str) -> int:
    try:
        words = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        return next((int(value) for key, value in words if key == name), 0)
    except (OSError, ValueError):
        return 0
