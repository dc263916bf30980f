"""Carries one request through the proxy, counts it, and stops it at its limits. Judges no destination (see proxy)."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from cellwright.sandbox.http_heads import BadHead, RequestHead, ResponseHead, parse_response, read_chunk_size
from cellwright.sandbox.network_log import NetworkEntry, Verdict
from cellwright.sandbox.network_rules import Address, Destination, NetworkRules, Refusal, parse_address

__all__ = [
    "Cut",
    "EgressLimits",
    "Exchange",
    "Resolver",
    "Totals",
    "Wire",
    "accept",
    "connected",
    "listen_at",
    "permitted",
    "relay_request",
    "relay_tunnel",
    "system_resolver",
]
_PIECE = 64 * 1024

_ENGINE_BYTES = 2 * 1024**3

_MAX_RESPONSE_HEAD = 64 * 1024

_MAX_CHUNK_LINE = 1024

_MAX_INTERIM = 10

_MAX_TRAILERS = 100

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Where a session's use of the network stops."""

    max_connections: int = 64
    """Connections at once; further ones are refused, not queued."""
    max_download_bytes: int = 50 * 1024**2
    """What one request may bring in."""
    max_upload_bytes: int = 50 * 1024**2
    """What one request may send out."""
    max_total_bytes: int = 1024**3
    """What the session may bring in and send out altogether."""
    head_timeout_s: float = 10
    connect_timeout_s: float = 10
    idle_timeout_s: float = 60
    """How long a connection may carry nothing."""
    max_seconds: float = 600
    """How long one request may take."""
    max_addresses: int = 4
    """Addresses of one name that are tried."""


@dataclass(slots=True)
class Totals:
    """What a session has moved so far."""

    carried: int = 0


class Cut(Exception):
    """Ends a request before it is done, and says why. Never leaves the proxy."""

    def __init__(
        self, status: int, reason: str, *, setting: str | None, hint: str, verdict: Verdict = "cut"
    ) -> None:
        super().__init__(
            f"cellwright stopped this request: {reason}" + (f" (setting {setting})" if setting else "")
        )
        self.status = status
        self.reason = reason
        self.setting = setting
        self.hint = hint
        self.verdict = verdict

    @classmethod
    def refused(cls, refusal: Refusal) -> Self:
        return cls(403, refusal.reason, setting=refusal.setting, hint=refusal.hint, verdict="refused")

    @classmethod
    def failed(cls, status: int, reason: str, hint: str) -> Self:
        return cls(status, reason, setting=None, hint=hint, verdict="failed")


class Exchange:
    """One request as it goes: what is known of it, what it carried, and when it must be over."""

    def __init__(
        self, limits: EgressLimits, totals: Totals, *, started: float, execution: str | None
    ) -> None:
        self.address: str | None = None
        self.is_noted = True
        """Whether it is told of here; what the engine answers the engine writes down."""
        self.answered = False
        """Whether the client has had the first byte of an answer that is not ours."""
        self._limits = limits
        self._totals = totals
        self._started = started
        self._execution = execution
        self._request: RequestHead | None = None
        self._up = self._down = 0
        self._verdict: Verdict = "malformed"
        self._reason = "no request came"
        self._setting: str | None = None
        self._scope = anyio.CancelScope()
        self._end = 0.0

    @contextmanager
    def deadline(self) -> Iterator[None]:
        """Ends what runs inside once nothing moved for too long, or it took too long altogether."""
        self._end = anyio.current_time() + self._limits.max_seconds
        self._moved()
        with self._scope:
            yield

    def asked(self, request: RequestHead) -> None:
        self._request = request

    @property
    def execution(self) -> str | None:
        """The execution that ran when the request came."""
        return self._execution

    def answered_by_engine(self, seconds: float) -> None:
        """Leave time and size to the engine, which has limits for this: no other host is asked, and none is sent to."""
        self._limits = replace(
            self._limits,
            idle_timeout_s=seconds,
            max_seconds=seconds,
            max_download_bytes=_ENGINE_BYTES,
            max_upload_bytes=_ENGINE_BYTES,
            max_total_bytes=sys.maxsize,
        )
        self._end = anyio.current_time() + seconds
        self._moved()
        self.is_noted = False

    def allowed(self) -> None:
        self._verdict, self._reason = "allowed", ""

    def cut(self, cut: Cut) -> None:
        self._verdict, self._reason, self._setting = cut.verdict, cut.reason, cut.setting

    def malformed(self, reason: str) -> None:
        self._verdict, self._reason = "malformed", reason

    def fail(self, reason: str) -> None:
        """The connection broke; that says nothing new of a request that was refused, or was nearly done."""
        if self._verdict == "allowed" and not self.answered:
            self._verdict, self._reason = "failed", reason

    @property
    def expired(self) -> Cut | None:
        """That time ran out, where it did."""
        if not self._scope.cancelled_caught:
            return None
        if anyio.current_time() >= self._end:
            reason, setting = f"it took longer than {self._limits.max_seconds:g} s", "network_max_s"
        else:
            reason, setting = f"nothing moved for {self._limits.idle_timeout_s:g} s", "network_idle_s"
        return Cut(504, reason, setting=setting, hint="Try again, or use another source")

    def carry_up(self, count: int) -> None:
        """Count bytes on their way out, before they go.

        Raises:
            Cut: they may not.
        """
        self._up += count
        self._count(count)
        if self._up > self._limits.max_upload_bytes:
            raise self._too_much("sent", self._limits.max_upload_bytes, "max_upload_bytes", status=413)

    def carry_down(self, count: int) -> None:
        """Count bytes on their way in, before they are handed over.

        Raises:
            Cut: they may not.
        """
        self._down += count
        self._count(count)
        self._check_download(self._down)

    def expect(self, head: ResponseHead) -> None:
        """Refuse an answer that announces too much, while whoever asked can still be told why.

        Raises:
            Cut: it is too long.
        """
        bodiless = self._request is not None and self._request.method == "HEAD"
        if head.status == HTTPStatus.OK and not bodiless:
            self._check_download(head.announced)

    def entry(self, number: int, now: float) -> NetworkEntry:
        """What the log keeps of it."""
        request = self._request
        return NetworkEntry(
            number=number,
            time=self._started,
            seconds=max(0.0, now - self._started),
            method=request.method if request else "",
            host=request.destination.host if request else "",
            port=request.destination.port if request else 0,
            address=self.address,
            bytes_up=self._up,
            bytes_down=self._down,
            verdict=self._verdict,
            reason=self._reason,
            setting=self._setting,
            execution=self._execution,
        )

    def _check_download(self, count: int) -> None:
        limit = self._limits.max_download_bytes
        if count > limit:
            raise self._too_much("received", limit, "max_download_bytes", status=502)

    def _count(self, count: int) -> None:
        self._moved()
        self._totals.carried += count
        if self._totals.carried > self._limits.max_total_bytes:
            raise self._too_much(
                "moved in all", self._limits.max_total_bytes, "network_max_bytes", status=403
            )

    def _moved(self) -> None:
        self._scope.deadline = min(self._end, anyio.current_time() + self._limits.idle_timeout_s)

    def _too_much(self, what: str, limit: int, setting: str, *, status: int) -> Cut:
        return Cut(
            status,
            f"more than {limit:,} bytes {what}",
            setting=setting,
            hint=f"Move less, or have the operator raise `{setting}`",
        )


async def relay_tunnel(
    client: Wire, buffered: BufferedByteReceiveStream, origin: Wire, exchange: Exchange
) -> None:
    """Carry bytes both ways until the origin is done. A client that only stops sending still gets the rest."""
    await client.send(_ESTABLISHED)
    exchange.answered = True
    with _one_failure():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_pump_up, buffered, origin, exchange)
            await _pump_down(origin, client, exchange)
            tasks.cancel_scope.cancel()


async def relay_request(
    client: Wire,
    buffered: BufferedByteReceiveStream,
    origin: Wire,
    request: RequestHead,
    exchange: Exchange,
) -> None:
    """Send one request on, with its body, and bring back the answer, which may come before the body is through."""
    with _one_failure():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_send_request, buffered, origin, request, exchange)
            await _bring_answer(origin, client, exchange)
            tasks.cancel_scope.cancel()


async def _pump_up(source: BufferedByteReceiveStream, origin: Wire, exchange: Exchange) -> None:
    # An origin that stops listening may still be answering: what it says decides how this ends.
    with suppress(OSError):
        while data := await _piece(source):
            exchange.carry_up(len(data))
            await origin.send(data)
        await origin.send_eof()


async def _pump_down(origin: Wire | BufferedByteReceiveStream, client: Wire, exchange: Exchange) -> None:
    while data := await _piece(origin):
        exchange.carry_down(len(data))
        await client.send(data)


async def _send_request(
    source: BufferedByteReceiveStream, origin: Wire, request: RequestHead, exchange: Exchange
) -> None:
    head = request.forwarded()
    exchange.carry_up(len(head))
    # As in a tunnel: an origin that refuses an upload closes one half and answers on the other.
    with suppress(ConnectionError):
        await origin.send(head)
        if request.body == "chunked":
            await _send_chunks(source, origin, exchange)
            return
        async for data in _exactly(source, request.body):
            exchange.carry_up(len(data))
            await origin.send(data)


async def _send_chunks(source: BufferedByteReceiveStream, origin: Wire, exchange: Exchange) -> None:
    """Chunks are cut anew: the origin sees our framing, never the client's."""
    while size := read_chunk_size(await _line(source)):
        async for data in _exactly(source, size):
            framed = b"%x\r\n%b\r\n" % (len(data), data)
            exchange.carry_up(len(framed))
            await origin.send(framed)
        if await _line(source):
            raise BadHead("a chunk is longer than its size")
    for _ in range(_MAX_TRAILERS):
        if not await _line(source):
            await origin.send(b"0\r\n\r\n")
            return
    raise BadHead(f"there are more than {_MAX_TRAILERS} trailers")


async def _bring_answer(origin: Wire, client: Wire, exchange: Exchange) -> None:
    buffered = BufferedByteReceiveStream(origin)
    for _ in range(_MAX_INTERIM):
        try:
            head = parse_response(await buffered.receive_until(b"\r\n\r\n", _MAX_RESPONSE_HEAD))
        except (BadHead, anyio.DelimiterNotFound, anyio.IncompleteRead) as error:
            told = f"the host's answer is not HTTP: {error}"
            raise Cut.failed(502, told, "Check that it is a web server") from None
        exchange.expect(head)
        forwarded = head.forwarded()
        exchange.carry_down(len(forwarded))
        exchange.answered = True
        await client.send(forwarded)
        if not head.is_interim:
            await _pump_down(buffered, client, exchange)
            return
    raise Cut.failed(502, "the host gave no final answer", "Check that it is a web server")


async def _piece(source: Wire | BufferedByteReceiveStream) -> bytes:
    try:
        return await source.receive(_PIECE)
    except anyio.EndOfStream:
        return b""


async def _exactly(source: BufferedByteReceiveStream, size: int) -> AsyncIterator[bytes]:
    while size > 0:
        data = await source.receive(min(size, _PIECE))
        size -= len(data)
        yield data


async def _line(source: BufferedByteReceiveStream) -> bytes:
    try:
        line = await source.receive_until(b"\r\n", _MAX_CHUNK_LINE)
    except (anyio.DelimiterNotFound, anyio.IncompleteRead):
        raise BadHead("a chunk's line is too long, or cut short") from None
    if b"\r" in line or b"\n" in line:
        raise BadHead("a chunk's line ends with half a line end")
    return line


@contextmanager
def _one_failure() -> Iterator[None]:
    """Lets the one reason out of a group of tasks that all ended for it."""
    try:
        yield
    except ExceptionGroup as group:
        reasons = group.subgroup(lambda error: isinstance(error, Cut | BadHead)) or group
        raise _first(reasons) from None


def _first(group: ExceptionGroup[Exception]) -> Exception:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


# The way from a name to a connection that the rules permit: judged, looked up once, judged again, connected
# to.

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def system_resolver(host: str, port: int) -> list[Address]:
    """The addresses that this machine's resolver gives for a name, in its order."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = (parse_address(str(entry[4][0])) for entry in found)
    return list(dict.fromkeys(address for address in addresses if address is not None))


async def permitted(
    destination: Destination, rules: NetworkRules, limits: EgressLimits, resolve: Resolver
) -> list[Address]:
    """The addresses of a destination that may be connected to.

    Raises:
        Cut: there are none, with the reason.
    """
    refusal = rules.refuse_name(destination)
    if refusal is not None:
        raise Cut.refused(refusal)
    literal = destination.address
    addresses = [literal] if literal else await _look_up(destination, limits, resolve)
    allowed = []
    for address in addresses:
        verdict = rules.refuse_address(destination, address)
        if verdict is None:
            allowed.append(address)
        else:
            refusal = refusal or verdict
    if not allowed and refusal is not None:
        raise Cut.refused(refusal)
    return allowed


async def connected(addresses: Sequence[Address], destination: Destination, limits: EgressLimits) -> Wire:
    """A connection to the first of these addresses that answers.

    Raises:
        Cut: none does.
    """
    told = "nobody answered"
    for address in addresses:
        try:
            with anyio.fail_after(limits.connect_timeout_s):
                # An address, never the name again: a second lookup could answer differently.
                return await connect_to(address, destination.port)
        except TimeoutError:
            told = f"no answer within {limits.connect_timeout_s:g} s"
        except OSError as error:
            told = str(error)
    raise Cut.failed(502, f"{destination} cannot be reached: {told}", "Check that it is up")


async def _look_up(destination: Destination, limits: EgressLimits, resolve: Resolver) -> Sequence[Address]:
    try:
        with anyio.fail_after(limits.connect_timeout_s):
            found = await resolve(destination.host, destination.port)
    except (OSError, TimeoutError):
        found = []
    if not found:
        raise Cut.failed(502, f"no address was found for {destination.host}", "Check the host's name")
    # Never an unbounded row of attempts, whatever a name server answers.
    return list(found)[: limits.max_addresses]


# Bytes over sockets, TCP and unix alike, that may be cancelled at any moment. Knows no protocol.

Result = TypeVar("Result")

_BACKLOG = 256


class Wire(ByteStream):
    """One connection. A reset by the other side is the end of what it says."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """What has come, at least a byte.

        Raises:
            EndOfStream: the other side is done.
        """
        try:
            data = await _when_ready(partial(self._raw.recv, max_bytes), self._raw, anyio.wait_readable)
        except ConnectionResetError:
            data = b""
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Hand all of it to the system, which waits while the other side does not read."""
        rest = memoryview(item)
        while rest:
            sent = await _when_ready(partial(self._raw.send, rest), self._raw, anyio.wait_writable)
            rest = rest[sent:]

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        await anyio.lowlevel.checkpoint()
        self._raw.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close at once; never waits."""
        self._raw.close()

    @property
    def peer(self) -> str:
        """The address of the other side."""
        return str(self._raw.getpeername()[0])


def listen_at(path: Path, *, owner: tuple[int, int] | None) -> socket.socket:
    """A unix socket at a path in a directory of ours, for its owner only, in place of one that was left there."""
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.setblocking(False)
        # The mode of the descriptor becomes the mode of the name: there is no moment at which others can connect.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(str(path))
        if owner is not None:
            os.chown(path, *owner)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def accept(listener: socket.socket) -> Wire:
    """The next connection."""
    raw, _ = await _when_ready(listener.accept, listener, anyio.wait_readable)
    raw.setblocking(False)
    return Wire(raw)


async def connect_to(address: Address, port: int) -> Wire:
    """A connection to this very address.

    Raises:
        OSError: nobody answers there.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # as in IPv4
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _finish_connecting(raw, raw.connect_ex((str(address), port)))
    except BaseException:
        raw.close()
        raise
    return Wire(raw)


async def _finish_connecting(raw: socket.socket, number: int) -> None:
    if number == errno.EINPROGRESS:
        await anyio.wait_writable(raw)
        number = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


async def _when_ready(
    attempt: Callable[[], Result], raw: socket.socket, wait: Callable[[socket.socket], Awaitable[None]]
) -> Result:
    # A turn for everybody else first: a busy connection is always ready.
    await anyio.lowlevel.checkpoint()
    while True:
        try:
            return attempt()
        except BlockingIOError:
            await wait(raw)
