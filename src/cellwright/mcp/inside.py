"""The official client, connected to a face in the same process: for whoever uses the tools from here.

One connection is one client, as over a socket: what it worked with is its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp.types import Implementation
from mcp_types.version import LATEST_MODERN_VERSION

import cellwright
from cellwright.mcp.server import Face

__all__ = ["connected"]


@asynccontextmanager
async def connected(
    face: Face, *, directory: Path | None = None, begun: set[str] | None = None
) -> AsyncIterator[Client]:
    """A client of the face, which works in this directory. ``begun`` is given the ids of what its calls began."""
    about = Implementation(name="cellwright agent", version=cellwright.__version__)
    streams = _streams(face, directory, begun)
    async with Client(streams, mode=LATEST_MODERN_VERSION, client_info=about) as client:
        yield client


@asynccontextmanager
async def _streams(
    face: Face, directory: Path | None, begun: set[str] | None
) -> AsyncIterator[TransportStreams]:
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(face.attend, from_client, to_client, directory=directory, begun=begun))
        try:
            yield from_server, to_server
        finally:
            to_server.close()
            from_server.close()
            tasks.cancel_scope.cancel()
