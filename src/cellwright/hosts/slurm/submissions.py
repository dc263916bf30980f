"""How ``sbatch`` is asked for an allocation. Pure; who asks is ``allocations``."""

from __future__ import annotations

from typing import Final

from cellwright.hosts.slurm.shapes import shape_arguments
from cellwright.hosts.slurm.shelves import Allocation

__all__ = ["JOB_PREFIX", "job_arguments"]

JOB_PREFIX: Final = "cellwright-"


def job_arguments(allocation: Allocation) -> list[str]:
    """How ``sbatch`` is asked for an allocation. Anybody may read it: there is nothing secret in it."""
    # sbatch takes "%" in a file's name for a pattern.
    log = str(allocation.log).replace("%", "%%")
    return [
        f"--job-name={JOB_PREFIX}{allocation.name}",
        "--nodes=1",
        "--ntasks=1",
        # What comes back after a requeue would be an empty host; sessions resume on a new allocation instead.
        "--no-requeue",
        f"--signal=B:USR1@{allocation.warn_s}",
        "--export=ALL",
        f"--chdir={allocation.directory}",
        f"--output={log}",
        "--open-mode=append",
        *shape_arguments(allocation.shape),
    ]
