"""The engine's lasting relation to one host: attaches, catches up, tells its loss from being out of its reach.

Events are taken in exactly once: the number of the last one is committed together with what it led to. What a dead
host left in its journal is read before it is called lost. What events mean is the engine's business, how a host is
reached its way's (``hosts.transport``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

import anyio
import anyio.abc

import cellwright
from cellwright.engine.journal import Journal, Statement
from cellwright.errors import (
    CellwrightError,
    HostError,
    HostLost,
    HostStartError,
    HostUnreachable,
    SaveFailed,
)
from cellwright.hosts import (
    HostConnection,
    HostTransport,
    dead_incarnations,
    forget_incarnation,
    protocol,
    read_events,
)

__all__ = ["HostLink", "LinkListener"]

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
        hint="Its kernels go on; try again in a moment, or look with `cellwright hosts`",
    )
