"""The real MCP server over a real engine and real kernels, driven by the official client over a byte stream."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, ImageContent, TextContent, jsonrpc_message_adapter

from cellwright import Engine
from cellwright.mcp import McpServer, Pace
from cellwright.mcp.clients import NO_GRANTS, ClientGrants
from cellwright.unixstreams import UnixStream
from tests.kernel.engine.conftest import engine, forked_hosts, shared_engine
from tests.waiting import LIMIT_S, scaled

__all__ = ["engine", "forked_hosts", "shared_engine"]

Connect = Callable[..., AbstractAsyncContextManager[Client]]

# Calls are handed back early only where that is tested.
PACE = Pace(wait_s=scaled(60), files_s=LIMIT_S, stopping_s=LIMIT_S, progress_s=0.05, notify_s=0.01)


@pytest.fixture(scope="session")
async def shared_face(shared_engine: Engine) -> AsyncIterator[McpServer]:
    async with running(McpServer(shared_engine, pace=PACE)) as face:
        yield face


@pytest.fixture(scope="module")
def face(engine: Engine, shared_face: McpServer) -> McpServer:  # which empties it
    """The MCP server of all tests, over an engine that is empty for each module."""
    return shared_face


@pytest.fixture
def connect(face: McpServer) -> Connect:
    """Connect the official client to the MCP server, in either protocol era."""

    def connect(mode: str = "legacy", **options: Any) -> AbstractAsyncContextManager[Client]:
        return connected(face, mode, **options)

    return connect


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[Client]:
    async with connect() as client:
        yield client


@asynccontextmanager
async def running(face: McpServer) -> AsyncIterator[McpServer]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(lambda task_status: face.run(task_status=task_status))
        yield face
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def connected(
    face: McpServer,
    mode: str = "legacy",
    *,
    directory: Path | None = None,
    grants: ClientGrants = NO_GRANTS,
    **options: Any,
) -> AsyncIterator[Client]:
    async with Client(Wire(face, directory, grants), mode=mode, **options) as client:
        yield client


class Wire:
    """A transport for the official client: bytes over a socket pair, as the daemon's socket carries them."""

    def __init__(
        self, face: McpServer, directory: Path | None = None, grants: ClientGrants = NO_GRANTS
    ) -> None:
        self._face = face
        self._directory = directory
        self._grants = grants
        self._open: AbstractAsyncContextManager[TransportStreams] | None = None

    async def __aenter__(self) -> TransportStreams:
        self._open = self._connect()
        return await self._open.__aenter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._open is not None
        return await self._open.__aexit__(exc_type, exc, traceback)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[TransportStreams]:
        ours, theirs = socket_pair()
        to_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        async with theirs, anyio.create_task_group() as tasks:
            serve = partial(self._face.serve, directory=self._directory, grants=self._grants)
            tasks.start_soon(serve, theirs, theirs)
            tasks.start_soon(_read, ours, to_client)
            tasks.start_soon(_write, from_client, ours)
            try:
                yield incoming, outgoing
            finally:
                incoming.close()
                outgoing.close()
                with anyio.CancelScope(shield=True):
                    await ours.aclose()


def socket_pair() -> tuple[UnixStream, UnixStream]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return UnixStream(ours), UnixStream(theirs)


async def _read(stream: ByteReceiveStream, to_client: Any) -> None:
    rest = b""
    async with to_client:
        try:
            while True:
                rest += await stream.receive()
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    await to_client.send(
                        SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                    )
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return


async def _write(from_client: Any, stream: ByteSendStream) -> None:
    async with from_client:
        async for item in from_client:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stream.send(text.encode() + b"\n")


# What a model reads of a result --------------------------------------------------------------------------------------


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def images_of(result: CallToolResult) -> list[ImageContent]:
    return [block for block in result.content if isinstance(block, ImageContent)]


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool of data and return its data."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return data_of(result)


def data_of(result: CallToolResult) -> Any:
    """The data of a reply, which a client that does not ask for it otherwise gets as text."""
    assert result.structured_content is None
    last = result.content[-1]
    assert isinstance(last, TextContent)
    return json.loads(last.text)


async def read(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool of text and return its text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must refuse and return what it says."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def new_session(client: Client, name: str = "a problem") -> str:
    created = await ask(client, "notebook_create", name=name)
    return str(created["session_id"])
