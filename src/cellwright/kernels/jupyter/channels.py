"""Speaks with one kernel over a Jupyter server's WebSocket, and over the next one when that is cut.

The same session id is kept, so that the server replays what it kept meanwhile; what may be missing all the same is
told (``ledger``). Nothing is held here but what waits to be sent: what arrives is handed on at once, and while that
takes its time the socket is not read.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.protocol import State
from websockets.typing import Subprotocol

from cellwright.errors import KernelGone
from cellwright.kernels.correspondence import Client, Pending
from cellwright.kernels.jupyter import lives, wire
from cellwright.kernels.jupyter.addresses import is_loopback, joined, websocket_url
from cellwright.kernels.jupyter.ledger import Ledger
from cellwright.kernels.jupyter.lives import RemoteLife
from cellwright.kernels.jupyter.rest import NOT_FOUND, ServerRefused, words_for
from cellwright.kernels.messages import BadMessageError, Channel, Message, new_message_id

__all__ = ["Channels"]

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
_NO_INPUT = "The code asked for input. Nobody can be asked here: it got an empty line.\n"


class Channels(Client):
    """The connection to one kernel on a server, alive while ``run`` is."""

    def __init__(self, life: RemoteLife, session_id: str, *, unreachable_s: float) -> None:
        super().__init__()
        self._life = life
        self._api = life.tenancy.api
        self._kernel_id = life.tenancy.kernel_id
        self.session_id = session_id
        self._unreachable_s = unreachable_s
        self._ledger = Ledger()
        self._unsent: deque[tuple[Channel, str, Mapping[str, Any], str]] = deque()
        self._to_send = anyio.Event()
        self._cut_at: float | None = None
        self._asked: set[str] = set()
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

    async def shutdown_request(self, *, timeout_s: float) -> None:  # noqa: ARG002  # its life takes what it needs
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
                self._life.told(lives.ended_there(self._api.name, "it does not answer as a kernel does"))
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
                self.trouble = _words(error)
            if not self._is_over():
                # What a refused WebSocket does not tell, a plain request does: a proxy in between knows no kernels.
                await self._life.look()
                await anyio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _connect(self) -> connect:
        url = joined(self._api.url, "api", "kernels", self._kernel_id, "channels")
        return _Connect(
            f"{websocket_url(url)}?session_id={self.session_id}",
            subprotocols=[Subprotocol(wire.V1)],
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
            self._life.told(lives.culled(self._api.name))
        else:
            self.trouble = f"{words_for(status, self._api.name, self._api.url)[0]} ({status})"

    def _is_over(self) -> bool:
        """Whether to stop trying; a server that is out of reach for too long is given up."""
        if self._life.is_over:
            return True
        out_of_reach = time.monotonic() - self._cut_at if self._cut_at is not None else 0.0
        if out_of_reach > self._unreachable_s:
            self._life.told(lives.unreachable(self._api.name, out_of_reach, self.trouble))
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
                header = wire.header_of(kind, message_id, self.session_id, self._api.username or "cellwright")
                encode = wire.encode_v1 if socket.subprotocol == wire.V1 else wire.encode_json
                try:
                    await socket.send(encode(channel, header, content))
                except ConnectionClosed:
                    return

    # What is heard -----------------------------------------------------------------------------------------------

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for frame in socket:
                self._decode(frame, v1=socket.subprotocol == wire.V1)
                # Frames that are there already are returned without yielding: others must get their turn.
                await anyio.lowlevel.checkpoint()
        except ConnectionClosed as error:
            self.trouble = _words(error)
        else:
            self.trouble = "the server closed the connection"

    def _decode(self, frame: str | bytes, *, v1: bool) -> None:
        try:
            heard = wire.decode_v1(frame) if v1 and isinstance(frame, bytes) else wire.decode_json(frame)
            messages = self._ledger.heard(heard)
            if self._ledger.restarted:
                self._life.told(lives.restarted_there(self._api.name))
                return
            for message in messages:
                self._take(message)
        except BadMessageError as error:
            log.warning("kernel_message_refused reason=%s", error)
        except Exception:  # boundary: whatever a server says, its connection and everybody's kernels go on
            log.exception("kernel_message_failed")

    def _take(self, message: Message) -> None:
        if message.kind == "input_request":
            self._answer_input(message)
            return
        if message.channel == "iopub" and message.kind in ("status", "shutdown_reply"):
            self._look_for_end(message)
        self._hand_on(message)

    def _look_for_end(self, message: Message) -> None:
        content = msgspec.json.decode(message.content, type=dict[str, Any])
        if message.kind == "shutdown_reply":
            restarted = bool(content.get("restart"))
            self._life.told((lives.restarted_there if restarted else lives.culled)(self._api.name))
        elif str(content.get("execution_state")) in _ENDED:
            self._life.told(lives.ended_there(self._api.name))

    def _answer_input(self, message: Message) -> None:
        self._send("stdin", "input_reply", {"value": "", "status": "ok"}, new_message_id())
        if message.parent_id not in self._asked:
            self._asked = {message.parent_id}
            told = msgspec.json.encode({"name": "stderr", "text": _NO_INPUT})
            self._hand_on(Message("iopub", "stream", message.parent_id, told, b"{}"))


class _Connect(connect):
    """Connects to the address that was given, or not at all: a token goes nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Follow no redirect."""
        return exc


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(error).strip() or type(error).__name__
