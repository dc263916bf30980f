"""Speaks with one kernel: sends requests, hands on what it says. Knows no process (see processes).

Every message from iopub, and every shell reply that nobody waits for, goes to ``on_message`` in the order of
arrival. Nothing is dropped: receive queues have no limit, and what fills them is capped inside the kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
import zmq
import zmq.asyncio

from cellwright.errors import KernelGone
from cellwright.kernels.connections import Connection
from cellwright.kernels.messages import BadMessageError, Channel, Codec, Message, new_message_id

__all__ = ["KernelClient", "new_context"]

log = logging.getLogger(__name__)

MAX_SOCKETS = 1 << 14
CHANNELS: tuple[Channel, ...] = ("iopub", "shell", "control")
PROOF_RETRY_S = 0.05
MAX_PROOF_RETRY_S = 2.0
RECONNECT_MS = 10
MAX_RECONNECT_MS = 200
BURST = 64
QUIET_S = 0.05


def new_context() -> zmq.asyncio.Context:
    """A context with room for thousands of kernels; the default ends near 200."""
    context = zmq.asyncio.Context()
    context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
    return context


class _Pending:
    """A request that somebody waits for."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: bytes | None = None


class KernelClient:
    """The connection to one kernel, alive while ``run`` is."""

    def __init__(self, connection: Connection, context: zmq.asyncio.Context) -> None:
        self.on_message: Callable[[Message], None] = _ignore
        self._connection = connection
        self._context = context
        self._codec = Codec(connection.key)
        self._sockets: dict[Channel, zmq.asyncio.Socket] = {}
        self._pending: dict[str, _Pending] = {}
        self._proofs: set[str] = set()
        self._idle_seen = anyio.Event()
        self._gone: str | None = None

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[dict[str, Any]] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Connect, prove that the kernel answers and is heard, then receive until cancelled.

        ``started`` gets the content of its kernel_info_reply.
        """
        try:
            for channel in CHANNELS:
                self._sockets[channel] = self._connect(channel)
            async with anyio.create_task_group() as tasks:
                for channel in CHANNELS:
                    tasks.start_soon(self._receive, channel)
                task_status.started(await self._prove())
        finally:
            self.close("the connection was closed")
            for socket in self._sockets.values():
                socket.close(linger=0)

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
            KernelGone: the kernel ended before it answered.
            TimeoutError: it did not answer in time.
        """
        message_id = new_message_id()
        pending = self._pending[message_id] = _Pending()
        try:
            self._send(channel, kind, content, message_id)
            with anyio.fail_after(timeout_s):
                await pending.done.wait()
        finally:
            self._pending.pop(message_id, None)
        if pending.reply is None:
            raise self._gone_error()
        reply: dict[str, Any] = msgspec.json.decode(pending.reply)
        return reply

    async def interrupt(self, *, timeout_s: float) -> None:
        """Ask the kernel to interrupt itself and the subprocesses of its group."""
        await self.request("interrupt_request", {}, timeout_s=timeout_s, channel="control")

    async def shutdown_request(self, *, timeout_s: float) -> None:
        """Ask the kernel to end; it is still there when it has answered."""
        await self.request("shutdown_request", {"restart": False}, timeout_s=timeout_s, channel="control")

    async def drain(self) -> None:
        """Wait until a kernel that has ended was heard to its last word."""
        iopub = self._sockets["iopub"]
        # The sockets' buffers outlive the process, but nothing marks their end: quiet is the only sign.
        while await iopub.poll(int(QUIET_S * 1000)):
            await anyio.lowlevel.checkpoint()

    def close(self, reason: str) -> None:
        """End every wait for a reply with KernelGone, and refuse new requests."""
        self._gone = self._gone or reason
        for pending in self._pending.values():
            pending.done.set()

    def _connect(self, channel: Channel) -> zmq.asyncio.Socket:
        socket = self._context.socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
        socket.linger = 0
        socket.rcvhwm = socket.sndhwm = 0
        # A spawned kernel binds when it pleases: zmq's own 100 ms between attempts would be added to its start.
        socket.reconnect_ivl = RECONNECT_MS
        socket.reconnect_ivl_max = MAX_RECONNECT_MS
        if channel == "iopub":
            socket.subscribe(b"")
        socket.connect(self._connection.url(channel))
        return socket

    async def _prove(self) -> dict[str, Any]:
        """Ask for kernel_info until both the reply and its idle status came: then nothing later can be missed."""
        retry_s = PROOF_RETRY_S
        info: dict[str, Any] | None = None
        while True:
            message_id = new_message_id()
            self._proofs.add(message_id)
            pending = self._pending[message_id] = _Pending()
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
                    self._dispatch(message)
            # Frames that are there already are returned without yielding: others must get their turn.
            await anyio.lowlevel.checkpoint()

    def _dispatch(self, message: Message) -> None:
        if message.parent_id in self._proofs and message.channel == "iopub":
            if message.kind == "status" and b'"idle"' in message.content:
                self._idle_seen.set()
            return
        pending = self._pending.get(message.parent_id)
        if message.channel != "iopub" and pending is not None:
            pending.reply = message.content
            pending.done.set()
            return
        try:
            self.on_message(message)
        except Exception:  # boundary: a listener's mistake must not deafen the connection
            log.exception("kernel_listener_failed")

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any], message_id: str) -> None:
        if self._gone is not None or channel not in self._sockets:
            raise self._gone_error()
        # Without a high-water mark a send never has to wait, so there is no future to await.
        self._sockets[channel].send_multipart(self._codec.encode(kind, content, message_id=message_id))

    def _gone_error(self) -> KernelGone:
        return KernelGone(f"The kernel did not answer: {self._gone or 'it was never connected'}")


def _ignore(_: Message) -> None:
    """What a client does with messages until somebody listens."""
