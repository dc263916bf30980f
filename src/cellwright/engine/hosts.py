"""The hosts that an engine's sessions live on: one link to each, made when it is first needed.

Which host a session is to have is ``placement``'s, what one link does ``host_link``'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import anyio
import anyio.abc

from cellwright.engine.host_link import HostLink
from cellwright.engine.jupyter_servers import jupyter_server, jupyter_servers
from cellwright.engine.jupyter_sessions import server_and_kernel
from cellwright.engine.placement import LOCAL, HostKind, HostName, parse_host, relies_on_slurm, wanted_host
from cellwright.engine.records import SessionRecord
from cellwright.errors import HostCannot, HostError, HostPending, UnknownHost
from cellwright.hosts import HostWay, LocalWay, NoWay, protocol
from cellwright.hosts.protocol import Resources
from cellwright.hosts.slurm.commands import UNCONFIGURED
from cellwright.hosts.slurm.directories import Allocation
from cellwright.hosts.slurm.fleet import PREFIX, SlurmFleet, host_name
from cellwright.hosts.slurm.states import Ended, Ending, Pending, Running, Submitting
from cellwright.settings import Settings

__all__ = ["HostInfo", "Hosts", "called_place", "link_name", "place_name"]

_STARTING_S = 0.05
_STATES = {Submitting: "pending", Pending: "pending", Running: "ready", Ending: "ending", Ended: "ended"}


def link_name(record: SessionRecord) -> str:
    """The name of the link to the host that has a session's kernel, or had its last one."""
    # A kernel on a Jupyter server is this machine's host's to keep.
    return record.on or LOCAL


def place_name(record: SessionRecord) -> str:
    """The host that a session's kernel counts for, as ``cellwright hosts`` calls it."""
    host = parse_host(record.host)
    if host.kind != "jupyter":
        return link_name(record)
    return str(HostName("jupyter", server_and_kernel(host.which)[0]))


def called_place(record: SessionRecord) -> str:
    """The same by the name that people call it by: an allocation's own, without its directory's digits."""
    place = place_name(record)
    return place.rpartition("-")[0] if place.startswith(PREFIX) else place


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What is to be known of a host by whoever chooses one."""

    name: str
    kind: HostKind
    state: str
    """In a word: ``ready``, ``idle`` (starts on need), ``pending``, ``away`` (out of reach), ``ending``, ``ended``."""
    detail: str = ""
    """The same in a sentence."""
    next_step: str | None = None
    kernels: int = 0
    capacity: int | None = None
    """How many kernels fit; None where that is not known."""
    resources: Resources | None = None
    expires_at: float | None = None
    job_id: int | None = None
    called: str | None = None
    """A shorter name that means it as well: ``slurm:default``."""
    directory: str | None = None
    """Where an allocation keeps its log and its journal."""


class Hosts:
    """Every link, by name."""

    def __init__(
        self,
        settings: Settings,
        *,
        local: LocalWay,
        fleet: SlurmFleet | None,
        link: Callable[[str, HostWay], HostLink],
        kernels: Callable[[str], int],
    ) -> None:
        """``fleet`` has the hosts in allocations, where there is SLURM; ``link`` makes what the engine listens to,
        ``kernels`` counts those on a host.
        """
        self.fleet = fleet
        self._has_slurm = fleet is not None
        self._settings = settings
        self._link = link
        self.kernels_on = kernels
        """How many kernels are on the host of a name."""
        self.local = link(LOCAL, local)
        self._links: dict[str, HostLink] = {LOCAL: self.local}

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep links while this runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self.local.begin(tasks)
            if self.fleet is not None:
                await tasks.start(self.fleet.run)
                if relies_on_slurm(self._settings):
                    self._has_slurm = await self.fleet.allocations.has_cluster()
            task_status.started()
            await anyio.sleep_forever()

    def wanted(self, asked: str | None) -> HostName:
        """The host that a session is to have (see ``placement``).

        Raises:
            UnknownHost: there is none of that name.
        """
        name = wanted_host(asked, self._settings, has_slurm=self._has_slurm)
        if name.kind == "jupyter":
            jupyter_server(self._settings, server_and_kernel(name.which)[0])
        return name

    def of(self, record: SessionRecord) -> HostLink:
        """The link to a session's host."""
        return self.named(link_name(record))

    async def choose(self, record: SessionRecord) -> HostLink:
        """The link to the host on which a session's next kernel is to start.

        Raises:
            HostPending: it waits for its turn.
            LimitReached: one more would be too many.
            HostCannot: there are no such hosts here.
        """
        name = parse_host(record.host)
        if name.kind != "slurm":
            return self.local
        return self.named(await self.require_fleet().choose(name.which))

    async def reach(self, link: HostLink) -> None:
        """Have a host answer that was just chosen; one that is starting is waited for.

        Raises:
            HostPending: it takes longer than a call should.
        """
        deadline = anyio.current_time() + self._settings.slurm_wait_s
        while True:
            try:
                await link.connect()
            except HostPending:
                if anyio.current_time() > deadline:
                    raise
                await anyio.sleep(_STARTING_S)
            else:
                return

    def require_fleet(self) -> SlurmFleet:
        """The allocations.

        Raises:
            HostCannot: there is no SLURM here.
        """
        if self.fleet is None:
            raise HostCannot(
                "There is no SLURM here: `sbatch` is not on the PATH, or this engine does not outlive its caller",
                hint="Ask for host `local` (`--host local`), or let a daemon do it where SLURM's commands are",
            )
        return self.fleet

    def wants_local(self, records: Iterable[SessionRecord]) -> bool:
        """Whether this machine's host is to be had at once; on a login node nothing starts that nobody asked for."""
        if any(link_name(record) == LOCAL and (record.kernel_id or record.left_by) for record in records):
            return True
        try:
            default = wanted_host(None, self._settings, has_slurm=self._has_slurm)
        except UnknownHost:  # whoever relies on it is told then
            return True
        return default.kind != "slurm"

    def seek(self, records: Iterable[SessionRecord]) -> None:
        """Reach the hosts, other than this machine's, that had kernels of these sessions."""
        names = {link_name(record) for record in records if record.kernel_id or record.left_by}
        for name in names - {LOCAL}:
            self.named(name).seek()

    async def close(self, *, stop_hosts: bool) -> None:
        """Let all hosts go, or end them with their kernels."""
        for link in self._links.values():
            await link.close(stop_host=stop_hosts)

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        """Every host there is, with capacity, load, tier and health; also allocations that ``ended``."""
        found = [await self._local_info()]
        if self.fleet is not None:
            await self.fleet.allocations.look()
            allocations = self.fleet.allocations.all(ended=ended)
            found += [await self._allocation_info(self.fleet, one) for one in allocations]
        return found + [await self._server_info(name) for name in jupyter_servers(self._settings)]

    async def kernel_memory(self) -> dict[str, int]:
        """How much memory each kernel has, by its id, on hosts that can be asked now."""
        found: dict[str, int] = {}
        for link in list(self._links.values()):
            if (status := await self._status(link)) is not None:
                found |= {one.kernel_id: one.memory_bytes for one in status.kernels}
        return found

    async def _server_info(self, which: str | None) -> HostInfo:
        from cellwright.kernels.jupyter.hubs import look_at  # an extra

        name = str(HostName("jupyter", which))
        try:
            health = await look_at(jupyter_server(self._settings, which))
        except UnknownHost as error:
            return HostInfo(name, "jupyter", "away", error.message, error.hint)
        state = "ready" if health.answers else "away"
        return HostInfo(
            name, "jupyter", state, health.detail, health.next_step, kernels=self.kernels_on(name)
        )

    async def about(self, allocation: Allocation) -> HostInfo:
        """The host of one allocation, as ``list`` tells it."""
        return await self._allocation_info(self.require_fleet(), allocation)

    async def _local_info(self) -> HostInfo:
        status = await self._status(self.local)
        detail = "this machine" if status is not None else "starts when a kernel is needed"
        if self.fleet is not None and not self._has_slurm:
            detail += f"; {UNCONFIGURED}"
        return HostInfo(
            LOCAL,
            "local",
            "ready" if status is not None else "idle",
            detail,
            kernels=self.kernels_on(LOCAL),
            capacity=self._settings.max_sessions,
            resources=status.resources if status is not None else None,
        )

    async def _allocation_info(self, fleet: SlurmFleet, allocation: Allocation) -> HostInfo:
        name, state = host_name(allocation), allocation.state
        told, running = fleet.allocations.told(allocation), isinstance(state, Running)
        link = self._links.get(name)
        status = await self._status(link) if link is not None else None
        away = link.away if link is not None and running else None
        capacity = fleet.capacity(allocation)
        return HostInfo(
            name,
            "slurm",
            "away" if away is not None else _STATES[type(state)],
            f"{told.text}; it cannot be reached: {away}" if away is not None else told.text,
            told.hint,
            kernels=self.kernels_on(name),
            capacity=int(capacity) if math.isfinite(capacity) else None,
            resources=status.resources if status is not None else None,
            expires_at=state.ends_at if isinstance(state, Running) else None,
            job_id=allocation.job_id,
            called=f"slurm:{allocation.name}",
            directory=allocation.directory,
        )

    @staticmethod
    async def _status(link: HostLink) -> protocol.Attached | None:
        if not link.is_connected:
            return None
        try:
            return await link.call(protocol.Status(), protocol.Attached)
        except HostError:
            return None

    def named(self, name: str) -> HostLink:
        """The link of that name, made where there is none yet."""
        if name not in self._links:
            way = self.fleet.way(name) if self.fleet is not None else NoWay(name)
            link = self._links[name] = self._link(name, way)
            link.begin(self._tasks)
        return self._links[name]
