"""Speaks with one kernel over its sockets: requests and the callers that wait, signed messages, ZeroMQ's wire format.

``Client`` is what every kind of connection shares; Deno's is ``pipe_client``, a Jupyter server's ``jupyter.channels``.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from uuid import uuid4

import anyio
import anyio.abc
import msgspec

from cellwright.errors import KernelError, KernelGone
from cellwright.kernels._resources import Connection

__all__ = [
    "BadMessageError",
    "Channel",
    "Client",
    "Codec",
    "KernelClient",
    "Message",
    "Oversized",
    "Pending",
    "ProtocolError",
    "Reader",
    "greeting",
    "message_bytes",
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


# Before the reason why nobody answered; by itself it is the end of input, as in a terminal.
UNANSWERED = "\x04"


class Pending:
    """A request that somebody waits for."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: bytes | None = None


class Client(ABC):
    """The connection to one kernel, alive while ``run`` is."""

    def __init__(self, *, is_ours: bool = True) -> None:
        """A kernel that is not ours knows no word for an unanswered question: its code gets an empty line."""
        self.is_ours = is_ours
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
            "allow_stdin": True,
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

    def answer_input(self, value: str | None, *, reason: str = "") -> None:
        """Answer what the kernel's code asked for; with None, that nobody does, for the reason given.

        Raises:
            KernelGone: the kernel ended or the connection was closed.
        """
        if value is None:
            value = UNANSWERED + reason if self.is_ours else ""
        self._send("stdin", "input_reply", {"value": value, "status": "ok"}, new_message_id())

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
        if message.channel not in ("iopub", "stdin") and pending is not None:
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


# The Jupyter wire format: signed frames to messages and back. Knows no sockets.

Channel = Literal["shell", "iopub", "control", "stdin"]

DELIMITER = b"<IDS|MSG>"

SIGNED_FRAMES = 4

PROTOCOL = "5.4"


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
            "version": PROTOCOL,
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


# The client of a kernel that speaks ZeroMQ: sends requests, hands on what it says. Knows no process (see
# processes).


CHANNELS: tuple[Channel, ...] = ("iopub", "shell", "control", "stdin")

PROOF_RETRY_S = 0.05

MAX_PROOF_RETRY_S = 2.0

RECONNECT_S = 0.01

MAX_RECONNECT_S = 0.2

QUIET_S = 0.05

# What one kernel says is followed this far before others have their turn.
READ_BYTES = 1 << 15

TOLD_REFUSALS = 10


class Wire(asyncio.BufferedProtocol):
    """One channel of a kernel, connected or not yet; what is sent meanwhile waits."""

    def __init__(
        self,
        socket_type: Literal["SUB", "DEALER"],
        take: Callable[[list[bytes] | Oversized], None],
        *,
        identity: bytes = b"",
    ) -> None:
        self.heard = 0
        """Bytes, so far."""
        self.lost = anyio.Event()
        """Set when the connection that there was has ended."""
        self.error: ProtocolError | None = None
        self._greeting = greeting(socket_type, identity=identity)
        self._subscription = message_bytes([SUBSCRIBE_TO_ALL]) if socket_type == "SUB" else b""
        self._take = take
        self._buffer = bytearray(READ_BYTES)
        self._reader: Reader
        self._transport: asyncio.WriteTransport | None = None
        self._ready = False
        self._unsent = b""

    def send(self, frames: Sequence[bytes]) -> None:
        self._unsent += message_bytes(frames)
        self._flush()

    def _flush(self) -> None:
        if self._ready and self._transport is not None:
            self._transport.write(self._unsent)
            self._unsent = b""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]  # a socket's
        self._transport, self._reader, self.lost = transport, Reader(), anyio.Event()
        transport.write(self._greeting)

    def get_buffer(self, sizehint: int) -> bytearray:  # asyncio's
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += nbytes
        try:
            for message in self._reader.feed(memoryview(self._buffer)[:nbytes]):
                self._take(message)
        except ProtocolError as error:
            self.error = error
            self.close()
        if self._reader.peer_is_ready and not self._ready:
            self._ready, self._unsent = True, self._subscription + self._unsent
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:  # the process's end says why
        self._transport, self._ready = None, False
        self.lost.set()


class KernelClient(Client):
    """The connection to one kernel, alive while ``run`` is."""

    def __init__(self, connection: Connection, *, is_ours: bool = True) -> None:
        super().__init__(is_ours=is_ours)
        # A kernel asks whoever sent the request for input, and knows them by this.
        self._identity = new_message_id().encode()
        self._connection = connection
        self._codec = Codec(connection.key)
        self._wires: dict[Channel, Wire] = {}
        self._proofs: set[str] = set()
        self._idle_seen = anyio.Event()
        self._speaker: str | None = None
        """The execution that runs, as the kernel says."""
        self._refused = 0

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[dict[str, Any]] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Connect, prove that the kernel answers and is heard, then receive until cancelled.

        ``started`` gets the content of its kernel_info_reply.

        Raises:
            ProtocolError: what it says cannot be followed.
        """
        try:
            async with anyio.create_task_group() as tasks:
                for channel in CHANNELS:
                    self._wires[channel] = self._wire(channel)
                    tasks.start_soon(self._connect, channel)
                task_status.started(await self._prove())
        finally:
            self.close("the connection was closed")
            for wire in self._wires.values():
                wire.close()

    async def drain(self) -> None:
        """Wait until a kernel that has ended was heard to its last word."""
        # Something that it started may hold the socket open for as long as it likes: then quiet is the only sign.
        iopub, heard = self._wires["iopub"], -1
        while not iopub.lost.is_set() and heard != iopub.heard:
            heard = iopub.heard
            with anyio.move_on_after(QUIET_S):
                await iopub.lost.wait()

    def _wire(self, channel: Channel) -> Wire:
        take = partial(self._receive, channel)
        if channel == "iopub":
            return Wire("SUB", take)
        return Wire("DEALER", take, identity=self._identity)

    async def _connect(self, channel: Channel) -> None:
        """Stay connected: a spawned kernel binds when it pleases, and whoever ferries for it may be there before it."""
        wire, retry_s = self._wires[channel], RECONNECT_S
        while wire.error is None:
            try:
                await asyncio.get_running_loop().create_unix_connection(
                    lambda: wire, self._connection.path(channel)
                )
            except OSError:  # nobody listens there yet, or any more
                pass
            else:
                await wire.lost.wait()
            await anyio.sleep(retry_s)
            retry_s = min(2 * retry_s, MAX_RECONNECT_S)
        raise wire.error

    async def _prove(self) -> dict[str, Any]:
        """Ask for kernel_info until both the reply and its idle status came: then nothing later can be missed."""
        retry_s = PROOF_RETRY_S
        info: dict[str, Any] | None = None
        while True:
            message_id = new_message_id()
            self._proofs.add(message_id)
            pending = self._pending[message_id] = Pending()
            self._send("shell", "kernel_info_request", {}, message_id)
            with anyio.move_on_after(retry_s):
                await pending.done.wait()
                await self._idle_seen.wait()
            if pending.reply is not None:
                info = read_reply(pending.reply)
                # Requests that were answered late would otherwise wait for their reply for ever.
                self._pending = {
                    key: value for key, value in self._pending.items() if key not in self._proofs
                }
                if self._idle_seen.is_set():
                    self._proofs.clear()
                    return info
            retry_s = min(2 * retry_s, MAX_PROOF_RETRY_S)

    def _receive(self, channel: Channel, said: list[bytes] | Oversized) -> None:
        if isinstance(said, Oversized):
            self._tell_dropped(channel, said.length)
            return
        try:
            message = self._codec.decode(channel, said)
        except BadMessageError as error:
            self._refuse(channel, str(error))
        else:
            self._take(message)

    def _tell_dropped(self, channel: Channel, length: int) -> None:
        self._refuse(channel, f"it has {length:,} bytes")
        if self._speaker is not None:
            text = (
                f"[cellwright: a message of {length:,} bytes was dropped; "
                f"one may have {MAX_MESSAGE_BYTES:,}]\n"
            )
            told = msgspec.json.encode({"name": "stderr", "text": text})
            self._hand_on(Message("iopub", "stream", self._speaker, told, b"{}"))

    def _refuse(self, channel: Channel, reason: str) -> None:
        # Code that sends nonsense on purpose must not fill a log.
        self._refused += 1
        if self._refused <= TOLD_REFUSALS:
            log.warning("kernel_message_refused", extra={"channel": channel, "reason": reason})

    def _take(self, message: Message) -> None:
        try:
            self._dispatch(message)
        except Exception:  # boundary: whatever a kernel says, the next message is heard
            log.exception("kernel_message_failed", extra={"channel": message.channel, "kind": message.kind})

    def _dispatch(self, message: Message) -> None:
        if message.parent_id in self._proofs and message.channel == "iopub":
            if message.kind == "status" and b'"idle"' in message.content:
                self._idle_seen.set()
            return
        if message.kind == "execute_input":
            self._speaker = message.parent_id
        self._hand_on(message)

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        if self._gone is not None or channel not in self._wires:
            raise self._gone_error()
        self._wires[channel].send(self._codec.encode(kind, content, message_id=message_id))


# ZeroMQ's wire format (ZMTP 3.0 without security), as far as a client of Jupyter kernels speaks it. Pure.

MAX_MESSAGE_BYTES = 64 << 20

# More than these are sent by nobody who means the message to end.
MAX_PASSED_BYTES = 1 << 30

MAX_FRAMES = 10_000

MAX_COMMAND_BYTES = 4096

MORE, LONG, COMMAND = 1, 2, 4

LENGTH = {0: 1, LONG: 8}
"""How many bytes say how long a frame is."""

GREETING_BYTES = 64

SIGNATURE = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"

VERSION = b"\x03\x00"

NULL = b"NULL".ljust(20, b"\x00")

SUBSCRIBE_TO_ALL = b"\x01"
"""The first message of a SUB that wants to hear everything."""


class ProtocolError(Exception):
    """What the peer said is not ZMTP."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """Stands for a message that was too long to be kept."""

    length: int


def greeting(socket_type: str, *, identity: bytes = b"") -> bytes:
    """All that a client says before its peer is ready for messages."""
    opening = (SIGNATURE + VERSION + NULL).ljust(GREETING_BYTES, b"\x00")
    properties = {b"Socket-Type": socket_type.encode(), b"Identity": identity}
    body = b"\x05READY" + b"".join(_property(name, value) for name, value in properties.items())
    return opening + _frame(COMMAND, body)


def message_bytes(frames: Iterable[bytes]) -> bytes:
    """A message as it goes over the wire."""
    *first, last = frames
    return b"".join([*(_frame(MORE, frame) for frame in first), _frame(0, last)])


def _frame(flags: int, body: bytes) -> bytes:
    kind = 0 if len(body) < 256 else LONG  # what a byte can say
    return bytes([flags | kind]) + len(body).to_bytes(LENGTH[kind], "big") + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value


class Reader:
    """Takes what one peer says, in pieces of any length, and hands out whole messages."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._unread = bytearray()
        self._at = 0
        """How much of that is done with."""
        self._greeted = False
        self.peer_is_ready = False
        """Whether it takes messages; libzmq ends a connection over which one comes before."""
        self._frames: list[bytes] = []
        self._length = 0
        """Of the message that is not over, as far as it came."""
        self._count = 0
        """Its frames."""
        self._passing: _Passing | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[list[bytes] | Oversized]:
        """Yield each message that ends here.

        Raises:
            ProtocolError: this is no peer; whatever else it says cannot be read.
        """
        self._unread += data
        self._greeted = self._greeted or self._read_greeting()
        while self._greeted and (frame := self._next_frame()) is not None:
            flags, length, body = frame
            if flags & COMMAND:
                self._obey(body)
                continue
            self._length += length
            self._count += 1
            oversized = self._length > self._max_bytes
            if not oversized:
                self._frames.append(body)
            if not flags & MORE:
                yield Oversized(self._length) if oversized else self._frames
                self._frames, self._length, self._count = [], 0, 0
            elif self._count > MAX_FRAMES:
                raise ProtocolError(f"a message of more than {MAX_FRAMES:,} frames")
        del self._unread[: self._at]
        self._at = 0

    def _read_greeting(self) -> bool:
        if len(self._unread) < GREETING_BYTES:
            return False
        said, self._at = self._unread[:GREETING_BYTES], GREETING_BYTES
        if said[0] != SIGNATURE[0] or said[9] != SIGNATURE[9] or said[10] < VERSION[0]:
            raise ProtocolError("it does not greet as ZMTP 3 does")
        if said[12:32] != NULL:
            raise ProtocolError("it wants a secured connection")
        return True

    def _obey(self, command: bytes) -> None:
        if command.startswith(b"\x05READY"):
            self.peer_is_ready = True
        elif command.startswith(b"\x05ERROR"):
            raise ProtocolError(f"it refuses the connection: {command[7:].decode(errors='replace')}")

    def _next_frame(self) -> tuple[int, int, bytes] | None:
        """The flags, length and content of the next whole frame; one that makes its message too long comes empty."""
        if self._passing is None:
            head = self._read_head()
            if head is None:
                return None
            flags, start, length = head
            if flags & COMMAND and length > MAX_COMMAND_BYTES:
                raise ProtocolError(f"a command of {length:,} bytes")
            if flags & COMMAND or self._length + length <= self._max_bytes:
                end = start + length
                if end > len(self._unread):
                    return None
                self._at = end
                return flags, length, bytes(self._unread[start:end])
            if self._length + length > MAX_PASSED_BYTES:
                raise ProtocolError(f"a message of more than {MAX_PASSED_BYTES:,} bytes")
            self._frames, self._at = [], start
            self._passing = _Passing(flags, length, left=length)
        return self._pass_over(self._passing)

    def _read_head(self) -> tuple[int, int, int] | None:
        """A frame's flags, where its content starts, and how long that is."""
        if self._at >= len(self._unread):
            return None
        flags = self._unread[self._at]
        start = self._at + 1 + LENGTH[flags & LONG]
        if start > len(self._unread):
            return None
        return flags, start, int.from_bytes(self._unread[self._at + 1 : start], "big")

    def _pass_over(self, passing: _Passing) -> tuple[int, int, bytes] | None:
        passed = min(passing.left, len(self._unread) - self._at)
        self._at += passed
        passing.left -= passed
        if passing.left:
            return None
        self._passing = None
        return passing.flags, passing.length, b""


@dataclass(slots=True)
class _Passing:
    """A frame that nobody wants, while it comes."""

    flags: int
    length: int
    left: int
