"""SLURM's allocations as the engine's hosts: asked for, chosen, listed, waited for, given back.

What allocations there are is ``allocations``'s, which one takes the next kernel ``fleet``'s.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from cellwright.engine.hosts import Hosts
from cellwright.engine.providers import HostInfo, ShapeRequest
from cellwright.engine.records import SessionRecord
from cellwright.errors import HostPending, HostUnreachable, UnknownHost
from cellwright.hosts import HostTransport
from cellwright.hosts.protocol import HostOptions
from cellwright.settings.model import SlurmSettings
from cellwright.slurm.allocations import AllocationOptions, Allocations
from cellwright.slurm.commands import UNCONFIGURED, SlurmCommands
from cellwright.slurm.directories import Allocation
from cellwright.slurm.fleet import DEFAULT_NAME, PREFIX, SlurmFleet, host_name
from cellwright.slurm.host_options import expectation
from cellwright.slurm.shapes import Shape
from cellwright.slurm.states import Ended, Ending, Pending, Running, Submitting
from cellwright.slurm.transport import AllocationTransport

__all__ = ["SlurmHosts", "default_shape", "only_allocation", "requested_shape", "slurm_hosts"]

DEBUG_NAME = "debug"
_STARTING_S = 0.2
_SETTLING_S = 20.0
_STATES = {Submitting: "pending", Pending: "pending", Running: "ready", Ending: "ending", Ended: "ended"}


def slurm_hosts(
    settings: SlurmSettings,
    storage: Path,
    pass_environment: tuple[str, ...],
    kernel_bytes: int | None,
    hosts: Hosts,
    options: HostOptions,
    environment: Mapping[str, str],
) -> SlurmHosts:
    """Make the hosts in allocations of one storage directory.

    ``kernel_bytes`` is the memory that each kernel may have, ``environment`` what kernels get.
    """
    python = str(settings.slurm_python or sys.executable)
    directory = storage / "allocations"
    commands = SlurmCommands(
        dict(os.environ), os.getuid(), settings.slurm_command_timeout_s, pass_environment
    )
    found_within_s = settings.slurm_poll_s + settings.slurm_command_timeout_s
    expected = msgspec.structs.replace(expectation(options, environment), found_within_s=found_within_s)
    allocation_options = AllocationOptions(
        python,
        template=settings.slurm_template,
        max_allocations=settings.slurm_max_allocations,
        warn_s=settings.slurm_warn_s,
        poll_s=settings.slurm_poll_s,
        tls=settings.slurm_connection == "tls",
        expected=expected,
    )

    def way(allocations: Allocations, key: str) -> HostTransport:
        return AllocationTransport(
            allocations, Path(directory, key), python=python, connecting=settings.slurm_connection
        )

    fleet = SlurmFleet(
        Allocations(directory, commands, allocation_options),
        shape=default_shape(settings),
        way=way,
        kernels=hosts.kernels_on,
        expiring=hosts.expiring,
        kernel_bytes=kernel_bytes,
        wait_s=settings.slurm_wait_s,
    )
    return SlurmHosts(fleet, hosts, settings)


class SlurmHosts:
    """Every allocation of one storage directory (see ``engine.providers.HostProvider``)."""

    def __init__(self, fleet: SlurmFleet, hosts: Hosts, settings: SlurmSettings) -> None:
        self.fleet = fleet
        self.allocations = fleet.allocations
        self._hosts = hosts
        self._settings = settings

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep up with SLURM while this runs."""
        await self.fleet.run(task_status=task_status)

    async def unconfigured(self) -> str | None:
        """That SLURM's commands find no cluster, where they find none."""
        return None if await self.allocations.has_cluster() else UNCONFIGURED

    def check(self, which: str | None) -> None:
        """Refuse nothing: an allocation of any name can be asked for."""

    async def choose(self, which: str | None) -> str:
        """The name of the host on which the next kernel is to start; see ``SlurmFleet.choose``."""
        return await self.fleet.choose(which)

    def transport(self, name: str) -> HostTransport:
        """How the host in an allocation is reached."""
        return self.fleet.way(name)

    def kernel(self, record: SessionRecord, language: str, *, main: bool, fresh: bool) -> None:
        """None: kernels in allocations are ours."""

    # Listing -----------------------------------------------------------------------------------------------------

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        """Every allocation, also those that ``ended``."""
        await self.allocations.look()
        return [await self._info(one) for one in self.allocations.all(ended=ended)]

    async def _info(self, allocation: Allocation) -> HostInfo:
        name, state = host_name(allocation), allocation.state
        told, running = self.allocations.told(allocation), isinstance(state, Running)
        status = await self._hosts.status_of(name)
        away = self._hosts.away(name) if running else None
        capacity = self.fleet.capacity(allocation)
        return HostInfo(
            name,
            "slurm",
            "away" if away is not None else _STATES[type(state)],
            f"{told.text}; it cannot be reached: {away}" if away is not None else told.text,
            told.hint,
            kernels=self._hosts.kernels_on(name),
            capacity=int(capacity) if math.isfinite(capacity) else None,
            resources=status.resources if status is not None else None,
            expires_at=state.ends_at if isinstance(state, Running) else None,
            job_id=allocation.job_id,
            called=f"slurm:{allocation.name}",
            directory=allocation.directory,
        )

    # Starting and stopping ---------------------------------------------------------------------------------------

    async def start(self, which: str | None, request: ShapeRequest) -> HostInfo:
        """Ask for an allocation; one of that name that is there already is told.

        Raises:
            ShapeRefused: SLURM cannot be asked for that, or the name is taken by an allocation of another shape.
            LimitReached: one more allocation would be too many.
            SlurmFailed: SLURM refused, or does not answer.
        """
        name = which or (DEBUG_NAME if request.debug else DEFAULT_NAME)
        living = next((one for one in self.allocations.all() if one.name == name and one.lasting), None)
        if living is None or not request.says_nothing:
            living = await self.allocations.start(name, requested_shape(self._settings, request))
        return await self._info(living)

    async def stop(self, which: str | None) -> HostInfo:
        """Give an allocation back: the named one, or the only one.

        Raises:
            UnknownHost: there is none of that name.
            SlurmFailed: SLURM did not take it.
        """
        return await self._info(
            await self.allocations.stop(which or only_allocation(self.allocations.all()).key)
        )

    def resolve(self, which: str | None) -> str:
        """The whole name of an allocation's host; the only one, or the one called default, where none is named."""
        if which is not None:
            return host_name(self.allocations.find(which))
        found = self.allocations.all() or self.allocations.all(ended=True)[-1:]
        return host_name(only_allocation(found))

    async def wait(self, name: str, tell: Callable[[str], None]) -> None:
        """Wait until the host in an allocation answers, or has ended and its sessions know."""
        while (allocation := self.allocations.find(name.removeprefix(PREFIX))).alive:
            tell(self.allocations.told(allocation).text)
            if not isinstance(allocation.state, Running):
                await self.allocations.news()
            elif await self._answers(allocation):
                return
        # SLURM may tell of an end a moment before the link does, which is what sessions are told by.
        with anyio.move_on_after(_SETTLING_S):
            while self._hosts.kernels_on(name):  # what a link has heard it tells sessions alone
                await anyio.sleep(_STARTING_S)

    async def _answers(self, allocation: Allocation) -> bool:
        try:
            await self._hosts.named(host_name(allocation)).connect()
        except (HostPending, HostUnreachable):
            await anyio.sleep(_STARTING_S)
            return False
        return True


def default_shape(settings: SlurmSettings) -> Shape:
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


def requested_shape(settings: SlurmSettings, request: ShapeRequest) -> Shape:
    """What SLURM is to be asked for.

    Raises:
        ShapeRefused: it cannot be asked for like that.
    """
    base: dict[str, Any] = {}
    if request.debug:
        base["time"] = settings.slurm_debug_time
        if settings.slurm_debug_partition is not None:
            base["partition"] = settings.slurm_debug_partition
    said = request.model_dump(exclude={"debug", "mem"}, exclude_none=True)
    if request.mem is not None:
        said["memory"] = request.mem
    # Made anew, not replaced in: only then is it checked.
    return Shape(**{**msgspec.structs.asdict(default_shape(settings)), **base, **said})


def only_allocation(candidates: list[Allocation]) -> Allocation:
    """The allocation that is meant where none is named.

    Raises:
        UnknownHost: there is none, or more than one could be meant.
    """
    if not candidates:
        raise UnknownHost("There is no allocation", hint="`cellwright start` asks for one")
    # One that is ending, or has ended, is meant only where there is no other.
    candidates = [one for one in candidates if one.lasting] or candidates
    named = [one for one in candidates if one.name == DEFAULT_NAME]
    if len(candidates) > 1 and not named:
        names = ", ".join(one.name for one in candidates)
        raise UnknownHost(f"There are several allocations: {names}", hint="Name one")
    return (named or candidates)[-1]
