"""Jupyter's messages as a server and a gateway send them over a WebSocket: one JSON object in a text frame. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.errors import CellwrightError

__all__ = ["PROTOCOL", "BadMessage", "Channel", "Header", "OutgoingMessage", "Request", "decode", "encode"]

PROTOCOL = "5.3"
Channel: TypeAlias = Literal["shell", "control", "iopub"]
_OURS = "cellwright"


class BadMessage(CellwrightError):
    """What came over the socket is no message."""

    code = "bad_message"


class Header(msgspec.Struct, frozen=True):
    """Who sent a message, and what it is; unknown fields are left out, for nobody asks for them back."""

    msg_id: str
    msg_type: str
    session: str = ""
    username: str = ""
    date: str = ""
    version: str = PROTOCOL


class Request(msgspec.Struct, frozen=True):
    """What a client asks."""

    header: Header
    channel: str = "shell"
    content: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    @property
    def reply_channel(self) -> Channel:
        return "control" if self.channel == "control" else "shell"

    @property
    def reply_kind(self) -> str:
        return self.header.msg_type.removesuffix("_request") + "_reply"


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """What a client is told, and in answer to what."""

    channel: Channel
    kind: str
    content: Mapping[str, Any]
    parent: Header | None = None


_decode = msgspec.json.Decoder(Request).decode


def decode(text: str) -> Request:
    """Read what a client sent.

    Raises:
        BadMessage: it is no message of the protocol.
    """
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadMessage(f"No message of Jupyter's protocol: {str(error)[:200]}") from error


def encode(said: OutgoingMessage) -> str:
    """A message as it goes over the socket."""
    header = Header(
        uuid.uuid4().hex, said.kind, _OURS, _OURS, datetime.now(UTC).isoformat().replace("+00:00", "Z")
    )
    message = {
        "header": header,
        "msg_id": header.msg_id,
        "msg_type": header.msg_type,
        "parent_header": said.parent if said.parent is not None else {},
        "metadata": {},
        "content": said.content,
        "channel": said.channel,
        "buffers": [],
    }
    return msgspec.json.encode(message).decode()
