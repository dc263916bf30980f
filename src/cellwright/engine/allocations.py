"""Makes the hosts in allocations out of the settings. What they are is ``hosts.slurm``'s."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec.structs import replace

from cellwright.hosts import HostWay
from cellwright.hosts.slurm.allocations import AllocationOptions, Allocations
from cellwright.hosts.slurm.commands import SlurmCommands
from cellwright.hosts.slurm.fleet import SlurmFleet
from cellwright.hosts.slurm.host_options import Expectation
from cellwright.hosts.slurm.shapes import Shape
from cellwright.hosts.slurm.transport import AllocationWay
from cellwright.settings import Settings

__all__ = ["default_shape", "slurm_fleet"]


def slurm_fleet(
    settings: Settings,
    environment: Mapping[str, str],
    expected: Expectation,
    kernels: Callable[[str], int],
    expiring: Callable[[], Collection[str]],
) -> SlurmFleet | None:
    """The hosts in allocations; None where there is no SLURM. ``kernels`` counts those on a host."""
    if shutil.which("sbatch", path=environment.get("PATH")) is None:
        return None
    python = str(settings.slurm_python or sys.executable)
    directory = settings.storage / "allocations"
    commands = SlurmCommands(
        environment, os.getuid(), settings.slurm_command_timeout_s, settings.pass_environment
    )
    found_within_s = settings.slurm_poll_s + settings.slurm_command_timeout_s
    options = AllocationOptions(
        python,
        template=settings.slurm_template,
        max_allocations=settings.slurm_max_allocations,
        warn_s=settings.slurm_warn_s,
        poll_s=settings.slurm_poll_s,
        tls=settings.slurm_connection == "tls",
        expected=replace(expected, found_within_s=found_within_s),
    )

    def way(allocations: Allocations, key: str) -> HostWay:
        return AllocationWay(
            allocations, Path(directory, key), python=python, connecting=settings.slurm_connection
        )

    return SlurmFleet(
        Allocations(directory, commands, options),
        shape=default_shape(settings),
        way=way,
        kernels=kernels,
        expiring=expiring,
        kernel_bytes=settings.max_session_memory,
        wait_s=settings.slurm_wait_s,
    )


def default_shape(settings: Settings) -> Shape:
    """What an allocation has where a call says nothing.

    Raises:
        ShapeRefused: a setting is not one that SLURM would take.
    """
    return Shape(
        partition=settings.slurm_partition,
        gres=settings.slurm_gres,
        cpus=settings.slurm_cpus,
        memory=settings.slurm_mem,
        time=settings.slurm_time,
        account=settings.slurm_account,
        qos=settings.slurm_qos,
        constraint=settings.slurm_constraint,
        modules=settings.slurm_modules,
        extra=settings.slurm_extra,
    )
