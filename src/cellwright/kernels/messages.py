"""The Jupyter wire format: signed frames to messages and back. Knows no sockets (see client).

Only the two headers are decoded here. Contents stay raw JSON, since most of them are handed on as they came.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import msgspec

__all__ = ["BadMessageError", "Channel", "Codec", "Message", "new_message_id"]

Channel = Literal["shell", "iopub", "control", "stdin"]

DELIMITER = b"<IDS|MSG>"
SIGNED_FRAMES = 4
VERSION = "5.4"


class Message(msgspec.Struct, frozen=True):
    """One message from a kernel."""

    channel: Channel
    kind: str
    parent_id: str
    content: bytes
    """Raw JSON."""

    metadata: bytes
    """Raw JSON."""


class BadMessageError(ValueError):
    """Frames that are not a message, or not signed with the kernel's key."""


class _Header(msgspec.Struct):
    msg_type: str


class _ParentHeader(msgspec.Struct):
    msg_id: str = ""


_decode_header = msgspec.json.Decoder(_Header).decode
_decode_parent = msgspec.json.Decoder(_ParentHeader).decode
_encode = msgspec.json.encode


def new_message_id() -> str:
    return uuid4().hex


class Codec:
    """Signs and reads the messages of one kernel."""

    def __init__(self, key: str) -> None:
        self._signer = hmac.new(key.encode(), digestmod=hashlib.sha256)
        self._session = uuid4().hex

    def encode(self, kind: str, content: Mapping[str, Any], *, message_id: str) -> list[bytes]:
        """The frames of a request."""
        header = {
            "msg_id": message_id,
            "msg_type": kind,
            "username": "cellwright",
            "session": self._session,
            "date": datetime.now(UTC).isoformat(),
            "version": VERSION,
        }
        frames = [_encode(header), b"{}", b"{}", _encode(content)]
        return [DELIMITER, self._sign(frames), *frames]

    def decode(self, channel: Channel, frames: Sequence[bytes]) -> Message:
        """The message in the frames.

        Raises:
            BadMessageError: they are not one, or somebody else signed them.
        """
        try:
            start = frames.index(DELIMITER) + 2
        except ValueError:
            raise BadMessageError("no delimiter among the frames") from None
        signed = frames[start : start + SIGNED_FRAMES]
        if len(signed) != SIGNED_FRAMES or not hmac.compare_digest(frames[start - 1], self._sign(signed)):
            raise BadMessageError("the signature is not the kernel's")
        header, parent, metadata, content = signed
        try:
            kind, parent_id = _decode_header(header).msg_type, _decode_parent(parent).msg_id
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BadMessageError(f"unreadable header: {error}") from None
        return Message(channel, kind, parent_id, content, metadata)

    def _sign(self, frames: Sequence[bytes]) -> bytes:
        signer = self._signer.copy()
        for frame in frames:
            signer.update(frame)
        return signer.hexdigest().encode()
