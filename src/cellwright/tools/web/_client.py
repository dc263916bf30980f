"""One GET of one address on the web: judged, connected to where it was judged, read within bounds, logged.

Over the same guard, the same strict reading of heads and the same counting as the proxy of sessions (``sandbox``):
a client library would bring its own lookups, redirects, cookies, proxies and passwords from the environment, each of
which would have to be switched off. Follows no redirect and keeps nothing (see ``fetch``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSStream

from cellwright.sandbox.http_heads import BadHead, RequestHead, ResponseHead, parse_response, read_chunk_size
from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.network_rules import NetworkRules
from cellwright.sandbox.relay import (
    Cut,
    EgressLimits,
    Exchange,
    Resolver,
    Totals,
    connected,
    permitted,
    system_resolver,
)
from cellwright.tools.web.urls import WebUrl

__all__ = ["ACCEPTED", "Answer", "Kept", "WebCache", "WebClient", "freshness_s"]

_MAX_HEAD = 64 * 1024

_MAX_INTERIM = 10

_MAX_TRAILERS = 100

_MAX_CHUNK_LINE = 1024

_PIECE = 64 * 1024

_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})

_WEB_SERVER = "Check that it is a web server"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host answered, decoded."""

    status: int
    headers: Mapping[str, str]
    """By names in small letters; of several of one name the first."""
    body: bytes
    address: str = ""
    """Where it came from."""


class WebClient:
    """Asks hosts under one set of rules. ``told`` gets an entry of each request, not yet numbered."""

    def __init__(
        self,
        rules: NetworkRules,
        limits: EgressLimits,
        *,
        resolve: Resolver = system_resolver,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        log: Callable[[NetworkEntry], None] = lambda _: None,
    ) -> None:
        self.rules = rules
        self._limits = limits
        self._resolve = resolve
        self._tls = tls
        self._log = log

    def note(self, entry: NetworkEntry) -> None:
        """Log something that needed no request, or came to none."""
        self._log(entry)

    async def get(self, url: WebUrl, headers: Mapping[str, str], *, until: float) -> Answer:
        """What the host answers, whatever it is; ``until`` is when it must be there.

        Raises:
            Cut: it may not be asked, or it did not answer within its bounds, with the reason.
        """
        limits = replace(self._limits, max_seconds=max(until - anyio.current_time(), 0.001))
        exchange = Exchange(limits, Totals(), started=time.time(), execution=None)
        request = _request(url, headers)
        exchange.asked(request)
        try:
            return await self._within_time(url, request, exchange, limits, until)
        except Cut as cut:
            exchange.cut(cut)
            raise
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead) as error:
            broken = Cut.failed(502, f"the connection broke: {type(error).__name__}", "Try again")
            exchange.cut(broken)
            raise broken from error
        except anyio.get_cancelled_exc_class():
            exchange.fail("nobody waits for it any more")
            raise
        finally:
            self._log(exchange.entry(0, time.time()))

    async def _within_time(
        self, url: WebUrl, request: RequestHead, exchange: Exchange, limits: EgressLimits, until: float
    ) -> Answer:
        with exchange.deadline():
            return await self._ask(url, request, exchange, limits)
        if anyio.current_time() >= until:
            hint = "Try again, or have the operator raise `fetch_timeout_s`"
            raise Cut(504, "it took too long", setting="fetch_timeout_s", hint=hint)
        raise exchange.expired or Cut.failed(504, "it took too long", "Try again")

    async def _ask(
        self, url: WebUrl, request: RequestHead, exchange: Exchange, limits: EgressLimits
    ) -> Answer:
        addresses = await permitted(url.destination, self.rules, limits, self._resolve)
        exchange.allowed()
        wire = await connected(addresses, url.destination, limits)
        async with wire:
            exchange.address = wire.peer
            async with self._secured(wire, url) as stream:
                sent = request.forwarded()
                exchange.carry_up(len(sent))
                await stream.send(sent)
                source = BufferedByteReceiveStream(stream)
                answer = await _answer(source, exchange, limits.max_download_bytes)
                return replace(answer, address=wire.peer)

    @asynccontextmanager
    async def _secured(self, wire: ByteStream, url: WebUrl) -> AsyncIterator[ByteStream]:
        """The connection itself, or for https one to whoever can prove that the name is theirs."""
        if url.scheme == "http":
            yield wire
            return
        try:
            stream = await TLSStream.wrap(
                wire, hostname=url.destination.host, ssl_context=self._tls(), standard_compatible=False
            )
        except ssl.SSLCertVerificationError as error:
            message = f"the certificate of {url.destination} is not to be trusted: {error.verify_message}"
            raise Cut.failed(
                502, message, "Check the name; a CA of your own is named by SSL_CERT_FILE to the daemon"
            ) from None
        except (ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            message = f"TLS with {url.destination} failed: {reason}"
            raise Cut.failed(502, message, "Check that it speaks https") from None
        yield stream


def _request(url: WebUrl, headers: Mapping[str, str]) -> RequestHead:
    pairs = tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items())
    return RequestHead("GET", url.destination, url.target.encode("ascii"), url.authority.encode(), pairs, 0)


async def _answer(source: BufferedByteReceiveStream, exchange: Exchange, limit: int) -> Answer:
    try:
        head = await _final_head(source, exchange)
        headers = _by_name(head)
        decoding = Decoding(headers.get("content-encoding", ""), limit)
        body = bytearray()
        if head.status not in _BODILESS:
            async for piece in _pieces(source, head, headers):
                exchange.carry_down(len(piece))
                for decoded in decoding.feed(piece):
                    body += decoded
                    await anyio.lowlevel.checkpoint()
            decoding.finish(received=bool(body))
    except (BadHead, anyio.DelimiterNotFound) as error:
        raise Cut.failed(502, f"the host's answer is not HTTP: {error}", _WEB_SERVER) from None
    except anyio.IncompleteRead:
        raise Cut.failed(502, "the host's answer was cut short", "Try again") from None
    return Answer(head.status, headers, bytes(body))


async def _final_head(source: BufferedByteReceiveStream, exchange: Exchange) -> ResponseHead:
    for _ in range(_MAX_INTERIM):
        raw = await source.receive_until(b"\r\n\r\n", _MAX_HEAD)
        exchange.carry_down(len(raw))
        head = parse_response(raw)
        if not head.is_interim:
            exchange.expect(head)
            return head
    raise BadHead("it never comes to an end of its preliminaries")


def _by_name(head: ResponseHead) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in head.headers:
        found.setdefault(name.decode("ascii").lower(), value.decode("latin-1"))
    return found


async def _pieces(
    source: BufferedByteReceiveStream, head: ResponseHead, headers: Mapping[str, str]
) -> AsyncIterator[bytes]:
    if "transfer-encoding" in headers:
        async for piece in _chunks(source):
            yield piece
    elif "content-length" in headers:
        async for piece in _exactly(source, head.announced):
            yield piece
    else:
        try:
            while True:
                yield await source.receive(_PIECE)
        except anyio.EndOfStream:
            return


async def _chunks(source: BufferedByteReceiveStream) -> AsyncIterator[bytes]:
    while size := read_chunk_size(await source.receive_until(b"\r\n", _MAX_CHUNK_LINE)):
        async for piece in _exactly(source, size):
            yield piece
        if await source.receive_exactly(2) != b"\r\n":
            raise BadHead("a chunk is longer than its size")
    for _ in range(_MAX_TRAILERS):
        if not await source.receive_until(b"\r\n", _MAX_CHUNK_LINE):
            return
    raise BadHead(f"there are more than {_MAX_TRAILERS} trailers")


async def _exactly(source: BufferedByteReceiveStream, size: int) -> AsyncIterator[bytes]:
    while size > 0:
        try:
            piece = await source.receive(min(size, _PIECE))
        except anyio.EndOfStream:
            raise anyio.IncompleteRead from None
        size -= len(piece)
        yield piece


# The codings of a body on its way, undone piece by piece and never beyond a bound: a few bytes can hold
# gigabytes.

ACCEPTED = "gzip, deflate"
"""Codings that the standard library undoes within bounds; others are not asked for."""

_CODED_PIECE = 256 * 1024

_GZIP = 16 + zlib.MAX_WBITS

_GZIP_MAGIC = b"\x1f\x8b"

_ZLIB_METHOD = 8

_MOST_MEMBERS = 1_000


class Decoding:
    """Undoes one coding. Raises ``Cut`` where more than ``limit`` bytes would come of it, or it is none of ours."""

    def __init__(self, coding: str, limit: int) -> None:
        self._coding = coding.strip().lower()
        self._limit = limit
        self._made = 0
        self._members = 0
        self._state: zlib._Decompress | None = None
        if self._coding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Cut.failed(
                502,
                f"the answer is coded as {coding[:40]!r}, and only {ACCEPTED} were asked for",
                "Fetch it from elsewhere",
            )

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What comes of the next piece, in pieces of a bounded size."""
        if self._coding in {"", "identity"}:
            yield self._counted(data)
            return
        made = b""
        # A full piece may leave more behind, though all that came was taken.
        while data or len(made) == _CODED_PIECE:
            if (self._state is None or self._state.eof) and not self._begun(data):
                return
            assert self._state is not None  # for the type checker: it was begun
            try:
                made = self._state.decompress(data, _CODED_PIECE)
            except zlib.error as error:
                message = f"the answer cannot be decoded as {self._coding}: {error}"
                raise Cut.failed(502, message, "Try again") from None
            yield self._counted(made)
            data = self._state.unused_data if self._state.eof else self._state.unconsumed_tail

    def finish(self, *, received: bool) -> None:
        """Say that nothing more comes.

        Raises:
            Cut: the coding is not at its end.
        """
        if received and self._state is not None and not self._state.eof:
            raise Cut.failed(502, f"the answer's {self._coding} was cut short", "Try again")

    def _begun(self, data: bytes) -> bool:
        """Whether another part begins here; what else follows the last one means nothing."""
        gzip = self._coding != "deflate"
        if self._state is not None and not (gzip and data.startswith(_GZIP_MAGIC)):
            return False
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise Cut.failed(
                502, f"the answer has more than {_MOST_MEMBERS} parts", "Fetch it from elsewhere"
            )
        # By the standard there is a header around deflate; some servers leave that out.
        bare = not gzip and data[0] & 0x0F != _ZLIB_METHOD
        self._state = zlib.decompressobj(_GZIP if gzip else -zlib.MAX_WBITS if bare else zlib.MAX_WBITS)
        return True

    def _counted(self, made: bytes) -> bytes:
        self._made += len(made)
        if self._made > self._limit:
            raise Cut(
                502,
                f"more than {self._limit:,} bytes received, decoded",
                setting="max_download_bytes",
                hint="Fetch less, or have the operator raise `max_download_bytes`",
            )
        return made


# Answers that may be used again, on disk within a bound. Which may, and for how long, is what their headers
# say.

_LONGEST_S = 24 * 3600.0

_SHARE = 4
"""One answer may take this part of the whole at most."""

_KEPT_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "vary",
)

_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')


class Kept(msgspec.Struct, frozen=True):
    """One answer, when it came, and for how long it needs no asking."""

    url: str
    address: str
    """Where it came from; whether that may still be asked is for the rules of today."""
    accept: str
    stored_at: float
    fresh_s: float
    headers: dict[str, str]
    body: bytes

    @property
    def answer(self) -> Answer:
        return Answer(HTTPStatus.OK, self.headers, self.body, self.address)

    @property
    def conditions(self) -> dict[str, str]:
        """Headers that ask whether it is still so; none where the host gave nothing to ask by."""
        found = {
            "If-None-Match": self.headers.get("etag"),
            "If-Modified-Since": self.headers.get("last-modified"),
        }
        return {name: value for name, value in found.items() if value is not None}

    def answers(self, accept: str) -> bool:
        """Whether it is what the host would answer to a request for this."""
        varies = {name.strip().lower() for name in self.headers.get("vary", "").split(",")}
        return accept == self.accept or "accept" not in varies

    def is_fresh(self, now: float) -> bool:
        return self.stored_at <= now < self.stored_at + self.fresh_s


def may_keep(answer: Answer) -> bool:
    """Whether an answer may be kept at all, and there is a use in it."""
    directives = _directives(answer.headers)
    if (
        answer.status != HTTPStatus.OK
        or "no-store" in directives
        or answer.headers.get("vary", "").strip() == "*"
    ):
        return False
    return freshness_s(answer.headers) > 0 or "etag" in answer.headers or "last-modified" in answer.headers


def freshness_s(headers: Mapping[str, str]) -> float:
    """For how long an answer needs no asking, as it says itself; nothing is guessed."""
    directives = _directives(headers)
    if "no-cache" in directives:
        return 0.0
    age = _number(headers.get("age", "0"))
    if "max-age" in directives:
        return min(max(_number(directives["max-age"]) - age, 0.0), _LONGEST_S)
    try:
        lasts = parsedate_to_datetime(headers["expires"]) - parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError, TypeError):
        return 0.0
    return min(max(lasts.total_seconds() - age, 0.0), _LONGEST_S)


class WebCache:
    """A directory of answers. The least recently used go first when it is full."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes

    def find(self, url: str) -> Kept | None:
        """What is kept of an address."""
        path = self._path(url)
        try:
            kept = msgspec.msgpack.decode(path.read_bytes(), type=Kept)
            os.utime(path)
        except (OSError, msgspec.MsgspecError):
            return None
        return kept if kept.url == url else None

    def keep(self, url: str, answer: Answer, now: float, *, accept: str) -> None:
        """Keep an answer if it may be kept, else forget what was kept of its address."""
        path = self._path(url)
        if not may_keep(answer) or len(answer.body) * _SHARE > self._max_bytes:
            path.unlink(missing_ok=True)
            return
        headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        kept = Kept(url, answer.address, accept, now, freshness_s(answer.headers), headers, answer.body)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._directory / f".{secrets.token_hex(8)}"
        try:
            beside.write_bytes(msgspec.msgpack.encode(kept))
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        self._make_space()

    def _make_space(self) -> None:
        files = []
        for path in self._directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, url: str) -> Path:
        return self._directory / hashlib.sha256(url.encode()).hexdigest()


def _directives(headers: Mapping[str, str]) -> dict[str, str]:
    found = _DIRECTIVE.findall(headers.get("cache-control", "").lower())
    return {name: value or "" for name, value in found}


def _number(text: str) -> float:
    text = text.strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) <= len("1000000000") else 0.0
