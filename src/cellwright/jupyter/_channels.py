"""Speaks with one kernel over a Jupyter server's WebSocket, and over the next one when that is cut.

The same session id is kept, so that the server replays what it kept meanwhile; what may be missing all the same is
told (``channels``). Nothing is held here but what waits to be sent: what arrives is handed on at once, and while that
takes its time the socket is not read.
"""

from __future__ import annotations

import logging
import re
import ssl
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast, get_args

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.protocol import State
from websockets.typing import Subprotocol

from cellwright.errors import KernelGone
from cellwright.jupyter import _lifetime
from cellwright.jupyter._lifetime import RemoteLifetime
from cellwright.jupyter._rest import NOT_FOUND, ServerRefused, status_text
from cellwright.jupyter._servers import is_loopback, joined, websocket_url
from cellwright.kernels.client import BadMessageError, Channel, Client, Message, Pending, new_message_id

__all__ = [
    "Channels",
    "Ledger",
    "Received",
    "decode_json",
    "decode_v1",
    "encode_json",
    "encode_v1",
    "header_of",
]

log = logging.getLogger(__name__)

OPEN_S = 30.0

PING_S = 10.0

# As long as Jupyter's own servers wait for others: one that is cut off while it is busy loses what it was about to say.
PONG_S = 30.0

# Output of this size is no use to anybody; the connection is then made again.
MAX_MESSAGE_BYTES = 128 << 20

FIRST_WAIT_S = 0.1

LONGEST_WAIT_S = 5.0

# Frames that were received and not yet handed on.
MAX_FRAMES = 16

_ENDED = frozenset({"restarting", "autorestarting", "dead"})


class Channels(Client):
    """The connection to one kernel on a server, alive while ``run`` is."""

    def __init__(self, life: RemoteLifetime, session_id: str, *, unreachable_s: float) -> None:
        super().__init__(is_ours=False)
        self._life = life
        self._api = life.tenancy.api
        self._kernel_id = life.tenancy.kernel_id
        self.session_id = session_id
        self._unreachable_s = unreachable_s
        self._ledger = Ledger()
        self._unsent: deque[tuple[Channel, str, Mapping[str, Any], str]] = deque()
        self._to_send = anyio.Event()
        self._cut_at: float | None = None
        self.trouble = ""
        """Why there is no connection, while there is none."""

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[dict[str, Any]] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Connect, prove that the kernel answers, then receive until cancelled, from one connection after the other."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stay_connected)
                task_status.started(await self._prove())
        finally:
            self.close("the connection was closed")

    async def drain(self) -> None:
        """Nothing is left in between: what the server sent was handed on as it came."""

    async def interrupt(self, *, timeout_s: float) -> None:
        """Have the server interrupt it, in whatever way that kernel is interrupted."""
        try:
            with anyio.fail_after(timeout_s):
                await self._api.interrupt_kernel(self._kernel_id)
        except ServerRefused as error:
            raise KernelGone(error.message, hint=error.hint) from None

    async def shutdown_request(self, *, timeout_s: float) -> None:  # its life takes what it needs
        """Have it end there, or go on without us where it is somebody else's."""
        self._life.kill_tree("it was stopped")

    async def _prove(self) -> dict[str, Any]:
        """Ask on two channels: one that runs a cell already answers on control alone, if at all."""
        asked = {channel: (new_message_id(), Pending()) for channel in ("shell", "control")}
        async with anyio.create_task_group() as either:

            async def wait(pending: Pending) -> None:
                await pending.done.wait()
                either.cancel_scope.cancel()

            for channel, (message_id, pending) in asked.items():
                self._pending[message_id] = pending
                self._send(
                    "shell" if channel == "shell" else "control", "kernel_info_request", {}, message_id
                )
                either.start_soon(wait, pending)
        for _, pending in asked.values():
            if pending.reply is not None:
                with suppress(msgspec.MsgspecError, RecursionError):
                    return msgspec.json.decode(pending.reply, type=dict[str, Any])
                self._life.told(_lifetime.ended_there(self._api.name, "it does not answer as a kernel does"))
        # Its end is noticed and explained by whoever watches its life.
        await anyio.sleep_forever()
        raise AssertionError

    # Connections -------------------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        """Be connected, and connect again after a cut, until the kernel is gone or given up."""
        wait_s = FIRST_WAIT_S
        self._cut_at = time.monotonic()
        while not self._is_over():
            try:
                async with self._connect() as socket:
                    wait_s = FIRST_WAIT_S
                    await self._converse(socket)
            except InvalidStatus as error:
                self._refused(error.response.status_code)
            except (OSError, WebSocketException, TimeoutError) as error:
                self.trouble = _error_text(error)
            if not self._is_over():
                # What a refused WebSocket does not tell, a plain request does: a proxy in between knows no kernels.
                await self._life.look()
                await anyio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _connect(self) -> connect:
        url = joined(self._api.url, "api", "kernels", self._kernel_id, "channels")
        return _Connect(
            f"{websocket_url(url)}?session_id={self.session_id}",
            subprotocols=[Subprotocol(V1)],
            additional_headers=self._api.headers,
            open_timeout=OPEN_S,
            ping_interval=PING_S,
            ping_timeout=PONG_S,
            close_timeout=1,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=MAX_FRAMES,
            compression=None,
            # As with plain requests: a proxy of the environment's cannot know what is this machine's own.
            proxy=None if is_loopback(self._api.url) else True,
        )

    def _refused(self, status: int) -> None:
        if status == NOT_FOUND:
            self._life.told(_lifetime.culled(self._api.name))
        else:
            self.trouble = f"{status_text(status, self._api.name, self._api.url)[0]} ({status})"

    def _is_over(self) -> bool:
        """Whether to stop trying; a server that is out of reach for too long is given up."""
        if self._life.is_over:
            return True
        out_of_reach = time.monotonic() - self._cut_at if self._cut_at is not None else 0.0
        if out_of_reach > self._unreachable_s:
            self._life.told(_lifetime.unreachable(self._api.name, out_of_reach, self.trouble))
            return True
        return False

    async def _converse(self, socket: ClientConnection) -> None:
        """Send and receive until this connection is cut."""
        self._resume()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, socket)
                await self._read(socket)
                tasks.cancel_scope.cancel()
        finally:
            self._ledger.cut()
            self._cut_at = time.monotonic()

    def _resume(self) -> None:
        probe_id = new_message_id()
        after_s = time.monotonic() - self._cut_at if self._cut_at is not None else 0.0
        self._cut_at = None
        self.trouble = ""
        if self._ledger.reconnected(probe_id, after_s=after_s):
            self._unsent.appendleft(("shell", "kernel_info_request", {}, probe_id))
            self._to_send.set()

    # What is sent ------------------------------------------------------------------------------------------------

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        if self._gone is not None:
            raise self._gone_error()
        self._unsent.append((channel, kind, content, message_id))
        self._to_send.set()

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            await self._to_send.wait()
            self._to_send = anyio.Event()
            while self._unsent and socket.state is State.OPEN:
                # Taken out first: of what was on its way in a cut nobody knows, and no cell may run twice.
                channel, kind, content, message_id = self._unsent.popleft()
                if kind == "execute_request":
                    self._ledger.sent(message_id)
                header = header_of(kind, message_id, self.session_id, self._api.username or "cellwright")
                encode = encode_v1 if socket.subprotocol == V1 else encode_json
                try:
                    await socket.send(encode(channel, header, content))
                except ConnectionClosed:
                    return

    # What is heard -----------------------------------------------------------------------------------------------

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for frame in socket:
                self._decode(frame, v1=socket.subprotocol == V1)
                # Frames that are there already are returned without yielding: others must get their turn.
                await anyio.lowlevel.checkpoint()
        except ConnectionClosed as error:
            self.trouble = _error_text(error)
        else:
            self.trouble = "the server closed the connection"

    def _decode(self, frame: str | bytes, *, v1: bool) -> None:
        try:
            heard = decode_v1(frame) if v1 and isinstance(frame, bytes) else decode_json(frame)
            messages = self._ledger.heard(heard)
            if self._ledger.restarted:
                self._life.told(_lifetime.restarted_there(self._api.name))
                return
            for message in messages:
                self._take(message)
        except BadMessageError as error:
            log.warning("kernel_message_refused reason=%s", error)
        except Exception:  # boundary: whatever a server says, its connection and everybody's kernels go on
            log.exception("kernel_message_failed")

    def _take(self, message: Message) -> None:
        if message.channel == "iopub" and message.kind in ("status", "shutdown_reply"):
            self._look_for_end(message)
        self._hand_on(message)

    def _look_for_end(self, message: Message) -> None:
        content = msgspec.json.decode(message.content, type=dict[str, Any])
        if message.kind == "shutdown_reply":
            restarted = bool(content.get("restart"))
            self._life.told((_lifetime.restarted_there if restarted else _lifetime.culled)(self._api.name))
        elif str(content.get("execution_state")) in _ENDED:
            self._life.told(_lifetime.ended_there(self._api.name))


class _Connect(connect):
    """Connects to the address that was given, or not at all: a token goes nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Follow no redirect."""
        return exc


def _error_text(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(error).strip() or type(error).__name__


# What is owed to executions over a connection that may be cut: whose end is awaited, and what may have been
# missed.

# A kernel that counts its messages: its session, its process, and how many it has sent before this one.
_COUNTED = re.compile(r"(.+)_(\d+)\Z")

LOST_NAME = "ConnectionCut"

LOST = (
    "The connection to the Jupyter server was cut while this ran, and its end was missed: it is over, "
    "and what it did stands, but how it ended is not known"
)

# What a server says in the output when it drops what comes too fast for it.
_RATE_LIMITED = (b"IOPub data rate exceeded", b"IOPub message rate exceeded")

_FROM_THE_KERNEL = frozenset({"execute_input", "execute_reply", "kernel_info_reply"})


@dataclass(slots=True)
class _Execution:
    replied: bool = False
    idle: bool = False
    limited_at: int | None = None
    """The kernel's number when its server began to drop output."""
    seen: int = 0
    """Messages of the kernel's since then."""


@dataclass(slots=True)
class _Count:
    """What a kernel's own numbers tell since a cut."""

    source: str
    last: int
    """The highest that was seen before."""
    highest: int = -1
    """Of those published, which come in order."""
    published: int = 0
    replies: list[int] = field(default_factory=list)
    """On other channels, which may be ahead: a probe's is often heard before the end of what ran."""

    def saw(self, number: int, channel: str) -> None:
        if channel == "iopub":
            self.highest = max(self.highest, number)
            self.published += 1
        else:
            self.replies.append(number)

    @property
    def missing(self) -> int:
        """How many have not been seen up to the last published one."""
        replies = sum(number <= self.highest for number in self.replies)
        return self.highest - self.last - self.published - replies


@dataclass(slots=True)
class Ledger:
    """The executions that one kernel was sent and that have not ended, as far as was heard."""

    _open: dict[str, _Execution] = field(default_factory=dict)
    _source: str = ""
    _last: int = -1
    _cut: _Count | None = None
    _cut_s: float | None = None
    _affected: set[str] = field(default_factory=set)
    """Executions that ran when the connection was cut, and have not been told."""
    _probe: str | None = None
    _probed: set[str] = field(default_factory=set)
    _probe_replied: bool = False
    _probe_idle: bool = False
    _sources: dict[str, str] = field(default_factory=dict)
    """Who has sent each kind of message that only kernels send."""
    restarted: bool = False
    """Whether another process speaks for the kernel by now: its end was not heard."""

    def sent(self, execution_id: str) -> None:
        """An execution is on its way."""
        self._open[execution_id] = _Execution()

    def cut(self) -> None:
        """The connection is gone; what runs goes on, unheard."""
        self._affected |= set(self._open)
        if self._cut is None and self._affected:
            self._cut = _Count(self._source, self._last)

    def reconnected(self, probe_id: str, *, after_s: float) -> bool:
        """Whether a probe, of this id, has to be sent first.

        The kernel answers it when all that was sent is over, and the answer tells whether it is still the same one.
        """
        if not self._affected and not self._sources:
            return False
        self._cut_s = after_s
        self._probe, self._probed = probe_id, set(self._affected)
        self._probe_replied = self._probe_idle = False
        return True

    def heard(self, heard: Received) -> list[Message]:
        """What is to be handed on for a message, in order: mostly it alone."""
        message = heard.message
        self._count(heard)
        if message.parent_id == self._probe:
            return self._answered(message)
        execution = self._open.get(message.parent_id)
        if execution is None:
            return [message]
        ahead: list[Message] = []
        if message.kind == "execute_reply":
            execution.replied = True
        elif message.kind == "stream" and any(words in message.content for words in _RATE_LIMITED):
            execution.limited_at = self._last if execution.limited_at is None else execution.limited_at
        elif _is_idle(message):
            execution.idle = True
            ahead = self._told_of_cut(message.parent_id, execution)
            message = self._accounted(message, execution)
        if execution.replied and execution.idle:
            del self._open[message.parent_id]
        return [*ahead, message]

    def _accounted(self, end: Message, execution: _Execution) -> Message:
        """The last message of an execution, telling how much of its output the server has dropped, if it has."""
        if execution.limited_at is None:
            return end
        missing = max(1, self._last - execution.limited_at - execution.seen)
        told = msgspec.json.encode({"cellwright": {"dropped_messages": missing}})
        return msgspec.structs.replace(end, metadata=told)

    def _count(self, heard: Received) -> None:
        match = _COUNTED.fullmatch(heard.id)
        if match is None:
            return
        source, number = match.group(1), int(match.group(2))
        if heard.message.kind in _FROM_THE_KERNEL:
            # Compared by kind: a server may answer one of them in the kernel's workspace.
            self.restarted |= self._sources.setdefault(heard.message.kind, source) != source
        if source != self._source:
            # Its server says things, too, and counts them by itself.
            if heard.message.kind not in _FROM_THE_KERNEL:
                return
            self._source, self._last = source, number
        self._last = max(self._last, number)
        for execution in self._open.values():
            if execution.limited_at is not None and number > execution.limited_at:
                execution.seen += 1
        if self._cut is not None and source == self._cut.source and number > self._cut.last:
            self._cut.saw(number, heard.message.channel)

    def _told_of_cut(self, execution_id: str, execution: _Execution) -> list[Message]:
        """A line about what an execution may miss, if it may."""
        if execution_id not in self._affected:
            return []
        self._affected.discard(execution_id)
        # A kernel replies before it says that it is idle, on another channel: a reply that is still to come is no output.
        words = self._missing(to_come=not execution.replied)
        if not self._affected:
            self._cut = None
        if not words:
            return []
        text = f"[cellwright: the connection was cut for {self._cut_s or 0:.1f} s; {words}]\n"
        return [_made("stream", execution_id, {"name": "stderr", "text": text})]

    def _missing(self, *, to_come: int) -> str:
        cut = self._cut
        if cut is None:
            return ""
        if cut.last < 0 or cut.highest < 0:
            return "what the server kept of that time is here, and whether that is all cannot be told"
        missing = cut.missing - to_come
        return f"up to {missing} messages of that time may be missing" if missing > 0 else ""

    def _answered(self, message: Message) -> list[Message]:
        if message.kind == "kernel_info_reply":
            self._probe_replied = True
        elif _is_idle(message):
            self._probe_idle = True
        if not (self._probe_replied and self._probe_idle):
            return []
        probed, self._probe, self._probed = self._probed, None, set()
        return [made for one in sorted(probed & set(self._open)) for made in self._settled(one)]

    def _settled(self, execution_id: str) -> list[Message]:
        """What stands in for the end of an execution that is over and whose end nobody heard."""
        execution = self._open.pop(execution_id)
        made = self._told_of_cut(execution_id, execution)
        if not execution.replied:
            error = {"ename": LOST_NAME, "evalue": LOST, "traceback": []}
            made.append(_made("error", execution_id, error))
            reply = msgspec.json.encode({"status": "error", **error})
            made.append(Message("shell", "execute_reply", execution_id, reply, b"{}"))
        if not execution.idle:
            made.append(_made("status", execution_id, {"execution_state": "idle"}))
        return made


def _made(kind: str, parent_id: str, content: Mapping[str, object]) -> Message:
    return Message("iopub", kind, parent_id, msgspec.json.encode(content), b"{}")


def _is_idle(message: Message) -> bool:
    return message.channel == "iopub" and message.kind == "status" and b'"idle"' in message.content


# Jupyter's messages as frames of a WebSocket: the subprotocol v1, and the JSON of servers that do not have
# it.

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
