"""The streams of one client on the daemon's socket: what it said before we listened, and an answer it has already."""

from __future__ import annotations

import json

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketStream

from cellwright.daemon.greeter import Arrival

__all__ = ["Heard", "Said", "receive_arrival"]


async def receive_arrival(stream: SocketStream, arrival: Arrival) -> bool:
    """Read until the hello is complete; false if the client left before."""
    while arrival.hello is None:
        try:
            arrival.take(await stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
    return True


class Heard(ByteReceiveStream):
    """What a client says, beginning with what it said already."""

    def __init__(self, stream: SocketStream, said: bytes) -> None:
        self._stream = stream
        self._said = said

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self._said:
            chunk, self._said = self._said[:max_bytes], self._said[max_bytes:]
            return chunk
        return await self._stream.receive(max_bytes)

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""


class Said(ByteSendStream):
    """What a client is told, without the reply to a question that was answered already. One message a ``send``."""

    def __init__(self, stream: SocketStream, answered: str | int | None) -> None:
        self._stream = stream
        self._answered = answered

    async def send(self, item: bytes) -> None:
        if self._answered is not None and _is_reply_to(item, self._answered):
            self._answered = None
            return
        await self._stream.send(item)

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""


def _is_reply_to(line: bytes, ident: str | int) -> bool:
    try:
        message = json.loads(line)
    except ValueError:
        return False
    return isinstance(message, dict) and "method" not in message and message.get("id") == ident
