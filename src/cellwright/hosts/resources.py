"""What the machine, or the allocation, of a host has and how much of it is in use."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import psutil

from cellwright.hosts.answers import KernelStatus, Resources
from cellwright.sandbox.tiers import Tier

__all__ = ["resources"]

_MIB = 1024 * 1024


def resources(
    environment: Mapping[str, str], kernels: tuple[KernelStatus, ...], tier: Tier | None
) -> Resources:
    """What there is: in a job of SLURM's the job's share, else the whole machine."""
    node, cpus = socket.gethostname(), float(len(os.sched_getaffinity(0)))
    load = os.getloadavg()[0]
    megabytes = environment.get("SLURM_MEM_PER_NODE", "")
    if megabytes.isdigit():
        own = int(environment.get("SLURM_CPUS_ON_NODE", "") or cpus)
        used = sum(kernel.memory_bytes for kernel in kernels)
        return Resources(node, float(own), load, int(megabytes) * _MIB, used, tier)
    memory = psutil.virtual_memory()
    return Resources(node, cpus, load, memory.total, memory.total - memory.available, tier)
