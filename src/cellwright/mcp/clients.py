"""Who is calling: what one client has worked with, what it follows, and how to reach it.

There is no notebook that clients share as "current": each has its own sessions here, and they are forgotten with
the connection. A client that keeps no connection (stateless HTTP) has none, and must name its sessions.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, get_args

from mcp import MCPDeprecationWarning
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.types import LoggingLevel
from starlette.requests import Request

from cellwright.engine.records import Handback

__all__ = ["NO_GRANTS", "Client", "ClientGrants", "Clients", "RequestContext"]

RequestContext: TypeAlias = ServerRequestContext["Clients", Request]

_SESSION_HEADER = "mcp-session-id"
_MOST_HTTP_CLIENTS = 1_000
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)


@dataclass(frozen=True, slots=True)
class ClientGrants:
    """What the person at the other end gave the connection. No call can: an agent's word is not enough for it.

    It lives in memory, with the connection, and is told to nobody.
    """

    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """Keys and addresses of models; None where nothing was said of them."""

    files: frozenset[Path] = field(default=frozenset(), repr=False)
    """Files that may be read, wherever they lie."""

    servers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """MCP servers: a name, and a command or an address."""

    models: frozenset[str] = field(default=frozenset(), repr=False)
    """Models by their addresses or files: data and a key would go there."""

    applied: frozenset[str] = field(default=frozenset(), repr=False)
    """Paths of a project that may be overwritten though tools run by themselves what lies there."""


NO_GRANTS = ClientGrants()


@dataclass(eq=False, slots=True)
class Client:
    """One client of the MCP server."""

    directory: Path | None = None
    """Where it works: its paths begin there, and its notebooks go there. None: the engine's root directory."""

    grants: ClientGrants = field(default=NO_GRANTS, repr=False)

    begun: set[str] | None = None
    """Ids of the executions and runs of plans that its calls began, where somebody wants to know."""

    sessions: dict[str, None] = field(default_factory=dict)
    """Ids of the sessions it has worked with, the latest last."""

    generations: dict[str, int] = field(default_factory=dict)
    """The generation of each session's kernel that it was last told."""

    names: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names in each session that it knows of."""

    plans: dict[str, frozenset[str]] = field(default_factory=dict)
    """The attempts of each session's plan that it was told of."""

    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What it was told of each session's last check of types."""

    handbacks: dict[str, int] = field(default_factory=dict)
    """The number of the handback of each session that it was told of, or that was before it came."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Session ids by the names it gave them, in dialects where a client names notebooks."""

    followed: dict[str, ServerSession] = field(default_factory=dict)
    """Resources it subscribed to by the handshake-era call, and where to tell it."""

    reach: ServerSession | None = None
    """How to reach it outside of a call, for a client of the handshake era that has asked for anything."""

    log_level: LoggingLevel | None = None
    """The weight from which it wants log messages; it gets none before it says so."""

    def began(self, *ids: str) -> None:
        if self.begun is not None:
            self.begun.update(ids)

    def news_of(self, session_id: str, handback: Handback | None) -> Handback | None:
        """That a session it worked on was given back, where it was not told so yet; from now on it was."""
        if handback is None or self.handbacks.get(session_id) == handback.seq:
            return None
        self.handbacks[session_id] = handback.seq
        return handback if session_id in self.sessions else None

    def worked_with(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)
        self.sessions[session_id] = None

    def forget(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)
        self.generations.pop(session_id, None)
        self.names.pop(session_id, None)
        self.plans.pop(session_id, None)
        self.handbacks.pop(session_id, None)

    async def log(self, level: LoggingLevel, data: Any) -> None:
        """Send a log message, if the client asked for messages of this weight."""
        if self.reach is None or self.log_level is None:
            return
        if _LEVELS.index(level) >= _LEVELS.index(self.log_level):
            with warnings.catch_warnings():
                # Deprecated by the newest protocol, and still what earlier clients ask for. Awaited outside: the
                # filters are everybody's.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                sending = self.reach.send_log_message(level, data, logger="cellwright")
            await sending


class Clients:
    """The clients of one transport: a connection has one, HTTP has one per protocol session."""

    def __init__(self, directory: Path | None = None, grants: ClientGrants = NO_GRANTS) -> None:
        self._own = Client(directory, grants)
        self._by_header: OrderedDict[str, Client] = OrderedDict()

    def __iter__(self) -> Iterator[Client]:
        return iter([self._own, *self._by_header.values()])

    def of(self, context: RequestContext) -> Client:
        """Whoever sent this request."""
        if context.request is None:
            return self._own
        key = context.request.headers.get(_SESSION_HEADER)
        if key is None:
            return Client()  # stateless: nothing of it is known afterwards
        client = self._by_header.setdefault(key, Client())
        self._by_header.move_to_end(key)
        if len(self._by_header) > _MOST_HTTP_CLIENTS:
            self._by_header.popitem(last=False)
        return client
