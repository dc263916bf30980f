"""The heads of HTTP/1.1 messages as a proxy needs them: what is not plainly right is wrong.

Pure. Two readers of one message must never disagree on where it ends, so nothing here is lenient: no bare line
feeds, no folded lines, no second length, no coding but ``chunked``. What goes on is written anew from what was
understood, never copied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cellwright.sandbox.network_rules import Destination

__all__ = [
    "BadHead",
    "Body",
    "RequestHead",
    "ResponseHead",
    "parse_request",
    "parse_response",
    "read_chunk_size",
]

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
# Every visible character but # < > and the backslash.
_TARGET = re.compile(rb"[!\"$-;=?-\[\]^-~]+")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_DIGITS = re.compile(rb"[0-9]{1,15}")
_MAX_HEADERS = 200
# What concerns one connection only, and ends at it.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
Body: TypeAlias = int | Literal["chunked"]
"""How many bytes follow a head, or that they come in chunks which tell."""


class BadHead(ValueError):
    """A message that is refused as it stands; never leaves this room."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What is asked of the proxy."""

    method: str
    destination: Destination
    target: bytes
    """The path and query to ask the origin for; empty for CONNECT."""
    authority: bytes
    """The value of the Host header: taken from the target, never from the client's header."""
    headers: Headers
    body: Body

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def forwarded(self) -> bytes:
        """The head as the origin gets it."""
        kept = [header for header in _end_to_end(self.headers) if header[0].lower() not in _FRAMING_AND_HOST]
        framing = _framing(
            self.body, has_length=any(name.lower() == b"content-length" for name, _ in self.headers)
        )
        lines = [b"%b %b HTTP/1.1" % (self.method.encode(), self.target), b"Host: " + self.authority]
        lines += [b"%b: %b" % header for header in kept]
        lines += [*framing, b"Connection: close", b"", b""]
        return b"\r\n".join(lines)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What an origin answered."""

    start: bytes
    status: int
    headers: Headers

    @property
    def is_interim(self) -> bool:
        """Whether the real answer is still to come."""
        return self.status // 100 == 1

    @property
    def announced(self) -> int:
        """How long it says its body is; 0 where it does not say so clearly."""
        lengths = {value.strip() for name, value in self.headers if name.lower() == b"content-length"}
        return int(lengths.pop()) if len(lengths) == 1 and all(map(bytes.isdigit, lengths)) else 0

    def forwarded(self) -> bytes:
        """The head as the client gets it: on a connection that serves one answer. The body stays framed as it was."""
        framing = [header for header in self.headers if header[0].lower() == b"transfer-encoding"]
        kept = [*_end_to_end(self.headers), *framing]
        closing = [] if self.is_interim else [b"Connection: close"]
        return b"\r\n".join([self.start, *(b"%b: %b" % header for header in kept), *closing, b"", b""])


def parse_request(head: bytes) -> RequestHead:
    """A request from its head, without the empty line that ends it.

    Raises:
        BadHead: with what is wrong.
    """
    start, headers = _lines(head)
    parts = start.split(b" ")
    if len(parts) != len(("method", "target", "version")) or parts[2] not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise BadHead("the request line is not METHOD TARGET HTTP/1.1")
    method, target = parts[0], parts[1]
    if not _TOKEN.fullmatch(method):
        raise BadHead("the method is no token")
    if not _TARGET.fullmatch(target):
        raise BadHead("the target holds characters that no target holds")
    body = _body(headers)
    if len(_values(headers, b"host")) > 1:
        raise BadHead("there is more than one Host header")
    if method == b"CONNECT":
        if body != 0:
            raise BadHead("a CONNECT request has no body")
        destination = _destination(target, default_port=None)
        return RequestHead("CONNECT", destination, b"", target, headers, 0)
    authority, path = _absolute(target)
    destination = _destination(authority, default_port=80)
    if method == b"OPTIONS" and target == b"http://" + authority:
        path = b"*"
    return RequestHead(method.decode(), destination, path, authority, headers, body)


def parse_response(head: bytes) -> ResponseHead:
    """An answer from its head, without the empty line that ends it.

    Raises:
        BadHead: with what is wrong.
    """
    start, headers = _lines(head)
    if not (match := _STATUS.fullmatch(start)):
        raise BadHead("the status line is not HTTP/1.1 NUMBER TEXT")
    _body(headers)
    return ResponseHead(start, int(match[1]), headers)


def read_chunk_size(line: bytes) -> int:
    """The size that a chunk's first line tells; what else it says is dropped.

    Raises:
        BadHead: it tells none.
    """
    if not (match := _CHUNK.fullmatch(line)):
        raise BadHead("a chunk has no plain size")
    return int(match[1], 16)


def _lines(head: bytes) -> tuple[bytes, Headers]:
    first, *rest = head.split(b"\r\n")
    if b"\n" in head.replace(b"\r\n", b"") or b"\r" in head.replace(b"\r\n", b""):
        raise BadHead("a line ends with half a line end")
    if len(rest) > _MAX_HEADERS:
        raise BadHead(f"there are more than {_MAX_HEADERS} headers")
    headers = []
    for line in rest:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name):
            raise BadHead("a header line is not Name: value")
        value = value.strip(b" \t")
        if not _VALUE.fullmatch(value):
            raise BadHead("a header holds control characters")
        headers.append((name, value))
    return first, tuple(headers)


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for header, value in headers if header.lower() == name]


def _body(headers: Headers) -> Body:
    lengths = _values(headers, b"content-length")
    codings = _values(headers, b"transfer-encoding")
    if codings:
        if lengths:
            raise BadHead("there are both Content-Length and Transfer-Encoding")
        if [coding.lower() for coding in codings] != [b"chunked"]:
            raise BadHead("the only Transfer-Encoding taken is chunked")
        return "chunked"
    if not lengths:
        return 0
    if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise BadHead("Content-Length is not one plain number")
    return int(lengths[0])


def _absolute(target: bytes) -> tuple[bytes, bytes]:
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() != b"http":
        raise BadHead("a proxy is asked for http://HOST/PATH, or for a tunnel with CONNECT")
    cut = min((rest.index(mark) for mark in (b"/", b"?") if mark in rest), default=len(rest))
    authority, path = rest[:cut], rest[cut:]
    return authority, path if path.startswith(b"/") else b"/" + path


def _destination(authority: bytes, *, default_port: int | None) -> Destination:
    if b"@" in authority:
        raise BadHead("a target with a user name is not taken")
    try:
        return Destination.parse(authority.decode("ascii"), default_port=default_port)
    except ValueError as error:
        raise BadHead(f"the target is no host and port: {error}") from None


_FRAMING_AND_HOST = frozenset({b"content-length", b"host"})


def _framing(body: Body, *, has_length: bool) -> list[bytes]:
    if body == "chunked":
        return [b"Transfer-Encoding: chunked"]
    return [b"Content-Length: %d" % body] if has_length else []


def _end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    named = {
        option.strip().lower() for value in _values(headers, b"connection") for option in value.split(b",")
    }
    # Nobody drops what frames the message, or names its host, by calling it a matter of the connection.
    dropped = _HOP_BY_HOP | (named - _FRAMING_AND_HOST)
    return [header for header in headers if header[0].lower() not in dropped]
