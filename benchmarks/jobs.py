"""Which processes a job has, and what they cost. Knows SLURM's own names for its processes, and measures nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

import psutil

__all__ = ["job_processes", "kernel_count", "login_processes", "pss_bytes"]

_STEP = re.compile(r"slurmstepd: \[(\d+)\.(\w+)\]")
_OURS_IN_A_STEP = "cellwright_kernel"


def job_processes(job_id: int) -> list[psutil.Process]:
    """Everything that runs in a job, SLURM's own process of each step included. Of a cluster on this machine."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            told = _STEP.search(" ".join(process.cmdline()))
            if told is not None and int(told[1]) == job_id:
                found += [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return found


def kernel_count(processes: Iterable[psutil.Process]) -> int:
    """How many of a job's steps have a fork server and a kernel that it forked."""
    return sum(_has_kernel(process) for process in processes if _is_step(process))


def login_processes(pid: int) -> list[psutil.Process]:
    """The processes below one that reach into jobs."""
    return [one for one in psutil.Process(pid).children(recursive=True) if one.name() == "srun"]


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Memory, shared pages counted once; of those that live."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def _is_step(process: psutil.Process) -> bool:
    try:
        return _STEP.search(" ".join(process.cmdline())) is not None
    except psutil.NoSuchProcess:
        return False


def _has_kernel(step: psutil.Process) -> bool:
    try:
        below = step.children(recursive=True)
        commands = [" ".join(one.cmdline()) for one in below]
    except psutil.NoSuchProcess:
        return False
    return len(below) > 1 and any(_OURS_IN_A_STEP in command for command in commands)
