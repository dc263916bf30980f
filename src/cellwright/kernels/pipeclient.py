"""Speaks with one kernel over a pair of pipes, in lines (see ``lines``). Knows no process (see ``processes``).

What the kernel's process prints there without its token is standard output of the cell that runs. Nothing is held
here: what arrives is handed on, and what fills the pipe waits in it.
"""

from __future__ import annotations

import codecs
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import msgspec

from cellwright.kernels.correspondence import Client, Pending
from cellwright.kernels.lines import Line, Piece, Printed, Splitter, message_of
from cellwright.kernels.messages import BadMessageError, Channel, Message, new_message_id

__all__ = ["PipeClient", "Pipes"]

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
