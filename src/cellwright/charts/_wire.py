"""Messages between the renderer and the process that draws: MessagePack with its length before it."""

from __future__ import annotations

import io
from typing import Any

import msgspec

from cellwright.charts.encodings import Output
from cellwright.charts.themes import ThemeName

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Build",
    "Draw",
    "Drawn",
    "Failed",
    "Request",
    "decode_reply",
    "framed",
    "read_frame",
]

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_LENGTH_BYTES = 4


class Draw(msgspec.Struct, frozen=True, tag_field="kind", tag="draw"):
    """A spec, of ours or of anybody, as a picture."""

    spec: dict[str, Any]
    theme: ThemeName | None
    scale: float
    max_width: int | None


class Build(msgspec.Struct, frozen=True, tag_field="kind", tag="build"):
    """An output with its data as a chart: from a file's content, or from a table as it goes over the wire."""

    output: Output
    content: bytes | None
    table: dict[str, Any] | None
    theme: ThemeName
    scale: float
    max_width: int | None
    picture: bool
    kinds: dict[str, str]
    """Where each chart type is found."""


Request = Draw | Build


class Drawn(msgspec.Struct, frozen=True, tag_field="kind", tag="drawn"):
    png: bytes | None
    spec: dict[str, Any] | None = None
    digest: str = ""
    notices: tuple[str, ...] = ()
    html: str | None = None
    type: str = ""


class Failed(msgspec.Struct, frozen=True, tag_field="kind", tag="failed"):
    """A refusal; ``code`` is that of the error's class."""

    code: str
    problems: tuple[str, ...]
    hint: str | None = None


_encoder = msgspec.msgpack.Encoder()
_replies = msgspec.msgpack.Decoder(Drawn | Failed)
_requests = msgspec.msgpack.Decoder(Draw | Build)


def decode_reply(payload: bytes | memoryview) -> Drawn | Failed:
    reply: Drawn | Failed = _replies.decode(payload)
    return reply


def framed(message: msgspec.Struct) -> bytes:
    payload = _encoder.encode(message)
    if len(payload) > MAX_MESSAGE_BYTES:
        raise ValueError(f"{len(payload):,} bytes are more than {MAX_MESSAGE_BYTES:,}")
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def read_frame(stream: io.BufferedReader) -> Request | None:
    """The next request; None at the end."""
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    request: Request = _requests.decode(stream.read(int.from_bytes(head, "big")))
    return request
