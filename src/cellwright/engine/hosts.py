"""The hosts that an engine's sessions live on: one link to each, made when it is first needed.

Which host a session is to have is ``placement``'s, what one link does ``host_link``'s. Hosts beside this machine's come
from providers (see ``providers``), of which nothing is loaded before one of their hosts is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import anyio
import anyio.abc

from cellwright.engine.foreign_kernels import server_and_kernel
from cellwright.engine.host_link import HostLink
from cellwright.engine.placement import LOCAL, DefaultHost, HostKind, HostName, parse_host
from cellwright.engine.providers import HostInfo, HostProvider
from cellwright.engine.records import SessionRecord
from cellwright.errors import HostCannot, HostError, HostPending, UnknownHost
from cellwright.hosts import HostTransport, LocalTransport, NoTransport, protocol

__all__ = ["Hosts", "called_place", "link_name", "place_name"]

_STARTING_S = 0.05
_SLURM = "slurm:"
_NO_SLURM = "There is no SLURM here: `sbatch` is not on the PATH, or this engine does not outlive its caller"


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
    return place.rpartition("-")[0] if place.startswith(_SLURM) else place


class Hosts:
    """Every link, by name."""

    def __init__(
        self,
        default: DefaultHost,
        *,
        local: LocalTransport,
        link: Callable[[str, HostTransport], HostLink],
        kernels: Callable[[str], int],
        expiring: Callable[[], Collection[str]],
        capacity: int,
        wait_s: float,
    ) -> None:
        """``link`` makes what the engine listens to; ``capacity`` is how many kernels this machine takes; ``wait_s``
        how long a host that is starting is waited for.
        """
        self._default = default
        self._link = link
        self._capacity = capacity
        self._wait_s = wait_s
        self.kernels_on = kernels
        """How many kernels are on the host of a name."""
        self.expiring = expiring
        """The hosts that said that their end is near."""
        self.local = link(LOCAL, local)
        self._links: dict[str, HostLink] = {LOCAL: self.local}
        self._factories: Mapping[HostKind, Callable[[], HostProvider]] = {}
        self._providers: dict[HostKind, HostProvider] = {}
        self._has_slurm = False
        self._unconfigured: str | None = None

    def provide(self, factories: Mapping[HostKind, Callable[[], HostProvider]]) -> None:
        """Take what makes the hosts of other kinds; that of SLURM is there only where SLURM's commands are."""
        self._factories = factories
        self._has_slurm = "slurm" in factories

    def provider(self, kind: HostKind) -> HostProvider:
        """The hosts of a kind.

        Raises:
            HostCannot: there are none here.
        """
        if kind not in self._providers:
            if kind not in self._factories:
                raise HostCannot(
                    _NO_SLURM,
                    hint="Ask for host `local` (`--host local`), or let a daemon do it where SLURM's commands are",
                )
            self._providers[kind] = self._factories[kind]()
        return self._providers[kind]

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep links while this runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self.local.begin(tasks)
            if self._has_slurm:
                slurm = self.provider("slurm")
                await tasks.start(slurm.run)
                if self._default.relies_on_slurm:
                    self._unconfigured = await slurm.unconfigured()
                    self._has_slurm = self._unconfigured is None
            task_status.started()
            await anyio.sleep_forever()

    # Which host --------------------------------------------------------------------------------------------------

    def wanted(self, asked: str | None) -> HostName:
        """The host that a session is to have (see ``placement``).

        Raises:
            UnknownHost: there is none of that name.
        """
        name = self._default.wanted(asked, has_slurm=self._has_slurm)
        if name.kind == "jupyter":
            self.provider(name.kind).check(name.which)
        return name

    def of(self, record: SessionRecord) -> HostLink:
        """The link to a session's host."""
        return self.named(link_name(record))

    def remote_kernel(
        self, record: SessionRecord, language: str, *, main: bool, fresh: bool = False
    ) -> protocol.KernelKind | None:
        """The kernel on another server that a session needs for a language; None where one of ours is started."""
        kind = parse_host(record.host).kind
        if kind not in self._factories:
            return None
        return self.provider(kind).kernel(record, language, main=main, fresh=fresh)

    async def choose(self, record: SessionRecord) -> HostLink:
        """The link to the host on which a session's next kernel is to start.

        Raises:
            HostPending: it waits for its turn.
            LimitReached: one more would be too many.
            HostCannot: there are no such hosts here.
        """
        name = parse_host(record.host)
        if name.kind == LOCAL:
            return self.local
        return self.named(await self.provider(name.kind).choose(name.which))

    async def reach(self, link: HostLink) -> None:
        """Have a host answer that was just chosen; one that is starting is waited for.

        Raises:
            HostPending: it takes longer than a call should.
        """
        deadline = anyio.current_time() + self._wait_s
        while True:
            try:
                await link.connect()
            except HostPending:
                if anyio.current_time() > deadline:
                    raise
                await anyio.sleep(_STARTING_S)
            else:
                return

    def wants_local(self, records: Iterable[SessionRecord]) -> bool:
        """Whether this machine's host is to be had at once; on a login node nothing starts that nobody asked for."""
        if any(link_name(record) == LOCAL and (record.kernel_id or record.left_by) for record in records):
            return True
        try:
            default = self._default.wanted(None, has_slurm=self._has_slurm)
        except UnknownHost:  # whoever relies on it is told then
            return True
        return default.kind != "slurm"

    # Links -------------------------------------------------------------------------------------------------------

    def named(self, name: str) -> HostLink:
        """The link of that name, made where there is none yet."""
        if name not in self._links:
            kind = parse_host(name).kind
            way = self.provider(kind).transport(name) if kind in self._factories else NoTransport(name)
            link = self._links[name] = self._link(name, way)
            link.begin(self._tasks)
        return self._links[name]

    def seek(self, records: Iterable[SessionRecord]) -> None:
        """Reach the hosts, other than this machine's, that had kernels of these sessions."""
        names = {link_name(record) for record in records if record.kernel_id or record.left_by}
        for name in names - {LOCAL}:
            self.named(name).seek()

    async def close(self, *, stop_hosts: bool) -> None:
        """Let all hosts go, or end them with their kernels."""
        for link in self._links.values():
            await link.close(stop_host=stop_hosts)

    def away(self, name: str) -> str | None:
        """Why the host of a link cannot be reached; None where it can, or nobody tried."""
        link = self._links.get(name)
        return link.away if link is not None else None

    async def status_of(self, name: str) -> protocol.Attached | None:
        """What the host of a link says of itself; None where it is not connected."""
        link = self._links.get(name)
        if link is None or not link.is_connected:
            return None
        try:
            return await link.call(protocol.Status(), protocol.Attached)
        except HostError:
            return None

    # Listing -----------------------------------------------------------------------------------------------------

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        """Every host there is, with capacity, load, tier and health; also allocations that ``ended``."""
        found = [await self.local_info()]
        for kind in self._factories:
            found += await self.provider(kind).list(ended=ended)
        return found

    async def local_info(self) -> HostInfo:
        """This machine's host."""
        status = await self.status_of(LOCAL)
        detail = "this machine" if status is not None else "starts when a kernel is needed"
        if self._unconfigured is not None:
            detail += f"; {self._unconfigured}"
        return HostInfo(
            LOCAL,
            "local",
            "ready" if status is not None else "idle",
            detail,
            kernels=self.kernels_on(LOCAL),
            capacity=self._capacity,
            resources=status.resources if status is not None else None,
        )

    async def kernel_memory(self) -> dict[str, int]:
        """How much memory each kernel has, by its id, on hosts that can be asked now."""
        found: dict[str, int] = {}
        for name in tuple(self._links):
            if (status := await self.status_of(name)) is not None:
                found |= {one.kernel_id: one.memory_bytes for one in status.kernels}
        return found
