"""A host in a real allocation, attached to and spoken with as an engine would, without one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.abc

from cellwright.errors import HostPending, HostUnreachable
from cellwright.hosts import HostConnection, protocol
from cellwright.sandbox.policy import Policy
from cellwright.slurm._allocations import AllocationOptions, Allocations
from cellwright.slurm._directories import Allocation, Expectation, read_host_address
from cellwright.slurm._shapes import Shape
from cellwright.slurm._transport import AllocationTransport, Connecting
from cellwright.slurm.commands import SlurmCommands
from tests.support.slurm.cluster import Cluster
from tests.waiting import LIMIT_S, fail_after, scaled

T = TypeVar("T")
SMALL = Shape(cpus=4, memory="2000M", time="10")
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def options(
    *, standby: int = 0, policy: Policy | None = None, idle_s: float | None = None
) -> protocol.HostOptions:
    return protocol.HostOptions(
        standby_kernels=standby,
        preload=(),
        max_concurrent_starts=16,
        start_timeout_s=scaled(60),
        interrupt_grace_s=LIMIT_S,
        max_output_bytes=1_000_000,
        max_output_messages=25_000,
        max_memory_fraction=0.95,
        idle_s=900,
        policy=policy,
        allocation_idle_s=idle_s,
    )


@dataclass(slots=True)
class Lent:
    """One allocation, and how it is reached."""

    cluster: Cluster
    allocations: Allocations
    allocation: Allocation
    way: AllocationTransport

    @property
    def job_id(self) -> str:
        return str(self.allocation.job_id)

    @property
    def about(self) -> dict[str, Any]:
        """What the host says of itself."""
        told: dict[str, Any] = json.loads(self.way.paths.current.read_text())
        return told

    def followed(self, incarnation: str) -> bool:
        """Whether another host than this one says that it is there."""
        about = read_host_address(self.way.paths.current)
        return about is not None and about.incarnation != incarnation

    def steps(self) -> list[str]:
        """The names of the job's steps, without the batch script's own."""
        listed = self.cluster.run("squeue", "--noheader", "--steps", "--jobs", self.job_id, "--format", "%j")
        return [name for name in listed.stdout.split() if name not in ("batch", "extern")]

    async def steps_become(self, *names: str) -> None:
        with fail_after():
            while sorted(await anyio.to_thread.run_sync(self.steps)) != sorted(names):
                await anyio.sleep(0.1)

    def _working_directory(self) -> str:
        directory = Path(self.allocation.directory).parent.parent / "work"
        directory.mkdir(exist_ok=True)
        return str(directory)

    async def connect(self) -> HostConnection:
        with fail_after(120):
            while True:
                try:
                    return await self.way.connect()
                except HostPending:
                    await self.allocations.look()
                except HostUnreachable:
                    # As an engine does: a connection that took too long is tried again.
                    await anyio.sleep(0.5)

    async def ended(self) -> str:
        """Why the allocation is gone, once it is."""
        with fail_after():
            while (why := await self.way.end()) is None:
                await anyio.sleep(0.05)
        return why

    @asynccontextmanager
    async def attached(
        self, given: protocol.HostOptions | None = None, since: int = 0
    ) -> AsyncIterator[Attached]:
        connection = await self.connect()
        attached = Attached(connection, cwd=self._working_directory())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.read, attached.take)
            found = await attached.call(protocol.Status(), protocol.Attached)
            request = protocol.Attach(
                options=given or options(),
                environment=ENVIRONMENT,
                incarnation=found.incarnation,
                since=since,
            )
            attached.found = await attached.call(request, protocol.Attached)
            try:
                yield attached
            finally:
                tasks.cancel_scope.cancel()
                await connection.close()


@dataclass(slots=True)
class Attached:
    """A conversation with a host, and what it said."""

    connection: HostConnection
    cwd: str
    events: list[protocol.Event] = field(default_factory=list)
    found: protocol.Attached | None = None
    _grew: anyio.Event = field(default_factory=anyio.Event)
    _numbers: Any = field(default_factory=lambda: count(1))

    def take(self, events: list[protocol.Event]) -> None:
        self.events += events
        self._grew.set()
        self._grew = anyio.Event()

    async def call(self, request: protocol.Request, result: type[T]) -> T:
        return await self.connection.call(request, result)

    async def start(
        self, kernel_id: str, kind: protocol.KernelKind | None = None, **more: Any
    ) -> protocol.KernelReady:
        request = protocol.StartKernel(
            kernel_id, kind or protocol.PythonKernel(), self.cwd, ENVIRONMENT, **more
        )
        return await self.call(request, protocol.KernelReady)

    async def submit(self, kernel_id: str, code: str, *, timeout_s: float = 60) -> str:
        execution_id = f"{kernel_id}-{next(self._numbers)}"
        await self.call(
            protocol.Execute(kernel_id, (protocol.Run(execution_id, code, timeout_s),)), type(None)
        )
        return execution_id

    async def run(self, kernel_id: str, code: str) -> str:
        """Run code that must end well, and return what it printed."""
        execution_id = await self.submit(kernel_id, code)
        end = await self.finished(execution_id)
        assert end.state == "ok", end
        return self.printed(execution_id)

    async def finished(self, execution_id: str) -> protocol.Finished:
        return await self.told(protocol.Finished, lambda body: body.execution_id == execution_id)

    async def told(self, kind: type[T], wanted: Any = lambda _: True) -> T:
        """The first event of a kind that fits, once it was told."""
        with fail_after(60):
            while True:
                for event in self.events:
                    if isinstance(event.body, kind) and wanted(event.body):
                        return event.body
                await self._grew.wait()

    async def printed_at_least(self, execution_id: str, lines: int) -> None:
        with fail_after():
            while len(self.printed(execution_id).splitlines()) < lines:
                await self._grew.wait()

    def printed(self, execution_id: str) -> str:
        return printed(self.events, execution_id)


def printed(events: list[protocol.Event], execution_id: str) -> str:
    """What an execution printed, as far as it was told."""
    return "".join(
        json.loads(event.body.content).get("text", "")
        for event in events
        if isinstance(event.body, protocol.Output) and event.body.execution_id == execution_id
    )


class Lender:
    """Asks a cluster for allocations, for one test."""

    def __init__(self, cluster: Cluster, storage: Path) -> None:
        self._cluster = cluster
        self._storage = storage

    async def __call__(
        self,
        shape: Shape = SMALL,
        *,
        connecting: Connecting = "srun",
        warn_s: int = 300,
        expected: Expectation | None = None,
    ) -> Lent:
        environment = {**os.environ, **self._cluster.env}
        chosen = AllocationOptions(
            python=sys.executable, poll_s=1, tls=connecting == "tls", warn_s=warn_s, expected=expected
        )
        allocations = Allocations(
            self._storage / "allocations", SlurmCommands(environment, os.getuid(), timeout_s=LIMIT_S), chosen
        )
        allocation = await allocations.start("one", shape)
        return self.again(allocations, allocation, connecting=connecting)

    def again(
        self, allocations: Allocations, allocation: Allocation, *, connecting: Connecting = "srun"
    ) -> Lent:
        directory = Path(allocation.directory)
        way = AllocationTransport(allocations, directory, python=sys.executable, connecting=connecting)
        return Lent(self._cluster, allocations, allocation, way)
