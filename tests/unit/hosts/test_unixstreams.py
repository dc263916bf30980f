"""A unix socket as a stream: what is sent arrives, and a reader may be cancelled in the very turn in which it does."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from cellwright.unixstreams import UnixStream

pytestmark = pytest.mark.anyio


def pair() -> tuple[UnixStream, UnixStream, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return UnixStream(ours), UnixStream(theirs), theirs


async def test_everything_that_is_sent_arrives_in_order_and_then_its_end() -> None:
    ours, theirs, _ = pair()
    sent = bytes(range(256)) * 20_000
    received = bytearray()

    async def say_all() -> None:
        await ours.send(sent)
        await ours.send_eof()

    async with ours, theirs, anyio.create_task_group() as tasks:
        tasks.start_soon(say_all)
        async for piece in theirs:
            received += piece
    assert received == sent


@pytest.mark.parametrize("ends", ["cancelled", "closed"])
async def test_a_reader_that_ends_in_the_turn_in_which_data_come_leaves_no_error(ends: str) -> None:
    ours, theirs, their_socket = pair()
    failed: list[object] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _loop, context: failed.append(context["exception"]))
    try:
        async with ours, theirs, anyio.create_task_group() as tasks:
            tasks.start_soon(reading, ours)
            await anyio.wait_all_tasks_blocked()
            end = tasks.cancel_scope.cancel if ends == "cancelled" else partial(tasks.start_soon, ours.aclose)
            # Ready in the same turn as the data, and before them.
            their_socket.send(b"data")
            loop.call_soon(end)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    finally:
        loop.set_exception_handler(before)
    assert failed == []


async def reading(stream: UnixStream) -> None:
    with suppress(anyio.ClosedResourceError):
        await stream.receive()


async def test_a_reader_and_a_writer_learn_that_the_stream_was_closed() -> None:
    ours, theirs, _ = pair()
    async with theirs, anyio.create_task_group() as tasks:
        tasks.start_soon(reading, ours)
        await anyio.wait_all_tasks_blocked()
        await ours.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await ours.send(b"late")
    with pytest.raises(anyio.ClosedResourceError):
        await ours.receive()


async def test_a_peer_that_is_gone_breaks_the_stream() -> None:
    ours, theirs, _ = pair()
    await theirs.aclose()
    async with ours:
        with pytest.raises(anyio.BrokenResourceError):
            await ours.send(b"anybody?")
