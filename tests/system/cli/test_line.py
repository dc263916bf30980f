"""The command line's own client of MCP, against a server that says what each test wants."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp_types.version import LATEST_MODERN_VERSION

from cellwright.cli._mcp_client import VERSION, CallFailed, Line, LineClosed, open_line
from cellwright.unixstreams import UnixStream, lines
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


@dataclass
class Far:
    """The other end."""

    stream: UnixStream

    async def hear(self) -> dict[str, Any]:
        async for line in lines(self.stream):
            message: dict[str, Any] = json.loads(line)
            return message
        raise AssertionError("it is gone")

    async def say(self, **message: Any) -> None:
        await self.stream.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Line, Far]]:
    near, far = socket.socketpair()
    with fail_after():
        async with UnixStream(near) as stream, UnixStream(far) as other, open_line(stream) as line:
            yield line, Far(other)


def test_it_speaks_the_newest_version_that_the_server_does() -> None:
    assert VERSION == LATEST_MODERN_VERSION


async def test_calls_at_once_get_their_own_answers_and_progress_in_order() -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    found: dict[str, Any] = {}
    async with connected() as (line, far), anyio.create_task_group() as tasks:

        async def call(name: str) -> None:
            found[name] = await line.call_tool(name, {"a": 1}, progress=hear if name == "one" else None)

        tasks.start_soon(call, "one")
        one = await far.hear()
        tasks.start_soon(call, "two")
        two = await far.hear()
        assert (one["method"], one["params"]["name"], one["params"]["arguments"]) == (
            "tools/call",
            "one",
            {"a": 1},
        )
        token = one["params"]["_meta"]["progressToken"]
        assert "progressToken" not in two["params"]["_meta"]
        for step in range(3):
            progress = {"progressToken": token, "progress": step, "message": f"step {step}"}
            await far.say(method="notifications/progress", params=progress)
        await far.say(id=two["id"], result={"said": "second"})
        await far.say(id=one["id"], result={"said": "first"})
    assert found == {"one": {"said": "first"}, "two": {"said": "second"}}
    assert heard == [(0, None, "step 0"), (1, None, "step 1"), (2, None, "step 2")]


async def test_whoever_waits_no_longer_cancels_it_there() -> None:
    async with connected() as (line, far), anyio.create_task_group() as tasks:
        tasks.start_soon(line.call_tool, "slow", {})
        asked = await far.hear()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            told = await far.hear()
    assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", asked["id"])


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_one_that_goes_before_it_answered_is_told_as_such(when: str) -> None:
    async with connected() as (line, far), anyio.create_task_group() as tasks:
        if when == "before":
            await far.stream.aclose()
            await anyio.wait_all_tasks_blocked()

        async def call() -> None:
            with pytest.raises(LineClosed, match="ended before it answered"):
                await line.read_resource("cellwright://x")

        tasks.start_soon(call)
        if when == "meanwhile":
            assert (await far.hear())["params"]["uri"] == "cellwright://x"
            await far.stream.aclose()


async def test_errors_of_the_protocol_and_requests_of_the_server_are_answered() -> None:
    async with connected() as (line, far), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(CallFailed, match="no such tool"):
                await line.call_tool("nothing", {})

        tasks.start_soon(call)
        asked = await far.hear()
        await far.say(id="theirs", method="ping")
        assert (await far.hear())["error"]["code"] == -32601
        await far.say(id=asked["id"], error={"code": -32602, "message": "no such tool"})
