"""Requests to a kernel and the callers that wait for its answers, for every kind of connection.

How messages travel is each connection's own: over sockets (``client``) or as lines over pipes (``pipe_client``). Every
message from iopub, and every shell reply that nobody waits for, goes to ``on_message`` in the order of arrival.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import anyio
import anyio.abc
import msgspec

from cellwright.errors import KernelError, KernelGone

__all__ = [
    "BadMessageError",
    "Channel",
    "Client",
    "Codec",
    "Message",
    "Pending",
    "new_message_id",
    "read_reply",
    "refusal_in",
]

log = logging.getLogger(__name__)

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def read_reply(content: bytes) -> dict[str, Any]:
    """The content of a reply.

    Raises:
        KernelError: it is none; code can answer in its kernel's name.
    """
    try:
        return _decode_object(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise KernelError(f"The kernel's answer cannot be read: {str(error)[:200]}") from None


def refusal_in(reply: Mapping[str, Any]) -> str | None:
    """Why a kernel did not do what it was asked for; None where it did."""
    if reply.get("status") == "ok":
        return None
    return f"{reply.get('ename', 'Error')}: {reply.get('evalue', 'it does not say why')}"


class Pending:
    """A request that somebody waits for."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: bytes | None = None


class Client(ABC):
    """The connection to one kernel, alive while ``run`` is."""

    def __init__(self) -> None:
        self.on_message: Callable[[Message], None] = _ignore
        self._pending: dict[str, Pending] = {}
        self._gone: str | None = None

    @abstractmethod
    async def run(
        self, *, task_status: anyio.abc.TaskStatus[dict[str, Any]] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Connect, prove that the kernel answers and is heard, then receive until cancelled.

        ``started`` gets the content of its kernel_info_reply.
        """

    @abstractmethod
    async def drain(self) -> None:
        """Wait until a kernel that has ended was heard to its last word."""

    @abstractmethod
    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        """Send a request without waiting; KernelGone where there is nobody to send it to."""

    def execute(
        self,
        code: str,
        *,
        message_id: str,
        silent: bool = False,
        store_history: bool = True,
        user_expressions: Mapping[str, str] | None = None,
        stop_on_error: bool = False,
        language: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        """Ask for a cell to be run; its output, reply and end come to ``on_message`` under ``message_id``.

        ``language`` and ``files`` are for kernels of ours: what the code is written in, where they run more than
        one, and texts that are to lie in the working directory. Others would not look at them.

        Raises:
            KernelGone: the kernel ended or the connection was closed.
        """
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": dict(user_expressions or {}),
            "allow_stdin": False,
            "stop_on_error": stop_on_error,
        }
        if language is not None:
            content["language"] = language
        if files:
            content["files"] = dict(files)
        self._send("shell", "execute_request", content, message_id)

    async def request(
        self,
        kind: str,
        content: Mapping[str, Any],
        *,
        timeout_s: float,
        channel: Channel = "shell",
    ) -> dict[str, Any]:
        """The content of the reply to any request.

        Raises:
            KernelError: what it answered is no reply.
            KernelGone: the kernel ended before it answered.
            TimeoutError: it did not answer in time.
        """
        message_id = new_message_id()
        pending = self._pending[message_id] = Pending()
        try:
            self._send(channel, kind, content, message_id)
            with anyio.fail_after(timeout_s):
                await pending.done.wait()
        finally:
            self._pending.pop(message_id, None)
        if pending.reply is None:
            raise self._gone_error()
        return read_reply(pending.reply)

    async def interrupt(self, *, timeout_s: float) -> None:
        """Ask the kernel to interrupt itself and the subprocesses of its group."""
        await self.request("interrupt_request", {}, timeout_s=timeout_s, channel="control")

    async def shutdown_request(self, *, timeout_s: float) -> None:
        """Ask the kernel to end; it is still there when it has answered."""
        await self.request("shutdown_request", {"restart": False}, timeout_s=timeout_s, channel="control")

    def close(self, reason: str) -> None:
        """End every wait for a reply with KernelGone, and refuse new requests."""
        self._gone = self._gone or reason
        for pending in self._pending.values():
            pending.done.set()

    def _hand_on(self, message: Message) -> None:
        pending = self._pending.get(message.parent_id)
        if message.channel != "iopub" and pending is not None:
            pending.reply = message.content
            pending.done.set()
            return
        try:
            self.on_message(message)
        except Exception:  # boundary: a listener's mistake must not deafen the connection
            log.exception("kernel_listener_failed")

    def _gone_error(self) -> KernelGone:
        return KernelGone(f"The kernel did not answer: {self._gone or 'it was never connected'}")


def _ignore(_: Message) -> None:
    """What a client does with messages until somebody listens."""


# The Jupyter wire format: signed frames to messages and back. Knows no sockets (see client).

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
