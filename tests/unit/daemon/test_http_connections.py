"""How long a listener waits for a header, asked of a real one in this process."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from cellwright.daemon._listeners import Listener
from tests.waiting import fail_after

REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
HALF = REQUEST[:20]

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(header_s: float) -> AsyncIterator[Listener]:
    async def handshake(_: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    bound = socket.create_server(("127.0.0.1", 0))
    listener = Listener(bound, Starlette(routes=[Route("/", handshake)]), lasting=False, header_s=header_s)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.run)
        yield listener
        tasks.cancel_scope.cancel()


async def until_closed(client: anyio.abc.ByteStream) -> None:
    with fail_after(), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        await client.receive()


@pytest.mark.parametrize("said", [b"", HALF], ids=["nothing", "half"])
async def test_a_header_that_does_not_come_is_not_waited_for(said: bytes) -> None:
    async with listening(0.1) as listener, await anyio.connect_tcp("127.0.0.1", listener.port) as client:
        if said:
            await client.send(said)
        await until_closed(client)


async def test_the_second_header_of_a_connection_is_not_waited_for_either() -> None:
    async with listening(0.1) as listener, await anyio.connect_tcp("127.0.0.1", listener.port) as client:
        await client.send(REQUEST)
        assert b"200 OK" in await client.receive()
        await client.send(HALF)
        await until_closed(client)


async def test_no_stranger_who_is_connected_keeps_a_daemon_going() -> None:
    async with listening(60) as listener, await anyio.connect_tcp("127.0.0.1", listener.port) as client:
        await client.send(REQUEST)
        assert b"200 OK" in await client.receive()
        assert not listener.needed
