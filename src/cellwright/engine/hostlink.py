"""The engine's lasting relation to its host: attaches, catches up, notices its loss, and starts another on need.

Events are taken in exactly once: the number of the last one is committed together with what it led to. What a dead
host left in its journal is read before it is called lost. What events mean is the engine's business.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.abc

import cellwright
from cellwright.engine.journal import Journal, Statement
from cellwright.errors import HostLost, HostStartError
from cellwright.hosts import (
    HostConnection,
    HostPaths,
    connect_or_start,
    dead_incarnations,
    forget_incarnation,
    protocol,
    read_events,
)
from cellwright.hosts.local import is_held

__all__ = ["HostLink"]

T = TypeVar("T")
_DRAIN_BATCH = 500
_STOP_DEADLINE_S = 15.0
_DYING_S = 2.0
_ACKNOWLEDGE_S = 0.25
_DYING_CHECK_S = 0.02


class HostLink:
    """Keeps one host at hand. Calls that need a living host start one; the others fail with ``HostLost``."""

    def __init__(
        self,
        paths: HostPaths,
        journal: Journal,
        *,
        options: protocol.HostOptions,
        environment: dict[str, str],
        on_events: Callable[[list[protocol.Event], Statement, Callable[[], None]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._paths = paths
        self._journal = journal
        self._options = options
        self._environment = environment
        self._on_events = on_events
        self._on_lost = on_lost
        self._connection: HostConnection | None = None
        self._incarnation: str | None = None
        self._taken = 0
        self._to_acknowledge = anyio.Event()
        self._caught_up = anyio.Event()
        self._last_seq: int | None = None
        self._connecting = anyio.Lock()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    async def connect(self) -> protocol.Attached | None:
        """Have a living host and everything it said so far; what it knows, or none if it was at hand already."""
        async with self._connecting:
            if self._connection is not None and self._connection.lost.is_set():
                await self._handle_loss()
            if self._connection is not None:
                return None
            attached = await self._attach()
            await self._caught_up.wait()
            return attached

    async def call(self, request: protocol.Request, result: type[T]) -> T:
        """Ask the host.

        Raises:
            HostLost: there is no living host, or it went away before it answered.
        """
        if self._connection is None:
            raise HostLost("No host is running", hint="Run a cell to start one")
        return await self._connection.call(request, result)

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
        if found.version != cellwright.__version__ and not found.kernels:
            # A host of another version with nothing to lose makes way for one of ours.
            await connection.call(protocol.Stop(), type(None))
            await connection.lost.wait()
            connection, found = await self._greet()
        self._drain_the_dead(living=found.incarnation)
        self._taken = self._consumed(found.incarnation)
        self._incarnation, self._connection = found.incarnation, connection
        self._caught_up = anyio.Event()
        self._last_seq = None
        self._tasks.start_soon(self._acknowledge, connection)
        request = protocol.Attach(
            options=self._options,
            environment=self._environment,
            incarnation=found.incarnation,
            since=self._taken,
        )
        attached = await connection.call(request, protocol.Attached)
        self._last_seq = attached.last_seq
        self._check_caught_up()
        return attached

    async def _greet(self) -> tuple[HostConnection, protocol.Attached]:
        try:
            return await self._greet_once()
        except (HostLost, HostStartError):
            # It was about to end, and is followed by another.
            if not await self._host_is_gone():
                raise
            return await self._greet_once()

    async def _greet_once(self) -> tuple[HostConnection, protocol.Attached]:
        connection = await connect_or_start(self._paths)
        self._tasks.start_soon(self._follow, connection)
        return connection, await connection.call(protocol.Status(), protocol.Attached)

    def _consumed(self, incarnation: str) -> int:
        rows = self._journal.read("SELECT consumed FROM hosts WHERE incarnation = ?", (incarnation,))
        return rows[0][0] if rows else 0

    def _check_caught_up(self) -> None:
        if self._last_seq is not None and self._taken >= self._last_seq:
            self._caught_up.set()

    # Listening ---------------------------------------------------------------------------------------------------

    async def _follow(self, connection: HostConnection) -> None:
        await connection.read(self._take)
        await connection.close()
        self._caught_up.set()
        async with self._connecting:
            if self._connection is connection:
                await self._handle_loss()

    async def _handle_loss(self) -> None:
        self._connection = None
        if await self._host_is_gone():
            self._drain_the_dead(living=None)
            self._on_lost()
        else:
            await self._attach()

    async def _host_is_gone(self) -> bool:
        """Whether the process ended, or only the connection broke; a dying process may hold its lock a moment."""
        with anyio.move_on_after(_DYING_S):
            while is_held(self._paths.lock):  # noqa: ASYNC110  # the other process cannot set an event of ours
                await anyio.sleep(_DYING_CHECK_S)
        return not is_held(self._paths.lock)

    def _take(self, events: list[protocol.Event]) -> None:
        new = [event for event in events if event.seq > self._taken]
        if not new or self._incarnation is None:
            return
        self._taken = new[-1].seq
        self._on_events(new, _consume(self._incarnation, self._taken), self._committed)
        self._check_caught_up()

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

    def _drain_the_dead(self, *, living: str | None) -> None:
        """Take in what hosts that are gone said and nobody heard."""
        for incarnation in dead_incarnations(self._paths, living=living):
            consumed = self._consumed(incarnation)
            self._incarnation = incarnation
            events = list(read_events(self._paths.journal(incarnation), since=consumed))
            for first in range(0, len(events), _DRAIN_BATCH):
                batch = events[first : first + _DRAIN_BATCH]
                self._on_events(batch, _consume(incarnation, batch[-1].seq), lambda: None)
            self._tasks.start_soon(self._forget, incarnation)

    async def _forget(self, incarnation: str) -> None:
        await self._journal.flush()
        forget_incarnation(self._paths, incarnation)
        self._journal.write([("DELETE FROM hosts WHERE incarnation = ?", (incarnation,))])


def _consume(incarnation: str, seq: int) -> Statement:
    return "INSERT OR REPLACE INTO hosts VALUES (?,?)", (incarnation, seq)
