"""The face itself: one server object over one engine, for any number of clients.

Built once by the daemon, which brings the connections: a byte stream for each local client, or an ASGI application
behind its own guard. Closing a connection ends its calls; executions belong to the engine and go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import MCPServer
from mcp.server.runner import serve_dual_era_loop
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from cellwright.engine import Engine
from cellwright.mcp.calls import Shared
from cellwright.mcp.clients import Client, Clients
from cellwright.mcp.knowledge import Knowledge
from cellwright.mcp.notifying import Notifier
from cellwright.mcp.pace import Pace
from cellwright.mcp.server import DIALECTS, build_server
from cellwright.mcp.wire import message_streams
from cellwright.plans import Planner
from cellwright.verification import Verifier

__all__ = ["DIALECTS", "Face"]

_MAX_BODY_BYTES = 32 * 1024 * 1024


class Face:
    """MCP over an engine. Faces of one engine share its planner and its verifier, which know what is going on."""

    def __init__(
        self,
        engine: Engine,
        *,
        planner: Planner | None = None,
        verifier: Verifier | None = None,
        dialect: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._transports: set[Clients] = set()
        language = "typescript" if dialect == "srcbook" else engine.settings.default_language
        self._shared = Shared(
            engine,
            planner or Planner(engine),
            verifier or Verifier(engine),
            Knowledge(engine),
            pace or Pace(),
            language,
        )
        self._bus = InMemorySubscriptionBus()
        self.server: MCPServer[Clients] = build_server(
            self._shared, self._bus, self._transport, dialect=dialect
        )

    @asynccontextmanager
    async def _transport(
        self, _: MCPServer[Clients], directory: Path | None = None
    ) -> AsyncIterator[Clients]:
        clients = Clients(directory)
        self._transports.add(clients)
        try:
            yield clients
        finally:
            self._transports.discard(clients)

    async def serve(
        self, read: ByteReceiveStream, write: ByteSendStream, *, directory: Path | None = None
    ) -> None:
        """Serve one client over newline-delimited JSON-RPC until it goes away. Its calls end; executions go on.

        ``directory`` is where the client works.
        """
        lowlevel = self.server._lowlevel_server  # noqa: SLF001  # the SDK has no public name for it yet
        options = lowlevel.create_initialization_options(NotificationOptions(resources_changed=True))
        async with (
            self._transport(self.server, directory) as clients,
            message_streams(read, write) as (incoming, outgoing),
        ):
            await serve_dual_era_loop(
                lowlevel, incoming, outgoing, lifespan_state=clients, init_options=options
            )

    def http_app(self) -> Starlette:
        """Streamable HTTP at ``/mcp``. Whoever mounts it checks token, Host and Origin, and runs its lifespan."""
        return self.server.streamable_http_app(
            max_request_body_size=_MAX_BODY_BYTES,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Tell clients what happens in the engine, until cancelled."""
        shared = self._shared
        notifier = Notifier(shared.engine, shared.knowledge, self._bus, self._clients, shared.pace)
        await notifier.run(task_status=task_status)

    def _clients(self) -> list[Client]:
        return [client for transport in self._transports for client in transport]
