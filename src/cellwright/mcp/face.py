"""The face itself: one server object over one engine, for any number of clients.

Built once by the daemon, which brings the connections: a byte stream for each local client, or an ASGI application
behind its own guard. Closing a connection ends its calls; executions belong to the engine and go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
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
from cellwright.mcp.clients import NOTHING_BROUGHT, Brought, Client, Clients
from cellwright.mcp.delegates import Delegate
from cellwright.mcp.knowledge import Knowledge
from cellwright.mcp.notifying import Notifier
from cellwright.mcp.pace import Pace
from cellwright.mcp.server import DIALECTS, build_server
from cellwright.mcp.wire import Incoming, Outgoing, message_streams
from cellwright.plans import Planner
from cellwright.tools.web.fetch import Fetcher
from cellwright.verification import Verifier

__all__ = ["DIALECTS", "Face"]

_MAX_BODY_BYTES = 32 * 1024 * 1024


class Face:
    """MCP over an engine. Faces of one engine share its planner, its verifier and its fetcher, which know what is going on."""

    def __init__(
        self,
        engine: Engine,
        *,
        planner: Planner | None = None,
        verifier: Verifier | None = None,
        fetcher: Fetcher | None = None,
        delegate: Delegate | None = None,
        dialect: str | None = None,
        toolset: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._transports: set[Clients] = set()
        language = "typescript" if dialect == "srcbook" else engine.settings.default_language
        self._shared = Shared(
            engine,
            planner or Planner(engine),
            verifier or Verifier(engine),
            fetcher or Fetcher(engine.settings),
            Knowledge(engine),
            pace or Pace(),
            language,
            data_changed=self._data_changed,
            delegate=delegate,
        )
        self._notifier: Notifier | None = None
        self._bus = InMemorySubscriptionBus()
        self.server: MCPServer[Clients] = build_server(
            self._shared, self._bus, self._transport, dialect=dialect, toolset=toolset
        )

    @asynccontextmanager
    async def _transport(
        self,
        _: MCPServer[Clients],
        directory: Path | None = None,
        brought: Brought = NOTHING_BROUGHT,
        begun: set[str] | None = None,
    ) -> AsyncIterator[Clients]:
        clients = Clients(directory, brought, begun)
        self._transports.add(clients)
        try:
            yield clients
        finally:
            self._transports.discard(clients)

    async def serve(
        self,
        read: ByteReceiveStream,
        write: ByteSendStream,
        *,
        directory: Path | None = None,
        brought: Brought = NOTHING_BROUGHT,
    ) -> None:
        """Serve one client over newline-delimited JSON-RPC until it goes away. Its calls end; executions go on.

        ``directory`` is where the client works, ``brought`` what its person gave along.
        """
        async with message_streams(read, write) as (incoming, outgoing):
            await self.attend(incoming, outgoing, directory=directory, brought=brought)

    async def attend(
        self,
        incoming: Incoming,
        outgoing: Outgoing,
        *,
        directory: Path | None = None,
        brought: Brought = NOTHING_BROUGHT,
        begun: set[str] | None = None,
    ) -> None:
        """The same over streams of messages. ``begun`` is given the ids of what the client's calls began."""
        lowlevel = self.server._lowlevel_server  # noqa: SLF001  # the SDK has no public name for it yet
        options = lowlevel.create_initialization_options(NotificationOptions(resources_changed=True))
        async with self._transport(self.server, directory, brought, begun) as clients:
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
        self._notifier = Notifier(shared.engine, shared.knowledge, self._bus, self._clients, shared.pace)
        await self._notifier.run(task_status=task_status)

    @property
    def engine(self) -> Engine:
        return self._shared.engine

    @property
    def knowledge(self) -> Knowledge:
        """What is known of sessions; told of what happens while the face runs."""
        return self._shared.knowledge

    @property
    def planner(self) -> Planner:
        return self._shared.planner

    def _data_changed(self, paths: Sequence[str]) -> None:
        if self._notifier is not None:
            self._notifier.data_changed(paths)

    def _clients(self) -> list[Client]:
        return [client for transport in self._transports for client in transport]
