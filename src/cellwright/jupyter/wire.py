"""Jupyter's messages as frames of a WebSocket: the subprotocol v1, and the JSON of servers that do not have it.

Pure. Contents stay raw JSON, since most of them are handed on as they came. Buffers are left out: outputs have none
that a notebook file could hold. Frames on a kernel's own sockets are ``kernels.messages``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast, get_args

import msgspec

from cellwright.kernels.messages import BadMessageError, Channel, Message

__all__ = ["V1", "Received", "decode_json", "decode_v1", "encode_json", "encode_v1", "header_of"]

V1 = "v1.kernel.websocket.jupyter.org"

_VERSION = "5.4"
_WORD = 8
_PARTS = 4
_CHANNELS = get_args(Channel)
_MOST_OFFSETS = 4096


class Received(msgspec.Struct, frozen=True):
    """A message from a kernel, and its own id, which tells how many came before it where the kernel counts."""

    message: Message
    id: str


class _Header(msgspec.Struct):
    msg_type: str
    msg_id: str = ""


class _ParentHeader(msgspec.Struct):
    msg_id: str = ""


class _Whole(msgspec.Struct):
    """A message as one JSON object."""

    header: _Header
    content: msgspec.Raw
    channel: str = "iopub"
    parent_header: _ParentHeader | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode_header = msgspec.json.Decoder(_Header).decode
_decode_parent = msgspec.json.Decoder(_ParentHeader).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode


def header_of(kind: str, message_id: str, session_id: str, username: str) -> dict[str, str]:
    """The header of a request."""
    return {
        "msg_id": message_id,
        "msg_type": kind,
        "username": username,
        "session": session_id,
        "date": datetime.now(UTC).isoformat(),
        "version": _VERSION,
    }


def encode_v1(channel: str, header: Mapping[str, Any], content: Mapping[str, Any]) -> bytes:
    """A request as one binary frame: how many offsets, the offsets, then the channel and the parts."""
    return _framed([channel.encode(), _json(header), b"{}", b"{}", _json(content)])


def _framed(parts: Sequence[bytes]) -> bytes:
    offsets = [_WORD * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def decode_v1(frame: bytes) -> Received:
    """The message in a binary frame.

    Raises:
        BadMessageError: it is none.
    """
    offsets = _offsets(frame)
    parts = [frame[start:end] for start, end in pairwise(offsets)]
    if len(parts) < 1 + _PARTS:
        raise BadMessageError(f"a frame of {len(parts)} parts")
    channel, header, parent, metadata, content = parts[: 1 + _PARTS]
    try:
        head = _decode_header(header)
        parent_id = _decode_parent(parent).msg_id
        name = channel.decode()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessageError(f"unreadable header: {error}") from None
    return Received(Message(_channel(name), head.msg_type, parent_id, content, metadata), head.msg_id)


def _offsets(frame: bytes) -> tuple[int, ...]:
    count = int.from_bytes(frame[:_WORD], "little")
    if not 0 < count <= _MOST_OFFSETS or len(frame) < _WORD * (count + 1):
        raise BadMessageError(f"a frame of {len(frame)} bytes with {count} offsets")
    offsets: tuple[int, ...] = struct.unpack_from(f"<{count}Q", frame, _WORD)
    if list(offsets) != sorted(offsets) or offsets[-1] > len(frame):
        raise BadMessageError("offsets that lead out of the frame")
    return offsets


def encode_json(channel: str, header: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """A request as one JSON object, for servers without the subprotocol."""
    whole = {
        "channel": channel,
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "buffers": [],
    }
    return _json(whole).decode()


def decode_json(frame: str | bytes) -> Received:
    """The message in a frame of a server without the subprotocol; a binary one has buffers behind the JSON.

    Raises:
        BadMessageError: it is none.
    """
    try:
        whole = _decode_whole(_json_of(frame) if isinstance(frame, bytes) else frame)
    except (msgspec.MsgspecError, struct.error, ValueError, RecursionError) as error:
        raise BadMessageError(f"unreadable message: {error}") from None
    parent_id = whole.parent_header.msg_id if whole.parent_header is not None else ""
    message = Message(
        _channel(whole.channel), whole.header.msg_type, parent_id, bytes(whole.content), bytes(whole.metadata)
    )
    return Received(message, whole.header.msg_id)


def _json_of(frame: bytes) -> bytes:
    (count,) = struct.unpack_from("!I", frame)
    if not 0 < count <= _MOST_OFFSETS:
        raise BadMessageError(f"a frame with {count} parts")
    offsets = (*struct.unpack_from(f"!{count}I", frame, 4), len(frame))
    return frame[offsets[0] : offsets[1]]


def _channel(name: str) -> Channel:
    if name not in _CHANNELS:
        raise BadMessageError(f"a channel {name!r}")
    return cast("Channel", name)


def _json(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value)
