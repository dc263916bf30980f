"""How much memory a job step has, and whether somebody in it was ended for want of it. Starts none (see ``steps``)."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from cellwright.kernels.lastwords import LastWords
from cellwright.sandbox.exit_reasons import LimitHit

__all__ = ["MEGABYTE", "ROOM", "StepMemory", "step_memory"]

MEGABYTE = 1 << 20
ROOM = 256 * MEGABYTE
"""What a step has beyond its session's own limit: the fork server with what it preloaded, and who stays beside kernels."""
_OUT_OF_MEMORY = re.compile(r"Out Of Memory|oom-kill", re.IGNORECASE)


def step_memory(session_bytes: int | None, job_bytes: int | None) -> int | None:
    """The memory of a step for a session with this limit; None is all that the job has.

    The session's limit and room for the fork server, but no more than the job has: SLURM refuses a step that asks for
    more. Steps overlap, so that together they may ask for more than there is; then the job's own limit counts.
    """
    if session_bytes is None:
        return None
    wanted_bytes = session_bytes + ROOM
    return wanted_bytes if job_bytes is None or wanted_bytes < job_bytes else None


class StepMemory:
    """What a step's memory is limited to, and whether somebody was ended for it."""

    def __init__(self, pid: int, limit: int | None, words: LastWords) -> None:
        """``pid`` is a process in the step, ``words`` is what ``srun`` says."""
        self._limit = limit
        self._words = words
        self._counter = _oom_counter(Path(f"/proc/{pid}/cgroup"))
        self._before = self._kills()

    def limit_behind(self, status: int | None) -> LimitHit | None:
        """The step's memory, if a process of it was killed since it was last asked and this one could be it."""
        kills, before = self._kills(), self._before
        self._before = kills
        ended_by_itself = status is not None and status >= 0
        # What srun says is of its step's own program; the counter is of all that is in the step.
        if (kills <= before or ended_by_itself) and not _OUT_OF_MEMORY.search(self._words.text):
            return None
        told = f" {self._limit // MEGABYTE:,} MB" if self._limit is not None else ""
        return LimitHit(
            "max_session_memory",
            f"The kernel's job step ran out of its{told} of memory (max_session_memory, and room for its fork server)"
            if self._limit is not None
            else "The kernel ran out of the job's memory (slurm_mem)",
            "Use less at once (samples, chunks, fewer copies), or raise CELLWRIGHT_MAX_SESSION_MEMORY, in an allocation "
            "that has as much (CELLWRIGHT_SLURM_MEM); then run the cells again in a new kernel",
        )

    def _kills(self) -> int:
        if self._counter is None:
            return 0
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", self._counter.read_text(), re.MULTILINE)
            return int(found[1]) if found is not None else 0
        return 0


def _oom_counter(told: Path) -> Path | None:
    """The file that counts kills in the memory group of a process: of either version of cgroups."""
    with contextlib.suppress(OSError):
        for line in told.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return Path(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
            if not controllers and path != "/":
                return Path(f"/sys/fs/cgroup{path}/memory.events")
    return None
