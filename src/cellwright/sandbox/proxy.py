"""A kernel's way to the network: its proxy (``proxy``) on a socket in its own directory, while the kernel lives."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from cellwright.sandbox.http_heads import BadHead, RequestHead, parse_request
from cellwright.sandbox.network_log import NetworkEntry, NetworkLog
from cellwright.sandbox.network_rules import Destination, NetworkMode, NetworkRules
from cellwright.sandbox.relay import (
    Cut,
    EgressLimits,
    Exchange,
    Resolver,
    Totals,
    Wire,
    accept,
    connected,
    listen_at,
    permitted,
    relay_request,
    relay_tunnel,
    system_resolver,
)

__all__ = [
    "EXECUTION_HEADER",
    "KERNEL_HEADER",
    "PROXY_PORT",
    "PROXY_SOCKET",
    "Egress",
    "EgressLimits",
    "Opening",
    "ProxySocket",
    "Resolver",
]
PROXY_SOCKET = "net"
"""The socket's name in a kernel's directory."""

PROXY_PORT = 3128
"""Where code finds its proxy, on a loopback that nobody else is on."""

KERNEL_HEADER, EXECUTION_HEADER = "x-cellwright-kernel", "x-cellwright-execution"
"""How a request for a connection tells the engine whose it is: set here, never by code."""

_CONNECTIONS = ".connections.cellwright"
"""The hosts that are no hosts, but connections that the operator named: the engine answers for them."""

_CONNECTION_S = 3_700.0
"""Longer than any connection's own limit, which the engine keeps."""

_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Opening:
    """How far the network is open, in the words of the settings."""

    mode: NetworkMode
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    limits: EgressLimits = field(default_factory=EgressLimits)

    def rules(self) -> NetworkRules:
        """What is allowed.

        Raises:
            NetworkRuleInvalid: an entry cannot be understood.
        """
        return NetworkRules.parse(self.mode, allow=self.allow, deny=self.deny)


class ProxySocket:
    """One kernel's proxy. It stands before the kernel does, so who runs and who listens is told later."""

    def __init__(self, opening: Opening, *, connections: str = "") -> None:
        """``connections`` is the engine's socket for them, where there are any."""
        self.execution: Callable[[], str | None] = _nobody
        """Tells which execution runs now."""
        self.kernel: Callable[[], str | None] = _nobody
        """Tells whose proxy it is."""
        self.told: Callable[[NetworkEntry], None] = _ignore
        """Gets each request when it is over; must not block."""
        self._egress = Egress(
            opening.rules(),
            limits=opening.limits,
            execution=self._running,
            told=self._tell,
            connections=ConnectionsSocket(connections, self._whose) if connections else None,
        )
        self._scope = anyio.CancelScope()
        self._closed = anyio.Event()

    # Looked up each time: who listens comes after the proxy socket.
    def _running(self) -> str | None:
        return self.execution()

    def _whose(self) -> str | None:
        return self.kernel()

    def _tell(self, entry: NetworkEntry) -> None:
        self.told(entry)

    async def serve(self, path: Path, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Answer on the socket until closed."""
        try:
            with self._scope:
                await self._egress.serve(path, task_status=task_status)
        finally:
            self._closed.set()

    async def close(self) -> None:
        """End every connection; when it returns each was told."""
        self._scope.cancel()
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await self._closed.wait()


def _nobody() -> None:
    return None


def _ignore(_: NetworkEntry) -> None:
    """What becomes of a request before anybody listens."""


# A session's one proxy socket to the network: an HTTP proxy on a unix socket that only this session is shown.

_MAX_HEAD = 32 * 1024

_SPARE_CONNECTIONS = 8
"""Connections beyond the limit that are taken only to be told so."""

_RETRY_S = 0.1

_LINGER_S = 5.0

_LINGER_BYTES = 1024**2

_MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class ConnectionsSocket:
    """The engine's socket for connections, and whose requests these are."""

    path: str
    kernel: Callable[[], str | None]

    def addressed(self, request: RequestHead, execution: str | None) -> RequestHead:
        """The request with who makes it, whatever its own headers say."""
        told = {KERNEL_HEADER: self.kernel(), EXECUTION_HEADER: execution}
        own = [(name.encode(), value.encode()) for name, value in told.items() if value]
        kept = [header for header in request.headers if header[0].lower().decode() not in told]
        return replace(request, headers=(*kept, *own))

    async def connect(self) -> Wire:
        """The way to the engine.

        Raises:
            Cut: it does not run, or not on this machine.
        """
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            raw.setblocking(False)
            raw.connect(self.path)
        except OSError:
            raw.close()
            hint = "Connections work while the daemon runs, in kernels of its own machine"
            raise Cut.failed(503, "the engine that holds connections cannot be reached", hint) from None
        return Wire(raw)


class Egress:
    """The proxy of one session.

    ``execution`` tells which execution runs now; ``told`` gets each log entry as it is made, and must not block.
    """

    def __init__(
        self,
        rules: NetworkRules,
        *,
        limits: EgressLimits | None = None,
        resolve: Resolver = system_resolver,
        execution: Callable[[], str | None] = lambda: None,
        told: Callable[[NetworkEntry], None] = lambda _: None,
        log: NetworkLog | None = None,
        connections: ConnectionsSocket | None = None,
    ) -> None:
        self.rules = rules
        self._connections = connections
        self.log = log if log is not None else NetworkLog()
        self._limits = limits if limits is not None else EgressLimits()
        self._resolve = resolve
        self._execution = execution
        self._told = told
        self._open = 0
        self._totals = Totals()

    @property
    def open_connections(self) -> int:
        """How many connections there are now."""
        return self._open

    async def serve(
        self,
        path: Path,
        *,
        owner: tuple[int, int] | None = None,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer on a new unix socket (0600) until cancelled; then every connection ends and the socket goes.

        ``owner`` is the user and group of a session that has its own.
        """
        listener = listen_at(path, owner=owner)
        try:
            async with anyio.create_task_group() as tasks:
                task_status.started()
                await self._accept(listener, tasks)
        finally:
            listener.close()
            path.unlink(missing_ok=True)  # noqa: ASYNC240  # one name in a directory of ours

    async def _accept(self, listener: socket.socket, tasks: TaskGroup) -> None:
        """Take connections while there is room; whoever comes beyond waits in the kernel and costs us nothing."""
        capacity = anyio.Semaphore(self._limits.max_connections + _SPARE_CONNECTIONS)

        async def handle(client: Wire) -> None:
            try:
                async with client:
                    await self._handle(client)
            finally:
                capacity.release()

        while True:
            await capacity.acquire()
            try:
                client = await accept(listener)
            except OSError:
                # Out of descriptors, or the client is gone already: neither ends the session's proxy.
                capacity.release()
                await anyio.sleep(_RETRY_S)
                continue
            tasks.start_soon(handle, client)

    async def _handle(self, client: Wire) -> None:
        self._open += 1
        exchange = Exchange(self._limits, self._totals, started=time.time(), execution=self._execution())
        try:
            with exchange.deadline():
                await self._converse(client, exchange)
            if (expired := exchange.expired) is not None:
                await _end(client, exchange, expired)
        except (OSError, anyio.EndOfStream) as error:
            exchange.fail(f"the connection broke: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001  # boundary: one connection must not end the session's others
            exchange.fail(f"the proxy failed: {error!r}")
        finally:
            self._open -= 1
            if exchange.is_noted:
                self._note(exchange)

    def _note(self, exchange: Exchange) -> None:
        entry = exchange.entry(self.log.next_number(), time.time())
        self.log.add(entry)
        self._told(entry)

    async def _converse(self, client: Wire, exchange: Exchange) -> None:
        buffered = BufferedByteReceiveStream(client)
        try:
            request = await self._read_head(buffered)
            exchange.asked(request)
            if self._connections is not None and request.destination.host.endswith(_CONNECTIONS):
                await self._ask_engine(self._connections, client, buffered, request, exchange)
                return
            async with self._connected(request.destination, exchange) as origin:
                if request.is_tunnel:
                    await relay_tunnel(client, buffered, origin, exchange)
                else:
                    await relay_request(client, buffered, origin, request, exchange)
            await _linger(client)
        except Cut as cut:
            await _end(client, exchange, cut)
        except BadHead as error:
            hint = "Send plain HTTP/1.1, one request a connection"
            await _end(client, exchange, Cut(400, str(error), setting=None, hint=hint, verdict="malformed"))

    async def _ask_engine(
        self,
        connections: ConnectionsSocket,
        client: Wire,
        buffered: BufferedByteReceiveStream,
        request: RequestHead,
        exchange: Exchange,
    ) -> None:
        """Have the engine answer a request for a connection: it knows what may be asked, and keeps its limits."""
        if request.is_tunnel:
            raise BadHead("a connection is asked by plain HTTP, not through a tunnel")
        exchange.allowed()
        exchange.answered_by_engine(_CONNECTION_S)
        async with await connections.connect() as engine:
            told = connections.addressed(request, exchange.execution)
            await relay_request(client, buffered, engine, told, exchange)
        await _linger(client)

    async def _read_head(self, buffered: BufferedByteReceiveStream) -> RequestHead:
        if self._open > self._limits.max_connections:
            raise Cut(
                503,
                f"more than {self._limits.max_connections} connections at once",
                setting="network_max_connections",
                hint="Close some, or open fewer at once",
            )
        try:
            with anyio.fail_after(self._limits.head_timeout_s):
                head = await buffered.receive_until(b"\r\n\r\n", _MAX_HEAD)
        except anyio.DelimiterNotFound:
            raise BadHead(f"the head is longer than {_MAX_HEAD} bytes") from None
        except anyio.IncompleteRead:
            raise BadHead("the head is cut short") from None
        except TimeoutError:
            raise BadHead(f"the head took longer than {self._limits.head_timeout_s:g} s") from None
        return parse_request(head)

    @asynccontextmanager
    async def _connected(self, destination: Destination, exchange: Exchange) -> AsyncIterator[Wire]:
        """The origin, reached at an address that the rules were asked about."""
        addresses = await permitted(destination, self.rules, self._limits, self._resolve)
        exchange.allowed()
        origin = await connected(addresses, destination, self._limits)
        async with origin:
            exchange.address = origin.peer
            yield origin


async def _end(client: Wire, exchange: Exchange, cut: Cut) -> None:
    """Note why a request ends, and tell the client, unless it is in the middle of somebody else's answer.

    The reason stands in the status line too: of a refused tunnel, most clients show nothing else.
    """
    exchange.cut(cut)
    if exchange.answered:
        return
    reason = " ".join(str(cut).encode("ascii", "replace").decode().split())[:_MAX_REASON]
    body = f"{cut}.\n{cut.hint}.\n".encode()
    head = f"HTTP/1.1 {cut.status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with anyio.move_on_after(_LINGER_S):
        await client.send(head.encode() + body)
    await _linger(client)


async def _linger(client: Wire) -> None:
    """Take what the client still sends, for a moment: closing on unread bytes would destroy the answer to it."""
    taken = 0
    with anyio.move_on_after(_LINGER_S), suppress(OSError, anyio.EndOfStream):
        await client.send_eof()
        while taken < _LINGER_BYTES:
            taken += len(await client.receive())
