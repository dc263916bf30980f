"""Speaks with one kernel over its sockets: sends requests, hands on what it says. Knows no process (see processes).

Nothing is dropped: receive queues have no limit, and what fills them is capped inside the kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
import zmq
import zmq.asyncio

from cellwright.kernels.connections import Connection
from cellwright.kernels.correspondence import Client, Pending
from cellwright.kernels.messages import BadMessageError, Channel, Codec, Message, new_message_id

__all__ = ["KernelClient", "new_context"]

log = logging.getLogger(__name__)

MAX_SOCKETS = 1 << 14
CHANNELS: tuple[Channel, ...] = ("iopub", "shell", "control")
STDIN: Channel = "stdin"
NO_INPUT = "The code asked for input. Nobody can be asked here: it got an empty line.\n"
PROOF_RETRY_S = 0.05
MAX_PROOF_RETRY_S = 2.0
RECONNECT_MS = 10
MAX_RECONNECT_MS = 200
BURST = 64
QUIET_LOOKS = 5
QUIET_LOOK_MS = 10


def new_context() -> zmq.asyncio.Context:
    """A context with room for thousands of kernels; the default ends near 200."""
    context = zmq.asyncio.Context()
    context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
    return context


class KernelClient(Client):
    """The connection to one kernel, alive while ``run`` is."""

    def __init__(
        self, connection: Connection, context: zmq.asyncio.Context, *, answers_input: bool = False
    ) -> None:
        """``answers_input`` is for kernels that ask for input though they are told that nobody can give any."""
        super().__init__()
        self._identity = new_message_id().encode()
        self._channels = (*CHANNELS, STDIN) if answers_input else CHANNELS
        self._asked: set[str] = set()
        """Executions that were told that nobody answers."""
        self._connection = connection
        self._context = context
        self._codec = Codec(connection.key)
        self._sockets: dict[Channel, zmq.asyncio.Socket] = {}
        self._proofs: set[str] = set()
        self._idle_seen = anyio.Event()

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[dict[str, Any]] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Connect, prove that the kernel answers and is heard, then receive until cancelled.

        ``started`` gets the content of its kernel_info_reply.
        """
        try:
            for channel in self._channels:
                self._sockets[channel] = self._connect(channel)
            async with anyio.create_task_group() as tasks:
                for channel in self._channels:
                    tasks.start_soon(self._receive, channel)
                task_status.started(await self._prove())
        finally:
            self.close("the connection was closed")
            for socket in self._sockets.values():
                socket.close(linger=0)

    async def drain(self) -> None:
        """Wait until a kernel that has ended was heard to its last word."""
        iopub = self._sockets["iopub"]
        # The sockets' buffers outlive the process, but nothing marks their end: quiet is the only sign. Some looks
        # rather than some time: where all stood still, zmq's own thread has yet to read what is there.
        quiet = 0
        while quiet < QUIET_LOOKS:
            quiet = 0 if await iopub.poll(QUIET_LOOK_MS) else quiet + 1
            await anyio.lowlevel.checkpoint()

    def _connect(self, channel: Channel) -> zmq.asyncio.Socket:
        socket = self._context.socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
        socket.linger = 0
        socket.rcvhwm = socket.sndhwm = 0
        # A spawned kernel binds when it pleases: zmq's own 100 ms between attempts would be added to its start.
        socket.reconnect_ivl = RECONNECT_MS
        socket.reconnect_ivl_max = MAX_RECONNECT_MS
        if channel == "iopub":
            socket.subscribe(b"")
        elif STDIN in self._channels:
            # A kernel asks whoever sent the request, which it knows by this.
            socket.routing_id = self._identity
        socket.connect(self._connection.url(channel))
        return socket

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
                info = msgspec.json.decode(pending.reply)
                # Requests that were answered late would otherwise wait for their reply for ever.
                self._pending = {
                    key: value for key, value in self._pending.items() if key not in self._proofs
                }
                if self._idle_seen.is_set():
                    self._proofs.clear()
                    return info
            retry_s = min(2 * retry_s, MAX_PROOF_RETRY_S)

    async def _receive(self, channel: Channel) -> None:
        socket = self._sockets[channel]
        while True:
            for _ in range(BURST):
                frames = await socket.recv_multipart()
                try:
                    message = self._codec.decode(channel, frames)
                except BadMessageError as error:
                    log.warning("kernel_message_refused", extra={"channel": channel, "reason": str(error)})
                else:
                    self._take(message)
            # Frames that are there already are returned without yielding: others must get their turn.
            await anyio.lowlevel.checkpoint()

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
        self._hand_on(message)

    def _answer_input(self, message: Message) -> None:
        if STDIN in self._sockets and self._gone is None:
            self._send(STDIN, "input_reply", {"value": "", "status": "ok"}, new_message_id())
        if message.parent_id not in self._asked:
            self._asked = {message.parent_id}
            told = msgspec.json.encode({"name": "stderr", "text": NO_INPUT})
            self._hand_on(Message("iopub", "stream", message.parent_id, told, b"{}"))

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        if self._gone is not None or channel not in self._sockets:
            raise self._gone_error()
        # Without a high-water mark a send never has to wait, so there is no future to await.
        self._sockets[channel].send_multipart(self._codec.encode(kind, content, message_id=message_id))
