"""A kernel's lines over pipes: the test is the kernel, and may write what it likes."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from cellwright.errors import KernelGone
from cellwright.kernels._pipe_client import PipeClient, Pipes
from cellwright.kernels.client import Message
from tests.waiting import LIMIT_S, fail_after, until

pytestmark = pytest.mark.anyio


@dataclass
class Other:
    """The other end of a client, and what the client handed on."""

    client: PipeClient
    read_fd: int
    write_fd: int
    token: bytes = b""
    heard: list[Message] = field(default_factory=list)
    _held: bytes = b""

    async def next(self) -> Any:
        with fail_after():
            while b"\n" not in self._held:
                await anyio.wait_readable(self.read_fd)
                self._held += os.read(self.read_fd, 1 << 16)
        line, self._held = self._held.split(b"\n", 1)
        return json.loads(line)

    async def write(self, data: bytes) -> None:
        with fail_after():
            while data:
                await anyio.wait_writable(self.write_fd)
                data = data[os.write(self.write_fd, data) :]

    async def say(self, kind: str, parent: str = "", channel: str = "iopub", **content: Any) -> None:
        told = {"channel": channel, "kind": kind, "parent": parent, "content": content}
        await self.write(self.token + json.dumps(told).encode() + b"\n")

    async def all_heard(self, kind: str = "mark") -> list[Message]:
        """What was handed on until now."""
        await self.say(kind)
        await until(lambda: any(message.kind == kind for message in self.heard))
        return [message for message in self.heard if message.kind != kind]


@asynccontextmanager
async def connected() -> AsyncIterator[Other]:
    pipes = Pipes()
    # As a process would have them; the client's side lets go of its own copies.
    read_fd, write_fd = (os.dup(fd) for fd in pipes.theirs)
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    pipes.handed_over()

    async def greeting() -> dict[str, Any]:
        return {"cwd": "/somewhere"}

    other = Other(PipeClient(pipes, greeting), read_fd, write_fd)
    other.client.on_message = other.heard.append
    try:
        async with anyio.create_task_group() as tasks:

            async def kernel() -> None:
                greeted = await other.next()
                assert greeted.pop("cwd") == "/somewhere"
                other.token = greeted.pop("token").encode()
                assert greeted == {}
                asked = await other.next()
                assert (asked["channel"], asked["kind"]) == ("shell", "kernel_info_request")
                await other.say("kernel_info_reply", asked["id"], "shell", implementation="test")

            tasks.start_soon(kernel)
            with fail_after():
                info = await tasks.start(other.client.run)
            assert info == {"implementation": "test"}
            yield other
            tasks.cancel_scope.cancel()
    finally:
        pipes.close()
        for fd in (other.read_fd, other.write_fd):
            if fd >= 0:
                os.close(fd)


async def test_a_request_gets_its_own_answer_and_others_go_to_the_listener() -> None:
    async with connected() as other, anyio.create_task_group() as tasks:

        async def kernel() -> None:
            asked = await other.next()
            assert asked["content"] == {"code": "x"}
            await other.say("complete_reply", "somebody else", "shell", matches=[])
            await other.say("complete_reply", asked["id"], "shell", matches=["xs"])

        tasks.start_soon(kernel)
        reply = await other.client.request("complete_request", {"code": "x"}, timeout_s=LIMIT_S)
        assert reply == {"matches": ["xs"]}
        assert [message.parent_id for message in await other.all_heard()] == ["somebody else"]


async def test_a_cell_is_sent_with_its_language() -> None:
    async with connected() as other:
        other.client.execute("1", message_id="m", language="javascript")
        asked = await other.next()
    assert (asked["id"], asked["kind"], asked["channel"]) == ("m", "execute_request", "shell")
    assert (asked["content"]["code"], asked["content"]["language"]) == ("1", "javascript")


async def test_what_comes_without_the_token_is_output_of_the_cell_that_runs() -> None:
    async with connected() as other:
        await other.write(b"before any cell\n")
        await other.say("execute_input", "first")
        await other.write("é".encode()[:1])
        await other.all_heard("half")
        await other.write("é".encode()[1:] + b" raw\xff")
        await other.say("execute_input", "second")
        await other.write(b"more")
        heard = await other.all_heard()
    streams = [
        (message.parent_id, json.loads(message.content)) for message in heard if message.kind == "stream"
    ]
    # In how many pieces is a matter of time.
    texts = {"first": "", "second": ""}
    for parent, content in streams:
        texts[parent] += content["text"]
    assert texts == {"first": "é raw\N{REPLACEMENT CHARACTER}", "second": "more"}
    assert {content["name"] for _, content in streams} == {"stdout"}


async def test_nonsense_under_the_token_is_refused_and_the_connection_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected() as other:
        for nonsense in (b"{", b"[]", b"\xff", b'{"channel":"iopub","kind":7}') * 20:
            await other.write(other.token + nonsense + b"\n")
        await other.say("a kind that nobody knows", "p")
        heard = await other.all_heard()
    assert [message.kind for message in heard] == ["a kind that nobody knows"]
    assert 0 < sum("kernel_line_refused" in record.message for record in caplog.records) <= 10


async def test_a_listener_that_fails_does_not_deafen_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as other:

        def fail_once(message: Message) -> None:
            other.client.on_message = other.heard.append
            raise ValueError(message.kind)

        other.client.on_message = fail_once
        await other.say("first")
        await other.say("second")
        assert [message.kind for message in await other.all_heard()] == ["second"]
    assert "kernel_listener_failed" in caplog.text


async def test_a_flood_is_heard_whole_and_others_get_their_turn() -> None:
    turns = 0
    async with connected() as other, anyio.create_task_group() as tasks:

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(take_turns)
        await other.say("execute_input", "m")
        for _ in range(100):
            await other.write(b"x" * 100_000)
        heard = await other.all_heard()
        tasks.cancel_scope.cancel()
    text = "".join(json.loads(message.content)["text"] for message in heard if message.kind == "stream")
    assert len(text) == 10_000_000
    assert turns > 100


async def test_more_than_a_pipe_holds_is_sent_once_the_kernel_reads() -> None:
    async with connected() as other:
        code = "x" * 1_000_000
        for number in range(3):
            other.client.execute(code, message_id=f"m{number}")
        for number in range(3):
            asked = await other.next()
            assert asked["id"] == f"m{number}"
            assert asked["content"]["code"] == code


async def test_a_kernel_that_closed_its_input_costs_nobody_anything() -> None:
    async with connected() as other:
        os.close(other.read_fd)
        other.read_fd = -1
        other.client.execute("1", message_id="m")
        with pytest.raises(TimeoutError):
            await other.client.request("complete_request", {}, timeout_s=0.05)
        assert await other.all_heard() == []


async def test_draining_hears_the_last_word_and_closing_ends_every_wait() -> None:
    async with connected() as other, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(KernelGone, match="it died"):
                await other.client.request("complete_request", {}, timeout_s=LIMIT_S)

        tasks.start_soon(ask)
        await other.next()
        await other.say("execute_input", "m")
        await other.write(b"last word" + b"x" * 200_000)
        os.close(other.write_fd)
        other.write_fd = -1
        with fail_after():
            await other.client.drain()
        assert "".join(json.loads(m.content).get("text", "") for m in other.heard).startswith("last word")
        other.client.close("it died")
        with pytest.raises(KernelGone, match="it died"):
            other.client.execute("1", message_id="m")


async def test_draining_ends_where_something_else_holds_the_pipe_open() -> None:
    async with connected() as other:
        with fail_after():
            await other.client.drain()
