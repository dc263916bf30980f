"""How full this machine's memory is, as the kernel or the container's limit has it. Reads; decides nothing."""

from __future__ import annotations

from pathlib import Path

import psutil

__all__ = ["memory_fraction"]

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
