"""The hosts that an engine's sessions live on: one link to each, made when it is first needed.

Which host a session is to have is ``placement``'s. Hosts beside this machine's come
from providers (see ``placement.HostProvider``), of which nothing is loaded before one of their hosts is wanted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

import anyio
import anyio.abc

import cellwright
from cellwright.engine.journal import Journal, Statement
from cellwright.engine.placement import (
    LOCAL,
    DefaultHost,
    HostInfo,
    HostKind,
    HostName,
    HostProvider,
    recorded_host,
    server_and_kernel,
)
from cellwright.engine.records import SessionRecord
from cellwright.errors import (
    CellwrightError,
    HostCannot,
    HostError,
    HostLost,
    HostPending,
    HostStartError,
    HostUnreachable,
    SaveFailed,
    UnknownHost,
)
from cellwright.hosts import (
    HostConnection,
    HostTransport,
    LocalTransport,
    NoTransport,
    dead_incarnations,
    forget_incarnation,
    protocol,
    read_events,
)

__all__ = ["HostLink", "Hosts", "called_place", "link_name", "place_name"]

_STARTING_S = 0.05

_SLURM = "slurm:"

_NO_SLURM = "There is no SLURM here: `sbatch` is not on the PATH, or this engine does not outlive its caller"


def link_name(record: SessionRecord) -> str:
    """The name of the link to the host that has a session's kernel, or had its last one."""
    # A kernel on a Jupyter server is this machine's host's to keep.
    return record.on or LOCAL


def place_name(record: SessionRecord) -> str:
    """The host that a session's kernel counts for, as ``cellwright host list`` calls it."""
    host = recorded_host(record.host)
    if host.kind != "jupyter":
        return link_name(record)
    return str(HostName("jupyter", server_and_kernel(host.which)[0]))


def called_place(record: SessionRecord) -> str:
    """The same by the name that people call it by: an allocation's own, without its directory's digits."""
    place = place_name(record)
    return place.rpartition("-")[0] if place.startswith(_SLURM) else place


async def _approved(_words: str) -> None:
    """Ask nobody: an engine puts its approvals in."""


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
        self.approve_allocation: Callable[[str], Awaitable[None]] = _approved
        """Returns where an allocation may be asked for, described so; raises NotApproved where not."""
        self.local = link(LOCAL, local)
        self._links: dict[str, HostLink] = {LOCAL: self.local}
        self._factories: Mapping[HostKind, Callable[[], HostProvider]] = {}
        self._providers: dict[HostKind, HostProvider] = {}
        self._is_running = False
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
                    _NO_SLURM if kind == "slurm" else f"There are no hosts of kind {kind!r} here",
                    hint="Ask for host `local` (`--host local`), or let a daemon do it where SLURM's commands are",
                )
            provider = self._providers[kind] = self._factories[kind]()
            if self._is_running and kind != "slurm":
                self._tasks.start_soon(provider.run)
        return self._providers[kind]

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep links while this runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._is_running = True
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

    def host_name(self, requested: str | None) -> HostName:
        """The host of a session for which ``requested`` was requested (see ``placement``).

        Raises:
            UnknownHost: there is none of that name.
        """
        name = self._default.host_name(requested, has_slurm=self._has_slurm)
        if name.kind not in (LOCAL, "slurm"):
            self.provider(name.kind).check(name.which)
        return name

    def of(self, record: SessionRecord) -> HostLink:
        """The link to a session's host."""
        return self.named(link_name(record))

    def remote_kernel(
        self, record: SessionRecord, language: str, *, main: bool, fresh: bool = False
    ) -> protocol.KernelKind | None:
        """The kernel on another server that a session needs for a language; None where one of ours is started."""
        kind = recorded_host(record.host).kind
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
        name = recorded_host(record.host)
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
            default = self._default.host_name(None, has_slurm=self._has_slurm)
        except UnknownHost:  # whoever relies on it is told then
            return True
        return default.kind != "slurm"

    # Links -------------------------------------------------------------------------------------------------------

    def named(self, name: str) -> HostLink:
        """The link of that name, made where there is none yet."""
        if name not in self._links:
            kind = recorded_host(name).kind
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


# The engine's lasting relation to one host: attaches, catches up, tells its loss from being out of its
# reach.

T = TypeVar("T")

_DRAIN_BATCH = 500

_STOP_DEADLINE_S = 25.0

_ACKNOWLEDGE_S = 0.25

# A sign of life may take this many times as long as they are apart.
_LATE_BEATS = 10

_RETRY_S = 0.5

_MAX_RETRY_S = 5.0


class LinkListener(Protocol):
    """Who takes in what a link has to say."""

    def taken(self, events: list[protocol.Event], consumed: Statement, committed: Callable[[], None]) -> None:
        """The host said these; ``consumed`` is to be committed with them, ``committed`` called after."""
        ...

    def lost(self, link: HostLink, why: str) -> None:
        """The host is gone, and everything it said was taken in."""
        ...

    def out_of_reach(self, link: HostLink, why: str) -> None:
        """The host lives, as far as anybody knows, and cannot be reached."""
        ...

    def back(self, link: HostLink, attached: protocol.Attached) -> Awaitable[None]:
        """It is reached again, and everything it said meanwhile was taken in."""
        ...


class HostLink:
    """Keeps one host at hand. Calls that need a living host start one; the others fail with ``HostLost``."""

    def __init__(
        self,
        name: str,
        way: HostTransport,
        journal: Journal,
        *,
        options: protocol.HostOptions,
        environment: dict[str, str],
        listener: LinkListener,
    ) -> None:
        self.name = name
        self.away: str | None = None
        """Why the host cannot be reached, while that is so."""
        self.way = way
        self._journal = journal
        self._options = options
        self._environment = environment
        self._listener = listener
        self._connection: HostConnection | None = None
        self._incarnation: str | None = None
        self._taken: dict[str, int] = {}
        """The last event taken in of each incarnation; what is committed of them may lag behind."""
        self._to_acknowledge = anyio.Event()
        self._caught_up = anyio.Event()
        self._last_seq: int | None = None
        self._connecting = anyio.Lock()

    def begin(self, tasks: anyio.abc.TaskGroup) -> None:
        """Do everything that goes on by itself among these."""
        self._tasks = tasks

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.lost.is_set()

    async def connect(self) -> protocol.Attached | None:
        """Have a living host and everything it said so far; what it knows, or none if it was at hand already.

        Raises:
            HostUnreachable: it lives and cannot be reached; attempts go on meanwhile.
            HostLost: it is gone, which was told, and no other takes its place.
        """
        async with self._connecting:
            if self._connection is not None and self._connection.lost.is_set():
                await self._handle_loss()
            if self._connection is not None:
                return None
            if self.away is not None:
                raise _unreachable(self.away)
            try:
                attached = await self._attach()
            except HostUnreachable as error:
                self._lose_sight(error.message)
                raise
            await self._caught_up.wait()
            return attached

    def seek(self) -> None:
        """Reach the host when it can be reached, and tell the listener; for one that had kernels of ours."""
        self._lose_sight("it is being looked for", tell=False)

    async def call(self, request: protocol.Request, result: type[T]) -> T:
        """Ask the host.

        Raises:
            HostLost: there is no living host, or it went away before it answered.
            HostUnreachable: it lives and cannot be reached; what was asked for may have been done.
        """
        if self._connection is None:
            if self.away is not None:
                raise _unreachable(self.away)
            raise HostLost("No host is running", hint="Run a cell to start one")
        try:
            return await self._connection.call(request, result)
        except HostLost:
            if self.way.beat_s is None:
                raise
            # Whether it is gone, or only out of reach, is settled by whoever noticed first.
            async with self._connecting:
                alive = self._connection is not None or self.away is not None
            if alive:
                raise _unreachable(self.away or "the connection broke before it answered") from None
            raise

    async def close(self, *, stop_host: bool) -> None:
        """Let the host go, or end it with all its kernels."""
        connection, self._connection = self._connection, None
        if connection is None or connection.lost.is_set():
            return
        if stop_host:
            with anyio.move_on_after(_STOP_DEADLINE_S), suppress(HostLost):
                await connection.call(protocol.Stop(), type(None))
                await connection.lost.wait()
        await connection.close()

    async def stop(self) -> bool:
        """End the host with all its kernels, and return once it is gone; a later call may start another.

        Returns whether there was one. Sessions that still had a kernel there are told that it is lost.
        """
        connection = self._connection
        if connection is None or connection.lost.is_set():
            return False
        with anyio.move_on_after(_STOP_DEADLINE_S), suppress(HostLost):
            await connection.call(protocol.Stop(), type(None))
            await connection.lost.wait()
        async with self._connecting:
            if self._connection is connection:
                await self._handle_loss()
        return True

    # Attaching ---------------------------------------------------------------------------------------------------

    async def _attach(self) -> protocol.Attached:
        connection, found = await self._greet()
        if found.version != cellwright.__version__ and not found.kernels and self.way.beat_s is None:
            # A host of another version with nothing to lose makes way for one of ours.
            await connection.call(protocol.Stop(), type(None))
            await connection.lost.wait()
            connection, found = await self._greet()
        self._drain_the_dead(living=found.incarnation)
        self._incarnation, self._connection = found.incarnation, connection
        self._caught_up = anyio.Event()
        self._last_seq = None
        self._tasks.start_soon(self._acknowledge, connection)
        request = protocol.Attach(
            options=self._options,
            environment=self._environment,
            incarnation=found.incarnation,
            since=self._taken_of(found.incarnation),
        )
        attached = await connection.call(request, protocol.Attached)
        self.away = None
        self._last_seq = attached.last_seq
        self._check_caught_up()
        return attached

    async def _greet(self) -> tuple[HostConnection, protocol.Attached]:
        try:
            return await self._greet_once()
        except (HostLost, HostStartError):
            # It was about to end, and is followed by another.
            if self.way.beat_s is not None or await self.way.end() is None:
                raise
            return await self._greet_once()

    async def _greet_once(self) -> tuple[HostConnection, protocol.Attached]:
        connection = await self.way.connect()
        self._tasks.start_soon(self._follow, connection)
        if self.way.beat_s is not None:
            # From the first word on: the answer to that, too, may be cut off.
            self._tasks.start_soon(self._beat, connection, self.way.beat_s)
        return connection, await connection.call(protocol.Status(), protocol.Attached)

    def _taken_of(self, incarnation: str) -> int:
        if incarnation not in self._taken:
            self._taken[incarnation] = self._consumed(incarnation)
        return self._taken[incarnation]

    def _consumed(self, incarnation: str) -> int:
        rows = self._journal.read("SELECT consumed FROM hosts WHERE incarnation = ?", (incarnation,))
        return rows[0][0] if rows else 0

    def _check_caught_up(self) -> None:
        if self._last_seq is not None and self._taken_of(self._incarnation or "") >= self._last_seq:
            self._caught_up.set()

    # Listening ---------------------------------------------------------------------------------------------------

    async def _follow(self, connection: HostConnection) -> None:
        await connection.read(self._take)
        await connection.close()
        self._caught_up.set()
        async with self._connecting:
            if self._connection is connection:
                await self._handle_loss()

    async def _beat(self, connection: HostConnection, beat_s: float) -> None:
        """Ask for signs of life, and give the connection up where none comes: a cut network says nothing."""
        with suppress(HostLost):
            while not connection.lost.is_set():
                await anyio.sleep(beat_s)
                with anyio.move_on_after(beat_s * _LATE_BEATS) as late:
                    await connection.call(protocol.Ping(), type(None))
                if late.cancelled_caught:
                    await connection.close()
                    return

    def _take(self, events: list[protocol.Event]) -> None:
        if self._incarnation is not None:
            self._hand_on(self._incarnation, events, self._committed)
            self._check_caught_up()

    def _hand_on(self, incarnation: str, events: list[protocol.Event], committed: Callable[[], None]) -> None:
        """Let the listener take in what it has not yet."""
        taken = self._taken_of(incarnation)
        new = [event for event in events if event.seq > taken]
        if new:
            self._taken[incarnation] = new[-1].seq
            self._listener.taken(new, _consume(incarnation, new[-1].seq), committed)

    def _committed(self) -> None:
        self._to_acknowledge.set()

    async def _acknowledge(self, connection: HostConnection) -> None:
        """Let the host forget what is safe here; what piles up meanwhile is told in one go."""
        with suppress(HostLost):
            while not connection.lost.is_set():
                await self._to_acknowledge.wait()
                self._to_acknowledge = anyio.Event()
                seq = self._consumed(self._incarnation or "")
                await connection.call(protocol.Acknowledge(seq), type(None))
                # The host forgets in whole segments: telling it more often only costs both a round trip.
                await anyio.sleep(_ACKNOWLEDGE_S)

    # Losing ------------------------------------------------------------------------------------------------------

    async def _handle_loss(self) -> None:
        self._connection = None
        if await self._is_settled():
            return
        try:
            attached = await self._attach()
        except HostError as error:
            if self.way.beat_s is None:
                raise
            self._connection = None
            self._lose_sight(error.message)
        else:
            # What was asked for when the connection broke may never have arrived.
            self._tasks.start_soon(self._tell_back, attached)

    async def _is_settled(self) -> bool:
        """Whether the host is gone for good; then it was read to its end and its loss is told."""
        why = await self.way.end()
        if why is None:
            return False
        self.away = None
        self._drain_the_dead(living=None)
        self._listener.lost(self, why)
        return True

    def _lose_sight(self, why: str, *, tell: bool = True) -> None:
        if self.away is None:
            self._tasks.start_soon(self._come_back)
        self.away = why
        if tell:
            self._listener.out_of_reach(self, why)

    async def _come_back(self) -> None:
        """Try until the host is reached, or known to be gone."""
        retry_s = 0.0
        while self.away is not None:
            await anyio.sleep(retry_s)
            retry_s = min(max(2 * retry_s, _RETRY_S), _MAX_RETRY_S)
            attached = None
            async with self._connecting:
                if self._connection is not None or await self._is_settled():
                    return
                try:
                    attached = await self._attach()
                except CellwrightError as error:
                    self._connection, self.away = None, error.message
            if attached is not None:
                await self._tell_back(attached)

    async def _tell_back(self, attached: protocol.Attached) -> None:
        await self._caught_up.wait()
        with suppress(HostLost, HostUnreachable):  # it broke again, and will be told as that
            await self._listener.back(self, attached)

    def _drain_the_dead(self, *, living: str | None) -> None:
        """Take in what hosts that are gone said and nobody heard."""
        for incarnation in dead_incarnations(self.way.paths, living=living):
            since = self._taken_of(incarnation)
            events = list(read_events(self.way.paths.journal(incarnation), since=since))
            for first in range(0, len(events), _DRAIN_BATCH):
                self._hand_on(incarnation, events[first : first + _DRAIN_BATCH], _nothing)
            self._tasks.start_soon(self._forget, incarnation)

    async def _forget(self, incarnation: str) -> None:
        """Remove a dead host's journal once all of its events are committed to ours, however long the disk is full."""
        while True:
            try:
                await self._journal.flush()
                break
            except SaveFailed:
                await anyio.sleep(_MAX_RETRY_S)
        forget_incarnation(self.way.paths, incarnation)
        self._taken.pop(incarnation, None)
        self._journal.write([("DELETE FROM hosts WHERE incarnation = ?", (incarnation,))])


def _consume(incarnation: str, seq: int) -> Statement:
    return "INSERT OR REPLACE INTO hosts VALUES (?,?)", (incarnation, seq)


def _nothing() -> None:
    pass


def _unreachable(why: str) -> HostUnreachable:
    return HostUnreachable(
        f"The kernel's host cannot be reached now: {why}",
        hint="Its kernels go on; try again in a moment, or look with `cellwright host list`",
    )
