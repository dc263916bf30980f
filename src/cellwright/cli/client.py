"""The command line as an MCP client of the daemon: one interface, no second API.

The SDK takes a second to import, so it is imported when a verb really calls.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.abc
import typer

import cellwright
from cellwright.cli.exits import ExitCode, show_error
from cellwright.cli.wording import in_verbs
from cellwright.daemon.hello import encode_hello
from cellwright.daemon.paths import DaemonPaths
from cellwright.daemon.starting import connect_or_start
from cellwright.errors import CellwrightError
from cellwright.settings.modelkeys import model_environment
from cellwright.settings.places import find_storage
from cellwright.unixstreams import UnixStream

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult

    from mcp import Client

__all__ = ["Caller", "Given", "ToolRefused", "call_daemon", "daemon_paths", "open_daemon"]

T = TypeVar("T")


class ToolRefused(CellwrightError):
    """A tool answered with an error."""

    code = "tool_refused"


@dataclass(frozen=True, slots=True)
class Given:
    """What a person gives the connection, beyond what an agent could ask for by a call."""

    files: tuple[str, ...] = ()
    """Files that may be read, wherever they lie."""
    servers: tuple[tuple[str, str], ...] = ()
    """MCP servers: a name, and a command or an address."""
    models: tuple[str, ...] = ()
    """Models that may be asked, wherever they are."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls tools of the daemon."""

    client: Client
    _warned: set[str] = field(default_factory=set)

    async def data(
        self, tool: str, *, progress: ProgressFnT | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Call a tool that answers with data; ``progress`` is told what happens meanwhile.

        Raises:
            ToolRefused: it answered with an error.
        """
        result = await self._call(tool, arguments, progress)
        if result.structured_content is None:
            raise ToolRefused(
                f"{tool} answered with text, not data", hint="Run `cellwright daemon stop` and try again"
            )
        data = dict(result.structured_content)
        if "banner" in data:
            self._say(data["banner"])
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
        found = await self.client.read_resource(uri)
        return "".join(getattr(content, "text", "") for content in found.contents)

    async def _call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressFnT | None = None
    ) -> CallToolResult:
        given = {name: value for name, value in arguments.items() if value is not None}
        result = await self.client.call_tool(tool, given, progress_callback=progress)
        if result.is_error:
            raise ToolRefused(in_verbs("\n".join(_texts_of(result))))
        return result

    def _say(self, text: str) -> None:
        """Something beside the answer, once: on stderr, so that data stay data."""
        if text not in self._warned:
            self._warned.add(text)
            typer.echo(text, err=True)


def _of_connection(told: str) -> ToolRefused:
    if told == "Connection closed":
        return ToolRefused(
            "The daemon ended before it answered",
            hint="Run it again: a new daemon starts and finds every session; `cellwright daemon logs` may tell why",
        )
    return ToolRefused(told, hint="See `cellwright daemon logs`")


def call_daemon(work: Callable[[Caller], Awaitable[T]], given: Given | None = None) -> T:
    """Do some work with the daemon; what fails is said on stderr and ends the command."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415  # see the module's docstring

    async def run() -> T:
        async with _caller(given or Given()) as caller, anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(_cancel_on_interrupt, scope)
                result = await work(caller)
            tasks.cancel_scope.cancel()
            if scope.cancelled_caught:
                raise KeyboardInterrupt
        return result

    try:
        return anyio.run(run)
    except* CellwrightError as group:
        error = _first(group)
        show_error(error)
        code = ExitCode.RUN_FAILED if isinstance(error, ToolRefused) else ExitCode.ENGINE_FAILED
    except* MCPError as group:
        show_error(_of_connection(str(_first(group))))
        code = ExitCode.ENGINE_FAILED
    except* KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    raise typer.Exit(code)


def daemon_paths() -> DaemonPaths:
    """Where the daemon of whoever works here has its files."""
    return DaemonPaths(find_storage(os.getcwd()))  # noqa: PTH109


def open_daemon() -> socket.socket:
    """A connection to the daemon, started if need be."""
    return connect_or_start(daemon_paths(), os.getcwd(), say=lambda line: typer.echo(line, err=True))  # noqa: PTH109


async def _cancel_on_interrupt(scope: anyio.CancelScope) -> None:
    """Cancel the work but not the client, so that the work can still tell the daemon to stop."""
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


@asynccontextmanager
async def _caller(given: Given) -> AsyncIterator[Caller]:
    from mcp.types import Implementation  # noqa: PLC0415  # as above
    from mcp_types.version import LATEST_MODERN_VERSION  # noqa: PLC0415  # as above

    from mcp import Client  # noqa: PLC0415  # see the module's docstring

    about = Implementation(name="cellwright", version=cellwright.__version__)
    async with Client(_socket_transport(given), mode=LATEST_MODERN_VERSION, client_info=about) as client:
        yield Caller(client)


@asynccontextmanager
async def _socket_transport(given: Given) -> AsyncIterator[Any]:
    from cellwright.mcp.wire import message_streams  # noqa: PLC0415  # see the module's docstring

    connection = await anyio.to_thread.run_sync(open_daemon)
    hello = encode_hello(
        "mcp",
        dialect=None,
        directory=os.getcwd(),  # noqa: PTH109
        environment=model_environment(),
        files=given.files,
        servers=given.servers,
        models=given.models,
    )
    async with UnixStream(connection) as stream:
        await stream.send(hello)
        async with message_streams(stream, stream) as streams:
            yield streams


def _texts_of(result: CallToolResult) -> list[str]:
    """What it says, the answer last."""
    return [block.text for block in result.content if block.type == "text"]


def _first(group: BaseExceptionGroup[Any]) -> Any:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
