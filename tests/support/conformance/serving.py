"""Serves a Starlette application over HTTP on a free port of loopback, within the test's own event loop."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.types import JSONRPCMessage
from starlette.applications import Starlette

STOP_LIMIT_S = 5


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """The address of the application, up for as long as the block lasts."""
    config = uvicorn.Config(app, log_level="warning", ws="none", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    # It listens before it is served, so that whoever connects early waits instead of being refused.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                tasks.cancel_scope.deadline = anyio.current_time() + STOP_LIMIT_S


class MemoryEventStore(EventStore):
    """Keeps every event, so that a client that lost its stream can take it up again."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        last = int(last_event_id)
        if not 0 < last <= len(self._events):
            return None
        wanted, _ = self._events[last - 1]
        for number, (stream_id, message) in enumerate(self._events[last:], start=last + 1):
            if stream_id == wanted and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return wanted
