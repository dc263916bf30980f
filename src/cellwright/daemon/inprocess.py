"""``cellwright mcp --in-process``: engine and MCP server in the process that the client started, over its pipes.

For containers and tests. There is no daemon, so no second client sees the sessions, and they end with the process
unless the storage directory outlives it.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from cellwright.assembly import open_engine
from cellwright.daemon._connections import ClientInput, ClientOutput, Conversation, is_hung_up
from cellwright.daemon._mcp_servers import McpServers
from cellwright.daemon._refusals import cause_of, refuse_requests
from cellwright.errors import CellwrightError
from cellwright.settings import Settings, load_settings

__all__ = ["serve_stdio"]

_CHUNK = 65_536
_OK, _FAILED, _INTERRUPTED = 0, 3, 130


def serve_stdio(*, dialect: str | None, toolset: str | None) -> int:
    """Serve the one client on stdin and stdout until it is done; the exit code."""
    # A stray print must not land between messages: they get pipes of their own, and stdout is stderr.
    reading, writing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        anyio.run(partial(_serve, load_settings(), dialect, toolset, reading=reading, writing=writing))
    except (CellwrightError, ExceptionGroup) as error:
        if (cause := cause_of(error)) is None:
            raise
        sys.stderr.write(f"error: {cause.message}\n" + (f"hint: {cause.hint}\n" if cause.hint else ""))
        sys.stderr.flush()
        refuse_requests(lambda: os.read(reading, _CHUNK), lambda reply: _write_all(writing, reply), cause)
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    return _OK


async def _serve(
    settings: Settings, dialect: str | None, toolset: str | None, *, reading: int, writing: int
) -> None:
    async with (
        open_engine(settings, ephemeral=not settings.persist_sessions) as engine,
        McpServers(engine) as mcp_servers,
    ):
        mcp_server = await mcp_servers.of(dialect, toolset)
        conversation = Conversation({})
        heard = ClientInput(_Stdin(reading), conversation, lambda: is_hung_up(writing))
        await mcp_server.serve(heard, ClientOutput(_Stdout(writing), conversation))


class _Stdin(ByteReceiveStream):
    """A pipe, terminal or file that is read in a thread: not all of them can be waited for in a loop."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def receive(self, max_bytes: int = 65536) -> bytes:
        chunk = await anyio.to_thread.run_sync(os.read, self._fd, max_bytes, abandon_on_cancel=True)
        if not chunk:
            raise anyio.EndOfStream
        return chunk

    async def aclose(self) -> None:
        """A thread may still be reading: it is closed with the process."""


class _Stdout(ByteSendStream):
    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def send(self, item: bytes) -> None:
        try:
            await anyio.to_thread.run_sync(_write_all, self._fd, item)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        os.close(self._fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
