"""SLURM's allocations as the engine's hosts: asked for, chosen, listed, waited for, given back.

What allocations there are is ``allocations``'s.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

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
from cellwright.slurm._allocations import AllocationOptions, Allocations
from cellwright.slurm._directories import DEFAULT_NAME, Allocation, expectation
from cellwright.slurm._shapes import Shape, memory_bytes
from cellwright.slurm._states import Ended, Ending, Pending, Running, Submitting, state_text
from cellwright.slurm._transport import AllocationTransport
from cellwright.slurm.commands import UNCONFIGURED, SlurmCommands

__all__ = ["SlurmFleet", "host_name", "lasts", "only_allocation", "requested_shape", "slurm_hosts"]

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
        approve=hosts.approve_allocation,
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
            await self._hosts.approve_allocation(f"ask SLURM for an allocation named {name}")
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
        raise UnknownHost("There is no allocation", hint="`cellwright host start` asks for one")
    # One that is ending, or has ended, is meant only where there is no other.
    candidates = [one for one in candidates if one.lasting] or candidates
    named = [one for one in candidates if one.name == DEFAULT_NAME]
    if len(candidates) > 1 and not named:
        names = ", ".join(one.name for one in candidates)
        raise UnknownHost(f"There are several allocations: {names}", hint="Name one")
    return (named or candidates)[-1]


# The hosts in allocations: which one the next kernel goes to, and the way to each.

PREFIX: Final = "slurm:"

# An idle cluster starts a job at once, a busy one does not: looking often pays at first only.
_FIRST_LOOK_S: Final = 0.1

_LOOK_S: Final = 0.5

_KEPT_S: Final = 7 * 24 * 3_600

_WAIT: Final = "Wait with `cellwright host wait`; the next call that needs the kernel tries again"


class SlurmFleet:
    """Every allocation of one storage directory, as a place for kernels."""

    def __init__(
        self,
        allocations: Allocations,
        *,
        shape: Shape,
        way: Callable[[Allocations, str], HostTransport],
        kernels: Callable[[str], int],
        expiring: Callable[[], Collection[str]],
        kernel_bytes: int | None,
        wait_s: float,
        approve: Callable[[str], Awaitable[None]],
    ) -> None:
        """``shape`` is asked for where nobody says otherwise; ``kernels`` counts those on a host, by its name.

        ``expiring`` names the hosts that said that their end is near, which SLURM may do a minute early.
        ``kernel_bytes`` is the memory that each may have, ``wait_s`` how long a new allocation is waited for before
        its place in the queue is told instead. ``approve`` raises where one may not be asked for.
        """
        self._approve = approve
        self.allocations = allocations
        self.shape = shape
        self._way = way
        self._kernels = kernels
        self._expiring = expiring
        self._kernel_bytes = kernel_bytes
        self._wait_s = wait_s

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep up with SLURM while this runs."""
        await self.allocations.load()
        await self._forget_the_old()
        task_status.started()
        await self.allocations.watch()

    async def _forget_the_old(self) -> None:
        """Remove what is left of allocations that ended long ago: whoever wanted to know why has looked."""
        long_ago = time.time() - _KEPT_S
        for one in self.allocations.all(ended=True):
            if isinstance(one.state, Ended) and one.seen_at < long_ago and not self._kernels(host_name(one)):
                await self.allocations.forget(one.key)

    async def choose(self, which: str | None) -> str:
        """The name of the host on which the next kernel is to start; an allocation is asked for where there is none.

        Raises:
            HostPending: it waits for its turn, of which the message tells.
            LimitReached: one more allocation would be too many.
            UnknownHost: none is called that.
            SlurmFailed: SLURM refused, or does not answer.
        """
        pause_s, approved = _FIRST_LOOK_S, False
        if self._with_room(which) is None and not self._coming(which):
            approved = await self._approved()  # before the time runs: a person's is their own
        with anyio.move_on_after(self._wait_s):
            while True:
                found = self._with_room(which)
                if found is not None:
                    return host_name(found)
                if not self._coming(which):
                    approved = approved or await self._approved()
                    await self._ask_for_one(which)
                await anyio.sleep(pause_s)
                pause_s = min(pause_s + _FIRST_LOOK_S, _LOOK_S)
                await self.allocations.look()
        raise self._pending(which)

    async def _approved(self) -> bool:
        await self._approve("ask SLURM for an allocation for a notebook")
        return True

    def way(self, name: str) -> HostTransport:
        """The way to a host by its name, also to one that is gone."""
        return self._way(self.allocations, name.removeprefix(PREFIX))

    def _with_room(self, which: str | None) -> Allocation | None:
        now, expiring = time.time(), self._expiring()
        lasting = [
            one for one in self._called(which) if lasts(one, now=now) and host_name(one) not in expiring
        ]
        kernels = {one.key: self._kernels(host_name(one)) for one in lasting}
        roomy = [one for one in lasting if kernels[one.key] < self.capacity(one)]
        return min(roomy, key=lambda one: (kernels[one.key], one.submitted_at), default=None)

    def capacity(self, allocation: Allocation) -> float:
        """How many kernels fit into an allocation, each with all the memory that it may have."""
        total = memory_bytes(allocation.shape.memory)
        if total is None or self._kernel_bytes is None:
            return math.inf
        return max(1, total // self._kernel_bytes)

    def _coming(self, which: str | None) -> list[Allocation]:
        return [one for one in self._called(which) if isinstance(one.state, Pending | Submitting)]

    def _called(self, which: str | None) -> list[Allocation]:
        return [
            one
            for one in self.allocations.all()
            if which is None or one.goes_by(which) or one.instead_of == which
        ]

    async def _ask_for_one(self, which: str | None) -> None:
        """Another of the same shape where all of that name are as good as over, else one as the settings say."""
        like = self._called(which)
        if which is not None and not like:
            raise UnknownHost(
                f"There is no allocation {which!r}",
                hint=f"`cellwright host start --name {which}` asks for one, `cellwright host list` lists what there is",
            )
        taken = {one.name for one in self.allocations.all() if one.lasting}
        stem = like[0].name if like else DEFAULT_NAME
        name = next(one for one in (stem, *(f"{stem}-{n}" for n in range(2, 1_000))) if one not in taken)
        # What is found by the same wish the next time, or every look would ask for one more.
        instead_of = which if which != name else None
        await self.allocations.start(name, like[0].shape if like else self.shape, instead_of=instead_of)

    def _pending(self, which: str | None) -> HostPending:
        coming = self._coming(which)
        if not coming:
            return HostPending("No allocation is there yet", hint=_WAIT)
        first = coming[0]
        told = state_text(first.state, now=time.time())
        return HostPending(
            f"Allocation {first.name} (job {first.job_id}) is {told.text}", hint=told.hint or _WAIT
        )


def host_name(allocation: Allocation) -> str:
    """What the host in an allocation is called."""
    return f"{PREFIX}{allocation.key}"


def lasts(allocation: Allocation, *, now: float) -> bool:
    """Whether an allocation takes kernels: it runs, and is not about to end."""
    state = allocation.state
    return (
        isinstance(state, Running)
        and not state.suspended
        and (state.ends_at is None or state.ends_at - now > allocation.warn_s)
    )
