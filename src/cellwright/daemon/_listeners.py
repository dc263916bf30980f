"""TCP listeners: Streamable HTTP at ``/mcp``, the event feed at ``/events`` and the page at ``/``, behind the guard.

None has no token.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

import anyio
import anyio.abc
import msgspec

from cellwright.engine import Engine
from cellwright.errors import CellwrightError
from cellwright.oauth.options import SignInOptions

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from cellwright.mcp import McpServer
    from cellwright.oauth.token_gate import TokenGate

__all__ = ["CannotListen", "Listener", "ListenerRequest", "bind", "url_of"]

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
    sign_in: SignInOptions | None = None

    @classmethod
    def from_handshake(cls, handshake: dict[str, object]) -> Self:
        """Read a request from what a client sent.

        Raises:
            CannotListen: something in it is missing or of the wrong kind.
        """
        host, port, token = (handshake.get(name) for name in ("host", "port", "token"))
        if not isinstance(host, str) or not isinstance(port, int) or not 0 <= port <= _MOST_PORTS:
            raise CannotListen(f"{host}:{port} is not an address to listen on", hint="Give --host and --port")
        if not isinstance(token, str) or not token:
            raise CannotListen(
                "A TCP listener needs a token", hint="Leave the token out: one is made and kept"
            )
        lists = [handshake.get(name) or [] for name in ("hosts", "origins")]
        hosts, origins = (tuple(str(one) for one in many) for many in lists if isinstance(many, list))
        dialect, toolset = (
            said if isinstance(said := handshake.get(name), str) else None for name in ("dialect", "toolset")
        )
        sign_in = msgspec.convert(handshake.get("sign_in"), SignInOptions | None)
        return cls(host, port, token, hosts, origins, dialect, toolset, sign_in)


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

        from cellwright.daemon._http_connections import HEADER_S, HttpConnection  # as above

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
        self.url = url_of(bound)
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
    def on(
        cls,
        bound: socket.socket,
        request: ListenerRequest,
        engine: Engine,
        mcp_server: McpServer,
        people: ASGIApp,
        *,
        tokens: TokenGate | None = None,
        lasting: bool = True,
    ) -> Self:
        """A listener on a port that is bound; ``run`` serves it. ``tokens`` is how clients sign in there, if they may."""
        from cellwright.daemon._guard import Guard  # only for who serves

        signed_in_at = request.sign_in.host if request.sign_in is not None else None
        named = None if _is_address(request.host) else request.host
        app = Guard(
            _application(engine, mcp_server),
            token=request.token,
            hosts=(*request.hosts, *filter(None, (named, signed_in_at))),
            origins=request.origins,
            people=people,
            audit=engine.audit,
            tokens=tokens,
        )
        return cls(bound, app, lasting=lasting)

    @classmethod
    def on_loopback(cls, port: int, app: ASGIApp, *, longest_message: int) -> Self:
        """Bind a port that only this machine reaches, for an application that has its guard.

        Raises:
            CannotListen: the port is taken.
        """
        return cls(bind("127.0.0.1", port), app, longest_message=longest_message)

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


def _application(engine: Engine, mcp_server: McpServer) -> ASGIApp:
    from starlette.applications import Starlette  # only for who serves
    from starlette.routing import Route, WebSocketRoute  # as above

    from cellwright.daemon._event_feed import EventFeed  # as above

    http = mcp_server.http_app()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with http.router.lifespan_context(http):
            yield

    feed = EventFeed(engine)
    routes = [Route("/events", feed, methods=["GET"]), WebSocketRoute("/events", feed), *http.routes]
    return mcp_server.scoped(Starlette(routes=routes, lifespan=lifespan))


def bind(host: str, port: int) -> socket.socket:
    """A port of this machine.

    Raises:
        CannotListen: the address is taken, unknown or not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_WAITING_CONNECTIONS)
    except OSError as error:
        raise CannotListen(
            f"Cannot listen on {host}:{port}: {error.strerror or error}",
            hint="Choose another --host or --port",
        ) from error


def url_of(bound: socket.socket) -> str:
    """The address of a port that is bound."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
