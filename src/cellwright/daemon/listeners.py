"""TCP listeners: Streamable HTTP at ``/mcp``, the event feed at ``/events`` and the page at ``/``, behind the guard.

None has no token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import anyio
import anyio.abc
import h11
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cellwright.engine import Engine
from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from cellwright.audit import AuditLog
    from cellwright.mcp import McpServer

__all__ = ["CannotListen", "Gate", "Guard", "Listener", "ListenerRequest", "refusal"]

_GRACE_S = 1

_END_S = 3.0

_WAITING_CONNECTIONS = 1_024

_TAKEN_AT_ONCE = 128

_MOST_PORTS = 65_535

_LONGEST_MESSAGE = 64 * 1024


class CannotListen(CellwrightError):
    """A listener cannot be had as asked."""

    code = "cannot_listen"


@dataclass(frozen=True, slots=True)
class ListenerRequest:
    """What somebody who serves asks for."""

    host: str
    port: int
    token: str = field(repr=False)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    dialect: str | None = None
    toolset: str | None = None

    @classmethod
    def from_hello(cls, hello: dict[str, object]) -> Self:
        """Read a request from what a client sent.

        Raises:
            CannotListen: something in it is missing or of the wrong kind.
        """
        host, port, token = (hello.get(name) for name in ("host", "port", "token"))
        if not isinstance(host, str) or not isinstance(port, int) or not 0 <= port <= _MOST_PORTS:
            raise CannotListen(f"{host}:{port} is not an address to listen on", hint="Give --host and --port")
        if not isinstance(token, str) or not token:
            raise CannotListen(
                "A TCP listener needs a token", hint="Leave the token out: one is made and kept"
            )
        lists = [hello.get(name) or [] for name in ("hosts", "origins")]
        hosts, origins = (tuple(str(one) for one in many) for many in lists if isinstance(many, list))
        dialect, toolset = (
            said if isinstance(said := hello.get(name), str) else None for name in ("dialect", "toolset")
        )
        return cls(host, port, token, hosts, origins, dialect, toolset)


class Listener:
    """One open port."""

    def __init__(
        self,
        bound: socket.socket,
        app: ASGIApp,
        *,
        longest_message: int = _LONGEST_MESSAGE,
        lasting: bool = True,
        header_s: float | None = None,
    ) -> None:
        """One that is not ``lasting`` is needed only while somebody is connected."""
        import uvicorn  # only for who serves

        class Server(uvicorn.Server):
            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                """The daemon has handlers of its own."""
                yield

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                """Let more wait than asyncio takes in one go, before any of them can be sent away."""
                await super().startup(sockets)
                bound.listen(_WAITING_CONNECTIONS)

        self._bound = bound
        self._lasting = lasting
        host, port = bound.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            # uvicorn only calls it
            http=partial(HttpConnection, header_s=header_s or HEADER_S),  # type: ignore[arg-type]
            ws="websockets-sansio",
            ws_max_size=longest_message,
            backlog=_TAKEN_AT_ONCE,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = Server(config)

    @property
    def port(self) -> int:
        return int(self._bound.getsockname()[1])

    @property
    def needed(self) -> bool:
        """Whether the daemon must go on for it."""
        # Other kinds of connection come of a request that was let in.
        return self._lasting or any(
            getattr(one, "known", True) for one in self._server.server_state.connections
        )

    @classmethod
    def open(
        cls,
        request: ListenerRequest,
        engine: Engine,
        mcp_server: McpServer,
        people: ASGIApp,
        *,
        lasting: bool = True,
    ) -> Self:
        """Bind the port; ``run`` serves it.

        Raises:
            CannotListen: the address is taken, unknown or not allowed.
        """

        hosts = request.hosts if _is_address(request.host) else (*request.hosts, request.host)
        app = Guard(
            _application(engine, mcp_server),
            token=request.token,
            hosts=hosts,
            origins=request.origins,
            people=people,
            audit=engine.audit,
        )
        return cls(_bind(request.host, request.port), app, lasting=lasting)

    @classmethod
    def on_loopback(cls, port: int, app: ASGIApp, *, longest_message: int) -> Self:
        """Bind a port that only this machine reaches, for an application that has its guard.

        Raises:
            CannotListen: the port is taken.
        """
        return cls(_bind("127.0.0.1", port), app, longest_message=longest_message)

    async def run(self) -> None:
        """Serve until cancelled; whoever is connected then has a moment."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve)
            try:
                await anyio.sleep_forever()
            finally:
                self._server.should_exit = True
                self._serving.deadline = anyio.current_time() + _END_S

    async def _serve(self) -> None:
        with anyio.CancelScope(shield=True) as self._serving:
            await self._server.serve([self._bound])
        self._bound.close()


def _application(engine: Engine, mcp_server: McpServer) -> Starlette:
    from starlette.applications import Starlette  # only for who serves
    from starlette.routing import Route, WebSocketRoute  # as above

    from cellwright.daemon.event_feed import EventFeed  # as above

    http = mcp_server.http_app()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with http.router.lifespan_context(http):
            yield

    feed = EventFeed(engine)
    routes = [Route("/events", feed, methods=["GET"]), WebSocketRoute("/events", feed), *http.routes]
    return Starlette(routes=routes, lifespan=lifespan)


def _bind(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_WAITING_CONNECTIONS)
    except OSError as error:
        raise CannotListen(
            f"Cannot listen on {host}:{port}: {error.strerror or error}",
            hint="Choose another --host or --port",
        ) from error


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# One HTTP connection of a listener. Strangers have few between them, and none takes long over a header.

HEADER_S = 10.0

# Leaves most of the 1,024 files that a process may have open at least to everything else.
_MOST_STRANGERS = 256


class HttpConnection(H11Protocol):
    """A connection that gives way: the oldest of a stranger when there are too many of them."""

    def __init__(self, *arguments: Any, header_s: float = HEADER_S, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_s = header_s
        self._header_timer: asyncio.TimerHandle | None = None
        self.made_at = 0.0
        self.dropped = False

    @property
    def known(self) -> bool:
        """Whether the request that it made last was let in."""
        scope: Mapping[str, Any] | None = self.scope  # None before the first request, whatever its type says
        state = scope["state"] if scope is not None else {}
        return "person" in state or "machine" in state

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self._expect_header()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Until a whole header is there the other side is at its beginning, for h11.
        if self.conn.their_state is not h11.IDLE:
            self._forget_header()
        elif self._header_timer is None:
            self._expect_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_header()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        others = (one for one in self.connections if isinstance(one, HttpConnection))
        strangers = [one for one in others if not one.known and not one.dropped]
        if len(strangers) > _MOST_STRANGERS:
            min(strangers, key=lambda one: one.made_at).drop()

    def drop(self) -> None:
        """End it at once."""
        self.dropped = True
        # A friendly end would wait for whoever reads nothing.
        self.transport.abort()

    def _expect_header(self) -> None:
        self._header_timer = self.loop.call_later(self._header_s, self.drop)

    def _forget_header(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


# Who may speak to a TCP listener: the right name, the right page, the right token, checked in this order.

MACHINES = ("/mcp", "/events")

_WRONG_TOKEN = 401

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """What is let in, and the one token."""

    token: str
    hosts: frozenset[str]
    origins: frozenset[str]


class Guard:
    """An ASGI application in front of another, or of two: one for machines, and one for people, who sign in there."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: tuple[str, ...] = (),
        origins: tuple[str, ...] = (),
        people: ASGIApp | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """Only what ``app`` serves at ``MACHINES`` is behind the token where there is something for ``people``."""
        if not token:
            raise ValueError("a listener needs a token")
        self._app = app
        self._people = people
        self._audit = audit
        self._gate = Gate(
            token,
            frozenset(host.lower() for host in hosts),
            frozenset(origin.lower().rstrip("/") for origin in origins),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        server, headers = scope.get("server") or ("", 0), Headers(scope=scope)
        if self._people is not None and not scope["path"].startswith(MACHINES):
            app, found = self._people, misdirection(headers, server, self._gate)
        else:
            app, found = self._app, refusal(headers, server, self._gate)
            if found is None:
                scope.setdefault("state", {})["machine"] = True  # whom the listener knows
        if found is not None and found.status == _WRONG_TOKEN and self._audit is not None:
            client = scope.get("client") or ("", 0)
            self._audit.note_stranger("sign_in", refused="no token, or a wrong one", address=client[0])
        with suppress(ClientDisconnect):  # who hangs up while sending a body wants no answer
            await (app(scope, receive, send) if found is None else _refuse(scope, send, found))


def refusal(headers: Headers, server: tuple[str, int | None], gate: Gate) -> Refusal | None:
    """Why a machine's request is not let in, or none if it is. ``server`` is the address it came in on."""
    if (found := misdirection(headers, server, gate)) is not None:
        return found
    scheme, _, given = headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode(), gate.token.encode())
    if scheme.lower() != "bearer" or not right:
        challenge = ((b"www-authenticate", b'Bearer realm="cellwright"'),)
        return Refusal(_WRONG_TOKEN, "A bearer token is needed: Authorization: Bearer …", challenge)
    return None


def misdirection(headers: Headers, server: tuple[str, int | None], gate: Gate) -> Refusal | None:
    """Why a request is not for this server, or comes from a page that may not ask it."""
    hosts = headers.getlist("host")
    name = _host_name(hosts[0]) if len(hosts) == 1 else None
    if name is None or not _is_own(name, server[0], gate):
        return Refusal(421, "This server is not addressed by that Host; see the setting allowed_hosts")
    origin = headers.get("origin")
    if origin is not None and not _may_come_from(origin.lower(), hosts[0].lower(), gate):
        return Refusal(403, "This Origin may not use the server; see the setting allowed_origins")
    return None


def _host_name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # reading it checks it
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and parts.username is None else None


def _is_own(name: str, address: str, gate: Gate) -> bool:
    """An address cannot be rebound, so the one that the request came in on is always right; names must be known."""
    if name in gate.hosts or name == address.lower():
        return True
    return name in _LOOPBACK and address in _LOOPBACK


def _may_come_from(origin: str, host: str, gate: Gate) -> bool:
    return origin in gate.origins or origin in (f"http://{host}", f"https://{host}")


async def _refuse(scope: Scope, send: Send, found: Refusal) -> None:
    body = json.dumps({"error": found.message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        *found.headers,
    ]
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
    start: Message = {"type": f"{kind}.start", "status": found.status, "headers": headers}
    await send(start)
    await send({"type": f"{kind}.body", "body": body})
