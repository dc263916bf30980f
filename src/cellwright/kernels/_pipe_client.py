"""Speaks with one kernel over a pair of pipes, in lines (see ``pipe_client``). Knows no process (see ``processes``).

What the kernel's process prints there without its token is standard output of the cell that runs. Nothing is held
here: what arrives is handed on, and what fills the pipe waits in it.
"""

from __future__ import annotations

import codecs
import json
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import anyio.abc
import msgspec

from cellwright.kernels.client import BadMessageError, Channel, Client, Message, Pending, new_message_id

__all__ = ["Line", "Piece", "PipeClient", "Pipes", "Printed", "Splitter", "TooLong", "message_of"]
log = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 << 20

READ_BYTES = 1 << 16

QUIET_S = 0.05

TOLD_REFUSALS = 10


class Pipes:
    """Two pipes between this process and one that is about to be started; its ends become its standard streams."""

    def __init__(self) -> None:
        self.their_input, self.our_output = os.pipe2(os.O_CLOEXEC)
        self.our_input, self.their_output = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.our_input, False)
        os.set_blocking(self.our_output, False)

    @property
    def theirs(self) -> list[int]:
        """The ends that go with the process, its input first."""
        return [self.their_input, self.their_output]

    def handed_over(self) -> None:
        """The process has its ends by now: close ours of them, so that its end is noticed."""
        self.their_input, self.their_output = _close(self.their_input), _close(self.their_output)

    def close(self) -> None:
        """Let go of everything; nobody may be reading or writing any more."""
        self.handed_over()
        self.our_input, self.our_output = _close(self.our_input), _close(self.our_output)


def _close(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


class PipeClient(Client):
    """The connection to one kernel that talks over its standard streams."""

    def __init__(self, pipes: Pipes, greeting: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """``greeting`` is what the kernel must know before anything else, once that is known here."""
        super().__init__()
        self._pipes = pipes
        self._greeting = greeting
        self._token = secrets.token_hex(16)
        self._splitter = Splitter(self._token.encode(), MAX_LINE_BYTES)
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._unsent = bytearray()
        self._to_send = anyio.Event()
        self._open = False
        self._speaker: str | None = None
        self._heard = 0
        self._refused = 0
        self._ended = anyio.Event()

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[dict[str, Any]] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Greet the kernel, prove that it answers, then receive until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive)
                tasks.start_soon(self._write)
                self._open = True
                self._write_soon({"token": self._token, **await self._greeting()})
                task_status.started(await self._prove())
        finally:
            self.close("the connection was closed")

    async def drain(self) -> None:
        """Wait until a kernel that has ended was heard to its last word."""
        # Something that it started may hold the pipe open for as long as it likes: then quiet is the only sign.
        heard = -1
        while not self._ended.is_set() and heard != self._heard:
            heard = self._heard
            with anyio.move_on_after(QUIET_S):
                await self._ended.wait()

    async def _prove(self) -> dict[str, Any]:
        message_id = new_message_id()
        pending = self._pending[message_id] = Pending()
        self._send("shell", "kernel_info_request", {}, message_id)
        await pending.done.wait()
        del self._pending[message_id]
        if pending.reply is None:
            # Its end is noticed and explained by whoever watches the process.
            await anyio.sleep_forever()
        info: dict[str, Any] = msgspec.json.decode(pending.reply or b"{}")
        return info

    # What is sent ------------------------------------------------------------------------------------------------

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        if self._gone is not None or not self._open:
            raise self._gone_error()
        self._write_soon({"channel": channel, "kind": kind, "id": message_id, "content": content})

    def _write_soon(self, message: Mapping[str, Any]) -> None:
        self._unsent += msgspec.json.encode(message) + b"\n"
        # Mostly there is room, and then nothing has to wait for a turn.
        self._write_some()
        if self._unsent:
            self._to_send.set()

    async def _write(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send = anyio.Event()
            while self._unsent:
                await anyio.wait_writable(self._pipes.our_output)
                self._write_some()

    def _write_some(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._pipes.our_output, self._unsent)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            # Nobody reads any more; the end of the process says why.
            self._unsent.clear()

    # What is heard -----------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            await anyio.wait_readable(self._pipes.our_input)
            try:
                data = os.read(self._pipes.our_input, READ_BYTES)
            except BlockingIOError:
                continue
            self._heard += len(data)
            for piece in self._splitter.feed(data) if data else self._splitter.rest():
                self._take(piece)
            if not data:
                self._ended.set()
                return

    def _take(self, piece: Piece) -> None:
        if isinstance(piece, Printed):
            self._print(piece.content)
        elif isinstance(piece, Line):
            try:
                message = message_of(piece.content)
            except BadMessageError as error:
                self._refuse(str(error))
            else:
                self._dispatch(message)
        else:
            self._refuse(f"a line of {piece.length} bytes")

    def _dispatch(self, message: Message) -> None:
        if message.kind == "execute_input" and message.channel == "iopub":
            self._speaker = message.parent_id
        self._hand_on(message)

    def _print(self, content: bytes) -> None:
        text = self._text.decode(content)
        if text and self._speaker is not None:
            told = msgspec.json.encode({"name": "stdout", "text": text})
            self._hand_on(Message("iopub", "stream", self._speaker, told, b"{}"))

    def _refuse(self, reason: str) -> None:
        # Code that sends nonsense on purpose must not fill a log.
        self._refused += 1
        if self._refused <= TOLD_REFUSALS:
            log.warning("kernel_line_refused reason=%s", reason)


# A kernel's messages as lines of a byte stream, and whatever else was printed there. Pure (pipes are
# ``pipe_client``'s).

NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class Line:
    """What stood between the token and the end of the line."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Printed:
    """Bytes that are no message."""

    content: bytes


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was skipped."""

    length: int


Piece = Line | Printed | TooLong


@dataclass(slots=True)
class Splitter:
    """Cuts a stream into messages and the rest."""

    token: bytes
    max_line_bytes: int
    _held: bytearray = field(default_factory=bytearray)
    _in_line: bool = False
    _searched: int = 0
    _skipped: int = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that are complete with these bytes."""
        self._held += data
        while (piece := self._line() if self._in_line else self._printed()) is not None:
            yield piece

    def rest(self) -> Iterator[Piece]:
        """What is left when nothing more will come; half a message is none."""
        if self._held and not self._in_line:
            yield Printed(bytes(self._held))
        self._held.clear()

    def _printed(self) -> Piece | None:
        at = self._held.find(self.token)
        if at >= 0:
            before = bytes(self._held[:at])
            del self._held[: at + len(self.token)]
            self._in_line, self._searched, self._skipped = True, 0, 0
            return Printed(before) if before else self._line()
        # The end may be the beginning of a token, of which the rest is on its way.
        kept = _overlap(self._held, self.token)
        before = bytes(self._held[: len(self._held) - kept])
        del self._held[: len(before)]
        return Printed(before) if before else None

    def _line(self) -> Piece | None:
        end = self._held.find(NEWLINE, self._searched)
        if end >= 0:
            content = bytes(self._held[:end])
            del self._held[: end + 1]
            self._in_line = False
            length = self._skipped + len(content)
            return TooLong(length) if length > self.max_line_bytes else Line(content)
        self._searched = len(self._held)
        if self._skipped + len(self._held) > self.max_line_bytes:
            self._skipped += len(self._held)
            self._held.clear()
            self._searched = 0
        return None


def _overlap(text: bytearray, token: bytes) -> int:
    """How many bytes at the end of the text are the beginning of the token."""
    return next(
        (count for count in range(min(len(text), len(token) - 1), 0, -1) if text.endswith(token[:count])), 0
    )


class _Envelope(msgspec.Struct):
    channel: Literal["iopub", "shell", "control", "stdin"]
    kind: str
    parent: str = ""
    content: msgspec.Raw = msgspec.Raw(b"{}")
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Envelope).decode

_read_object = msgspec.json.Decoder(dict[str, Any]).decode


def message_of(line: bytes) -> Message:
    """The message in a line.

    Raises:
        BadMessageError: it holds none.
    """
    try:
        return _message(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        # JavaScript's text may hold half characters (lone surrogates), which nobody else's may. Python's reader takes
        # them, and they are replaced when they are written.
        return _message(json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessageError(f"no message: {error}") from None


def _message(line: bytes) -> Message:
    found = _decode(line)
    content, metadata = bytes(found.content), bytes(found.metadata)
    # Others read both without a second thought.
    _read_object(content)
    _read_object(metadata)
    return Message(found.channel, found.kind, found.parent, content, metadata)
