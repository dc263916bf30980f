"""A host in a process of its own and somebody who attaches to it: asks for kernels on servers, and hears what they say.

No engine: what is tried here is what the host does by itself. And a wire between it and a server that can be cut.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cellwright import Settings
from cellwright.assembly import host_options
from cellwright.errors import CellwrightError
from cellwright.hosts import HostPaths, protocol
from cellwright.hosts.connection import HostConnection
from cellwright.hosts.local import connect_or_start
from cellwright.hosts.protocol import JupyterKernel, JupyterServer
from tests.support.servers.server import Server
from tests.waiting import LIMIT_S, fail_after


@dataclass
class Desk:
    """One engine's place at a host. What it calls its kernels is told from what others there call theirs."""

    connection: HostConnection
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    events: list[protocol.Event] = field(default_factory=list)
    _heard: anyio.Event = field(default_factory=anyio.Event)
    _count: int = 0
    _kernels: list[str] = field(default_factory=list)

    def hear(self, events: list[protocol.Event]) -> None:
        self.events += events
        self._heard.set()
        self._heard = anyio.Event()

    async def start(self, server: JupyterServer, kernel_id: str = "k", **wanted: Any) -> protocol.KernelReady:
        self._kernels.append(kernel_id)
        request = protocol.StartKernel(self._full(kernel_id), JupyterKernel(server, **wanted), "/", {})
        return await self.connection.call(request, protocol.KernelReady)

    async def begin(self, code: str, kernel_id: str = "k", *, timeout_s: float = LIMIT_S, **run: Any) -> str:
        """Queue code; returns the id of its execution."""
        self._count += 1
        execution_id = f"{self._full(kernel_id)}-{self._count}"
        runs = (protocol.Run(execution_id, code, timeout_s, **run),)
        await self.connection.call(protocol.Execute(self._full(kernel_id), runs), type(None))
        return execution_id

    async def run(self, code: str, kernel_id: str = "k", **run: Any) -> Ran:
        """Run code to its end."""
        return await self.finished(await self.begin(code, kernel_id, **run))

    async def finished(self, execution_id: str) -> Ran:
        def is_end(event: protocol.Event) -> bool:
            return isinstance(event.body, protocol.Finished) and event.body.execution_id == execution_id

        finished = (await self.wait_for(is_end)).body
        assert isinstance(finished, protocol.Finished)
        return Ran(finished, self.outputs(execution_id))

    async def died(self, kernel_id: str = "k") -> protocol.KernelDied:
        """How a kernel ended, once it has."""
        event = await self.wait_for(
            lambda event: (
                isinstance(event.body, protocol.KernelDied) and event.kernel_id == self._full(kernel_id)
            )
        )
        assert isinstance(event.body, protocol.KernelDied)
        return event.body

    async def printed(self, execution_id: str, text: str) -> None:
        """Wait until an execution has printed something."""
        await self.wait_for(lambda _: text in text_of(self.outputs(execution_id)))

    async def interrupt(self, kernel_id: str = "k") -> None:
        await self.connection.call(protocol.Interrupt(self._full(kernel_id)), type(None))

    async def stop(self, kernel_id: str = "k") -> None:
        await self.connection.call(protocol.StopKernel(self._full(kernel_id)), type(None))

    async def clear(self) -> None:
        """End what was started here and has not ended."""
        for kernel_id in self._kernels:
            # Gone already, or its server cannot be asked.
            with suppress(CellwrightError):
                await self.stop(kernel_id)

    async def wait_for(self, matches: Callable[[protocol.Event], bool]) -> protocol.Event:
        with fail_after():
            while True:
                heard = self._heard
                for event in self.events:
                    if matches(event):
                        return event
                await heard.wait()

    def _full(self, kernel_id: str) -> str:
        return f"{self.name}-{kernel_id}"

    def outputs(self, execution_id: str) -> list[dict[str, Any]]:
        return [
            {"kind": event.body.kind, **json.loads(event.body.content)}
            for event in self.events
            if isinstance(event.body, protocol.Output) and event.body.execution_id == execution_id
        ]


@dataclass
class Ran:
    """An execution that is over."""

    end: protocol.Finished
    outputs: list[dict[str, Any]]

    @property
    def state(self) -> str:
        return self.end.state

    @property
    def text(self) -> str:
        """All that it printed and what its last expression was."""
        return text_of(self.outputs)


def text_of(outputs: list[dict[str, Any]]) -> str:
    parts = [
        one["text"] if one["kind"] == "stream" else one.get("data", {}).get("text/plain", "")
        for one in outputs
    ]
    return "".join(parts)


@asynccontextmanager
async def desk_at(storage: Path, **settings: Any) -> AsyncIterator[Desk]:
    """Attach to the host of a storage directory, which is started where there is none."""
    values = {"root": storage, "storage": storage, "standby_kernels": 0, "unsafe_no_sandbox": True}
    # A slow server does not cost a kernel its state where that is not what is tried.
    values |= {"interrupt_grace_s": LIMIT_S} | settings
    options = host_options(Settings.model_validate(values), storage)
    connection = await connect_or_start(HostPaths(storage))
    desk = Desk(connection)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.read, desk.hear)
        await connection.call(protocol.Attach(options, {}), protocol.Attached)
        try:
            yield desk
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
            tasks.cancel_scope.cancel()


class Wire:
    """A TCP relay to a server, which can be cut, closed and opened again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_open = True
        self._pairs: list[anyio.abc.SocketStream] = []
        self.port = 0
        self.turned_away = anyio.Event()
        """Set when somebody tried to connect while it was closed."""

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
            task_status.started()
            await listener.serve(self._carry)

    async def cut(self, *, closed: bool = False) -> None:
        """End every connection; with ``closed`` no new one comes through until ``open``."""
        self._is_open = not closed
        self.turned_away = anyio.Event()
        for stream in self._pairs:
            await stream.aclose()
        self._pairs = []

    def open(self) -> None:
        self._is_open = True

    def address_of(self, server: Server, *, unreachable_s: float = 600) -> JupyterServer:
        """The server at the other end. It is not given up, however long the wire is cut, unless a test wants that."""
        return JupyterServer(
            "lab", f"http://127.0.0.1:{self.port}", server.token, unreachable_s=unreachable_s
        )

    async def _carry(self, near: anyio.abc.SocketStream) -> None:
        if not self._is_open:
            self.turned_away.set()
            await near.aclose()
            return
        async with near, await anyio.connect_tcp("127.0.0.1", self._port) as far:
            self._pairs += [near, far]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pump, near, far)
                await _pump(far, near)
                tasks.cancel_scope.cancel()


async def _pump(source: anyio.abc.SocketStream, target: anyio.abc.SocketStream) -> None:
    try:
        async for data in source:
            await target.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        with anyio.CancelScope(shield=True):
            await target.aclose()
