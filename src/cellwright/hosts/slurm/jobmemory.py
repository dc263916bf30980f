"""How much memory the job of this process has, and how much of it is used: of the cgroup that SLURM made for it. Reads."""

from __future__ import annotations

import re
from pathlib import Path

from cellwright.hosts import memory

__all__ = ["job_limit", "memory_fraction"]

_GROUPS = Path("/sys/fs/cgroup")
_JOB = re.compile(r"(.*/job_\d+)(/|$)")
# So much is SLURM's, or the kernel's, word for no limit.
_NO_LIMIT = 1 << 60


def job_limit() -> int | None:
    """The job's memory in bytes; None where SLURM sets no limit, or none that can be seen."""
    for path, names in _found():
        limit = _number(path / names[0])
        if limit is not None and limit < _NO_LIMIT:
            return limit
    return None


def memory_fraction() -> float:
    """The used part of the job's memory; where it has no limit, of the machine's."""
    for path, (limit_name, used_name, cache_name) in _found():
        limit, used = _number(path / limit_name), _number(path / used_name)
        if limit is not None and used is not None and limit < _NO_LIMIT:
            return max(0.0, (used - _cached(path / "memory.stat", cache_name)) / limit)
    return memory.memory_fraction()


def _found() -> list[tuple[Path, tuple[str, str, str]]]:
    """The job's group with the names of its limit, its use, and the part of that which is given back when asked."""
    v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    v2 = ("memory.max", "memory.current", "inactive_file")
    found = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        job = _JOB.match(path)
        if job is None:
            continue
        if "memory" in controllers.split(","):
            found.append((_GROUPS / "memory" / job[1].lstrip("/"), v1))
        elif not controllers:
            found.append((_GROUPS / job[1].lstrip("/"), v2))
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _cached(path: Path, name: str) -> int:
    try:
        words = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        return next((int(value) for key, value in words if key == name), 0)
    except (OSError, ValueError):
        return 0
