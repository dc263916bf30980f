"""The command line as an MCP client of the daemon: one interface, no second API."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.abc
from anyio.abc import ByteStream

import cellwright
from cellwright.cli._arguments import Exit
from cellwright.cli._daemon_line import open_daemon
from cellwright.cli._questions import answer_form, can_ask
from cellwright.cli._terminal import ExitCode, ProgressLine, echo, in_commands, show_error
from cellwright.daemon.handshake import encode_handshake
from cellwright.errors import CellwrightError
from cellwright.settings.modelkeys import model_environment
from cellwright.unixstreams import UnixStream, lines

__all__ = [
    "VERSION",
    "CallFailed",
    "Caller",
    "ClientContext",
    "Line",
    "LineClosed",
    "Progress",
    "ToolRefused",
    "call_daemon",
    "open_line",
]

T = TypeVar("T")

# Longer than a machine stands still whose disk is slow: what is not stopped by then goes on unseen.
_STOPPING_S = 60.0


class ToolRefused(CellwrightError):
    """A tool answered with an error."""

    code = "tool_refused"


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What a person gives the connection, beyond what an agent could ask for by a call."""

    files: tuple[str, ...] = ()
    """Files that may be read, wherever they lie."""
    servers: tuple[tuple[str, str], ...] = ()
    """MCP servers: a name, and a command or an address; with neither the connection of that name."""
    models: tuple[str, ...] = ()
    """Models that may be asked, wherever they are."""
    applied: tuple[str, ...] = ()
    """Paths of a project that may be overwritten, whatever runs them."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls tools of the daemon."""

    line: Line
    _warned: set[str] = field(default_factory=set)
    _stopping: list[anyio.CancelScope] = field(default_factory=list)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """For what an interrupted command still has to say; whoever does not want to wait for that interrupts again."""
        with anyio.move_on_after(_STOPPING_S, shield=True) as scope:
            self._stopping.append(scope)
            try:
                yield
            finally:
                self._stopping.remove(scope)

    def hurry(self) -> None:
        """Leave what is being stopped to the daemon."""
        for scope in self._stopping:
            scope.cancel()

    async def data(self, tool: str, *, progress: Progress | None = None, **arguments: Any) -> dict[str, Any]:
        """Call a tool that answers with data; ``progress`` is told what happens meanwhile.

        Raises:
            ToolRefused: it answered with an error.
        """
        data = await self.facts(tool, progress=progress, **arguments)
        if "banner" in data:
            self._say(data["banner"])
        return data

    async def facts(self, tool: str, *, progress: Progress | None = None, **arguments: Any) -> dict[str, Any]:
        """The same, and what is to be said beside it is left to another call of this command."""
        result = await self._call(tool, arguments, progress)
        data: dict[str, Any] | None = result.get("structuredContent")
        if data is None:
            raise ToolRefused(
                f"{tool} answered with text, not data", hint="Run `cellwright daemon stop` and try again"
            )
        return data

    async def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool that answers with text.

        Raises:
            ToolRefused: it answered with an error.
        """
        *before, text = _texts_of(await self._call(tool, arguments))
        for said in before:
            self._say(said)
        return text

    async def resource(self, uri: str) -> str:
        """Read a resource that is text."""
        return "".join(content.get("text", "") for content in await self.line.read_resource(uri))

    async def _call(
        self, tool: str, arguments: dict[str, Any], progress: Progress | None = None
    ) -> dict[str, Any]:
        given = {name: value for name, value in arguments.items() if value is not None}
        result = await self.line.call_tool(tool, given, progress=progress)
        if result.get("isError"):
            raise ToolRefused(in_commands("\n".join(_texts_of(result))))
        return result

    def _say(self, text: str) -> None:
        """Something beside the answer, once: on stderr, so that data stay data."""
        if text not in self._warned:
            self._warned.add(text)
            echo(text, err=True)


def _of_connection(error: CallFailed) -> ToolRefused:
    if isinstance(error, LineClosed):
        hint = (
            "Run it again: a new daemon starts and finds every session; `cellwright daemon logs` may tell why"
        )
        return ToolRefused(error.message, hint=hint)
    return ToolRefused(error.message, hint=error.hint or "See `cellwright daemon logs`")


def call_daemon(
    work: Callable[[Caller], Awaitable[T]],
    given: ClientContext | None = None,
    *,
    asks: bool = False,
    doing: str | None = "waiting for the daemon",
) -> T:
    """Do some work with the daemon; what fails is said on stderr and ends the command.

    With ``asks`` a person at the terminal is asked what cells ask for, and what is to be approved. A terminal shows
    ``doing`` and for how long already, unless it is None: what draws a view of its own has no line beside it.
    """
    answer = answer_form if asks and can_ask() else None

    async def run(connection: socket.socket) -> T:
        context = given or ClientContext()
        async with _caller(connection, context, answer) as caller, anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(_cancel_on_interrupt, scope, caller)
                result = await work(caller)
            tasks.cancel_scope.cancel()
            if scope.cancelled_caught:
                raise KeyboardInterrupt
        return result

    unread: BrokenPipeError | None = None
    code = ExitCode.RUN_FAILED
    try:
        with ProgressLine(doing) if doing is not None else nullcontext():
            return anyio.run(run, open_daemon())
    except* CallFailed as group:
        show_error(_of_connection(_first(group)))
        code = ExitCode.ENGINE_FAILED
    except* CellwrightError as group:
        error = _first(group)
        show_error(error)
        code = ExitCode.RUN_FAILED if isinstance(error, ToolRefused) else ExitCode.ENGINE_FAILED
    except* KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except* BrokenPipeError as group:
        unread = _first(group)
    if unread is not None:
        raise unread  # ends the command quietly
    raise Exit(code)


async def _cancel_on_interrupt(scope: anyio.CancelScope, caller: Caller) -> None:
    """Cancel the work but not the client, so that the work can still tell the daemon to stop."""
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            caller.hurry()
            scope.cancel()


@asynccontextmanager
async def _caller(
    connection: socket.socket, given: ClientContext, answer: Answer | None
) -> AsyncIterator[Caller]:
    handshake = encode_handshake(
        "mcp",
        dialect=None,
        directory=os.getcwd(),
        environment=model_environment(),
        files=given.files,
        servers=given.servers,
        models=given.models,
        applied=given.applied,
    )
    async with UnixStream(connection) as stream:
        await stream.send(handshake)
        async with open_line(stream, answer) as line:
            yield Caller(line)


def _texts_of(result: dict[str, Any]) -> list[str]:
    """What it says, the answer last."""
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def _first(group: BaseExceptionGroup[Any]) -> Any:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# As much of MCP's client side as a command needs: calls with their progress, resources, cancelling. No
# handshake.

VERSION = "2026-07-28"

_ABOUT = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "cellwright", "version": cellwright.__version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}

# Passwords are typed without an echo, and nobody but the daemon reads this connection.
_ABLE_TO_ASK: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "experimental": {"cellwright/passwords": {}},
    }
}

_NO_SUCH_METHOD = {"code": -32601, "message": "The command line answers no requests"}

_LAST_WORDS_S = 1.0

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)

Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]

Answer: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Asks a person what a request says."""


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

    def __init__(self, stream: ByteStream, answer: Answer | None = None) -> None:
        self._stream = stream
        self._answer = answer
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
        params = {"name": name, "arguments": arguments}
        result = await self._ask("tools/call", params, progress)
        while self._answer is not None and result.get("resultType") == "input_required":
            given = {key: await self._answer(asked) for key, asked in result["inputRequests"].items()}
            again = {**params, "inputResponses": given, "requestState": result["requestState"]}
            result = await self._ask("tools/call", again, progress)
        return result

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
            await self._take(json.loads(line))
        self._closed = True
        for waiting in self._waiting.values():
            waiting.over.set()

    async def _ask(
        self, method: str, params: dict[str, Any], progress: Progress | None = None
    ) -> dict[str, Any]:
        number = next(self._numbers)
        meta = _ABOUT | ({"progressToken": number} if progress is not None else {})
        meta |= _ABLE_TO_ASK if self._answer is not None else {}
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
            error = waiting.reply["error"]
            said = error.get("data") if isinstance(error.get("data"), dict) else {}
            raise CallFailed(str(said.get("reason") or error.get("message")), hint=said.get("hint"))
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
                await self._stream.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def open_line(stream: ByteStream, answer: Answer | None = None) -> AsyncIterator[Line]:
    """A line over a connection, heard for as long as this is open; ``answer`` is for calls that ask something back."""
    line = Line(stream, answer)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(line.hear)
        yield line
        tasks.cancel_scope.cancel()
