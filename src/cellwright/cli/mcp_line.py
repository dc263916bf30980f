"""As much of MCP's client side as a verb needs: calls with their progress, resources, cancelling. No handshake.

By hand, since the SDK takes longer to import than most verbs take, and asks for every tool's schema before it gives
the first answer. What connects it to a daemon is ``mcp_client``'s.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import ByteStream

import cellwright
from cellwright.errors import CellwrightError
from cellwright.unixstreams import lines

__all__ = ["VERSION", "CallFailed", "Line", "LineClosed", "Progress", "open_line"]

VERSION = "2026-07-28"
_ABOUT = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "cellwright", "version": cellwright.__version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_NO_SUCH_METHOD = {"code": -32601, "message": "The command line answers no requests"}
_LAST_WORDS_S = 1.0
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)

Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]


class CallFailed(CellwrightError):
    """A call was answered with an error of the protocol."""

    code = "call_failed"


class LineClosed(CallFailed):
    """The other side went before it had answered."""

    code = "line_closed"


@dataclass(slots=True)
class _Waiting:
    progress: Progress | None
    reply: dict[str, Any] | None = None
    over: anyio.Event = field(default_factory=anyio.Event)


class Line:
    """One connection, on which several may call at once."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._sending = anyio.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._closed = False

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The result of a tool; whoever no longer waits for it cancels it there.

        Raises:
            CallFailed: it was answered with an error of the protocol, or not at all.
        """
        return await self._ask("tools/call", {"name": name, "arguments": arguments}, progress)

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """The contents of a resource.

        Raises:
            CallFailed: as above.
        """
        contents: list[dict[str, Any]] = (await self._ask("resources/read", {"uri": uri}))["contents"]
        return contents

    async def hear(self) -> None:
        """Take what comes until the other side goes."""
        async for line in lines(self._stream):
            await self._take(msgspec.json.decode(line))
        self._closed = True
        for waiting in self._waiting.values():
            waiting.over.set()

    async def _ask(
        self, method: str, params: dict[str, Any], progress: Progress | None = None
    ) -> dict[str, Any]:
        number = next(self._numbers)
        meta = _ABOUT | ({"progressToken": number} if progress is not None else {})
        waiting = self._waiting[number] = _Waiting(progress)
        try:
            await self._send({"id": number, "method": method, "params": {**params, "_meta": meta}})
            if not self._closed:
                await waiting.over.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                params = {"requestId": number, "reason": "nobody waits for it any more"}
                await self._send({"method": "notifications/cancelled", "params": params})
            raise
        finally:
            del self._waiting[number]
        if waiting.reply is None:
            raise LineClosed("The daemon ended before it answered")
        if "error" in waiting.reply:
            raise CallFailed(str(waiting.reply["error"].get("message")))
        result: dict[str, Any] = waiting.reply["result"]
        return result

    async def _take(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if "method" not in message:
            if number in self._waiting:
                self._waiting[number].reply = message
                self._waiting[number].over.set()
        elif number is not None:
            await self._send({"id": number, "error": _NO_SUCH_METHOD})
        elif message["method"] == "notifications/progress":
            params = message.get("params", {})
            waiting = self._waiting.get(params.get("progressToken"))
            if waiting is not None and waiting.progress is not None:
                await waiting.progress(params["progress"], params.get("total"), params.get("message"))

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            # That the other side is gone shows where it is heard.
            with suppress(*_GONE):
                await self._stream.send(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")


@asynccontextmanager
async def open_line(stream: ByteStream) -> AsyncIterator[Line]:
    """A line over a connection, heard for as long as this is open."""
    line = Line(stream)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(line.hear)
        yield line
        tasks.cancel_scope.cancel()
