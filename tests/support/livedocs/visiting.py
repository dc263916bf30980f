"""A notebook on a real server, and a second client in its room, as a person's JupyterLab is one."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.abc

from cellwright.jupyter._contents import ServerAddress, client_for, identity
from cellwright.jupyter._shared_document import SharedDocument, find_shared_document, open_shared_document
from tests.support.servers.server import Server
from tests.waiting import fail_after

_numbers = itertools.count(1)


def address_of(server: Server) -> ServerAddress:
    return ServerAddress("lab", server.url, server.token)


def new_notebook(server: Server, *sources: str, name: str | None = None) -> str:
    """Write a notebook with these cells into the server's directory; returns its path there."""
    cells = [code_cell(f"cell-{number}", source) for number, source in enumerate(sources)]
    path = name or f"notebook-{next(_numbers)}.ipynb"
    write_notebook(server, path, cells)
    return path


def write_notebook(server: Server, path: str, cells: list[dict[str, Any]]) -> None:
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (server.root / path).write_text(json.dumps(whole))


def code_cell(cell_id: str, source: str) -> dict[str, Any]:
    return {
        "id": cell_id,
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }


def sources_on(server: Server, path: str) -> list[str]:
    """What the file on the server says; nothing where it is just being written."""
    try:
        told = json.loads((server.root / path).read_text())
    except ValueError:
        return []
    return ["".join(cell["source"]) for cell in told["cells"]]


@asynccontextmanager
async def visitor(server: Server, path: str, name: str = "Ada") -> AsyncIterator[SharedDocument]:
    """Somebody else who has the notebook open."""
    address = address_of(server)
    async with client_for(address) as client, anyio.create_task_group() as tasks:
        ticket = await find_shared_document(address, client, path)
        assert ticket is not None
        async with open_shared_document(address, ticket, identity(name), tasks) as room:
            yield room
        tasks.cancel_scope.cancel()


async def until_says(room: SharedDocument, *sources: str) -> None:
    """Wait until the notebook has these cells."""
    with fail_after():
        while [cell.source for cell in room.notebook.read().cells] != list(sources):
            await room.changed()


class Relay:
    """A way to a server that can be made to swallow all that is said, so that neither side notices, and be cut then."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._swallows = False
        self._streams: list[anyio.abc.SocketStream] = []
        self.port = 0

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
            task_status.started()
            await listener.serve(self._carry)

    def swallow(self) -> None:
        self._swallows = True

    async def cut(self) -> None:
        """End all connections; those that follow work again."""
        for stream in self._streams:
            await stream.aclose()
        self._swallows, self._streams = False, []

    async def _carry(self, near: anyio.abc.SocketStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", self._port) as far:
            self._streams += [near, far]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pump, near, far)
                await self._pump(far, near)
                tasks.cancel_scope.cancel()

    async def _pump(self, source: anyio.abc.SocketStream, target: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for data in source:
                if not self._swallows:
                    await target.send(data)
        with anyio.CancelScope(shield=True):
            await target.aclose()
