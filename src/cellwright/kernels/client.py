"""Speaks with one kernel over its sockets: sends requests, hands on what it says. Knows no process (see processes).

Nothing is dropped but messages that no kernel in its right mind sends (``zmtp``): what arrives is handed on at once,
and what fills a socket waits in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import anyio
import anyio.abc
import msgspec

from cellwright.kernels import zmtp
from cellwright.kernels.connection_file import Connection
from cellwright.kernels.messages import BadMessageError, Channel, Codec, Message, new_message_id
from cellwright.kernels.requests import Client, Pending, read_reply

__all__ = ["KernelClient"]

log = logging.getLogger(__name__)

CHANNELS: tuple[Channel, ...] = ("iopub", "shell", "control")
STDIN: Channel = "stdin"
NO_INPUT = "The code asked for input. Nobody can be asked here: it got an empty line.\n"
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
        take: Callable[[list[bytes] | zmtp.Oversized], None],
        *,
        identity: bytes = b"",
    ) -> None:
        self.heard = 0
        """Bytes, so far."""
        self.lost = anyio.Event()
        """Set when the connection that there was has ended."""
        self.error: zmtp.ProtocolError | None = None
        self._greeting = zmtp.greeting(socket_type, identity=identity)
        self._subscription = zmtp.message_bytes([zmtp.SUBSCRIBE_TO_ALL]) if socket_type == "SUB" else b""
        self._take = take
        self._buffer = bytearray(READ_BYTES)
        self._reader: zmtp.Reader
        self._transport: asyncio.WriteTransport | None = None
        self._ready = False
        self._unsent = b""

    def send(self, frames: Sequence[bytes]) -> None:
        self._unsent += zmtp.message_bytes(frames)
        self._flush()

    def _flush(self) -> None:
        if self._ready and self._transport is not None:
            self._transport.write(self._unsent)
            self._unsent = b""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]  # a socket's
        self._transport, self._reader, self.lost = transport, zmtp.Reader(), anyio.Event()
        transport.write(self._greeting)

    def get_buffer(self, sizehint: int) -> bytearray:  # asyncio's
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += nbytes
        try:
            for message in self._reader.feed(memoryview(self._buffer)[:nbytes]):
                self._take(message)
        except zmtp.ProtocolError as error:
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

    def __init__(self, connection: Connection, *, answers_input: bool = False) -> None:
        """``answers_input`` is for kernels that ask for input though they are told that nobody can give any."""
        super().__init__()
        self._identity = new_message_id().encode()
        self._channels = (*CHANNELS, STDIN) if answers_input else CHANNELS
        self._asked: set[str] = set()
        """Executions that were told that nobody answers."""
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
                for channel in self._channels:
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
        # A kernel asks whoever sent the request for input, and knows them by this.
        return Wire("DEALER", take, identity=self._identity if STDIN in self._channels else b"")

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

    def _receive(self, channel: Channel, said: list[bytes] | zmtp.Oversized) -> None:
        if isinstance(said, zmtp.Oversized):
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
                f"one may have {zmtp.MAX_MESSAGE_BYTES:,}]\n"
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
        if message.kind == "input_request":
            self._answer_input(message)
            return
        if message.kind == "execute_input":
            self._speaker = message.parent_id
        self._hand_on(message)

    def _answer_input(self, message: Message) -> None:
        if STDIN in self._wires and self._gone is None:
            self._send(STDIN, "input_reply", {"value": "", "status": "ok"}, new_message_id())
        if message.parent_id not in self._asked:
            self._asked = {message.parent_id}
            told = msgspec.json.encode({"name": "stderr", "text": NO_INPUT})
            self._hand_on(Message("iopub", "stream", message.parent_id, told, b"{}"))

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        if self._gone is not None or channel not in self._wires:
            raise self._gone_error()
        self._wires[channel].send(self._codec.encode(kind, content, message_id=message_id))
