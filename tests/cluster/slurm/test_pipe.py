"""The way through srun: bytes both ways, whole and in order, and ends that are noticed. On this machine, without SLURM."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from cellwright.errors import HostUnreachable
from cellwright.slurm import pipe
from cellwright.slurm._transport import PipeStream, PromptAcknowledgements, pipe_command
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

LARGE = os.urandom(5_000_000)


def command(socket: Path) -> list[str]:
    """The other end, without the srun before it."""
    return [sys.executable, "-I", "-S", pipe.__file__, str(socket)]


@asynccontextmanager
async def piped(tmp_path: Path) -> AsyncIterator[tuple[PipeStream, anyio.abc.SocketStream]]:
    """Both ends of a pipe: ours, and the host's."""
    listener = await anyio.create_unix_listener(tmp_path / "s")
    async with listener:
        stream = await PipeStream.open(command(tmp_path / "s"), {})
        assert await stream.greeted()
        host = (
            await listener.listeners[0].accept()
            if hasattr(listener, "listeners")
            else await listener.accept()
        )
        async with host:
            try:
                yield stream, host
            finally:
                await stream.aclose()


def test_nothing_that_srun_is_told_is_secret_and_no_memory_is_taken() -> None:
    told = pipe_command(12, "/opt/python", "/run/h.sock")
    assert told[0] == "srun"
    assert {"--jobid=12", "--overlap", "--mem=0", "/run/h.sock"} <= set(told)


async def test_bytes_arrive_whole_in_both_directions(tmp_path: Path) -> None:
    async with piped(tmp_path) as (stream, host), anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, LARGE)
        tasks.start_soon(host.send, LARGE)
        assert await _digest(host) == await _digest(stream) == hashlib.sha256(LARGE).hexdigest()


async def test_host_that_ends_ends_the_stream_after_its_last_word(tmp_path: Path) -> None:
    async with piped(tmp_path) as (stream, host):
        await host.send(b"last")
        await host.aclose()
        assert await stream.receive() == b"last"
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_closing_our_side_is_noticed_by_the_host(tmp_path: Path) -> None:
    async with piped(tmp_path) as (stream, host):
        await stream.aclose()
        with fail_after(), pytest.raises(anyio.EndOfStream):
            await host.receive()


async def test_what_ends_the_job_does_not_cut_off_the_hosts_last_words(tmp_path: Path) -> None:
    async with piped(tmp_path) as (stream, host):
        os.kill(stream._process.pid, signal.SIGTERM)
        await host.send(b"ending")
        assert await stream.receive() == b"ending"


async def test_socket_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    stream = await PipeStream.open(command(tmp_path / "absent"), {})
    assert not await stream.greeted()
    assert "the host's socket does not answer: No such file" in stream.words
    await stream.aclose()


async def test_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostUnreachable, match="cannot be run"):
        await PipeStream.open([str(tmp_path / "srun")], {})


async def test_connections_of_a_child_are_found_and_made_prompt() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    code = f"import socket; s = socket.create_connection(('127.0.0.1', {port})); print(s.recv(1))"
    async with (
        listener,
        await anyio.open_process([sys.executable, "-c", code]) as child,
        await listener.listeners[0].accept() as accepted,
    ):
        prompt = PromptAcknowledgements(child.pid)
        assert len(prompt._sockets) == 1
        prompt.acknowledge()
        prompt.close()
        await accepted.send(b"x")
        assert await child.wait() == 0


def test_process_that_is_gone_has_no_connections() -> None:
    assert PromptAcknowledgements(2**22 - 1)._sockets == []


async def _digest(stream: anyio.abc.ByteReceiveStream) -> str:
    digest, size = hashlib.sha256(), 0
    while size < len(LARGE):
        data = await stream.receive()
        digest.update(data)
        size += len(data)
    return digest.hexdigest()
