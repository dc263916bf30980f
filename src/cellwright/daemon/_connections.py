"""The two streams of one client, with what a connection needs that the protocol's server does not know of.

What the client said before anybody listened comes first. A reply that it has had from the record is dropped, or, where
the server's own is another list, is a word that the list changed. And when it stops talking but still listens, as a script does that pipes its questions in, the end is told only after the last reply.
"""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream

from cellwright.daemon._early_responder import Arrival
from cellwright.daemon._recorded_answers import RecordedAnswer

__all__ = ["ClientInput", "ClientOutput", "Conversation", "is_hung_up", "receive_arrival"]

_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
# A reply as the SDK writes it; a picture in it need not be read for that.
_REPLY = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)":')
_HEAD = 1024
# Never answered while the client stays, so never waited for.
_ENDLESS = frozenset({"subscriptions/listen"})
_HANG_UP_CHECK_S = 0.25


class _Params(msgspec.Struct):
    requestId: str | int | None = None  # noqa: N815  # the protocol's name


class _Peek(msgspec.Struct):
    """As much of a message as is looked at."""

    id: str | int | None = None
    method: str | None = None
    params: _Params | msgspec.UnsetType = msgspec.UNSET


_peek = msgspec.json.Decoder(_Peek).decode
_ident = msgspec.json.Decoder(str | int).decode


async def receive_arrival(stream: ByteReceiveStream, arrival: Arrival) -> bool:
    """Read until the hello is complete; false if the client left before."""
    while arrival.handshake is None:
        try:
            arrival.take(await stream.receive())
        except _GONE:
            return False
    return True


class Conversation:
    """Which questions of a client wait for a reply."""

    def __init__(self, answered: Mapping[str | int, RecordedAnswer]) -> None:
        self._open: set[str | int] = set()
        self._answered = dict(answered)
        self._rest = b""
        self._changed = anyio.Event()

    def heard(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            try:
                message = _peek(line)
            except (msgspec.DecodeError, ValueError, RecursionError):
                continue
            if message.method == "notifications/cancelled" and isinstance(message.params, _Params):
                self._settle(message.params.requestId)
            elif message.method is not None and message.id is not None and message.method not in _ENDLESS:
                self._open.add(message.id)

    def outgoing(self, message: bytes) -> bytes | None:
        """Note a reply; what goes to the client in its place, or nothing, where it has had a reply from the record."""
        found = _REPLY.match(message[:_HEAD])
        if found is None:
            return message
        ident = _ident(found[1])
        self._settle(ident)
        recorded = self._answered.pop(ident, None)
        return message if recorded is None else recorded.correction(message)

    async def is_over(self, has_left: Callable[[], bool]) -> None:
        """Wait until nothing waits for a reply any more, or until nobody is there to read it."""
        while self._open and not has_left():
            self._changed = anyio.Event()
            with anyio.move_on_after(_HANG_UP_CHECK_S):
                await self._changed.wait()

    def _settle(self, ident: str | int | None) -> None:
        self._open.discard(ident)
        self._changed.set()


class ClientInput(ByteReceiveStream):
    """What a client says."""

    def __init__(
        self,
        stream: ByteReceiveStream,
        conversation: Conversation,
        has_left: Callable[[], bool],
        *,
        said: bytes = b"",
    ) -> None:
        self._stream = stream
        self._conversation = conversation
        self._has_left = has_left
        self._said = said

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self._said:
            chunk, self._said = self._said[:max_bytes], self._said[max_bytes:]
        else:
            try:
                chunk = await self._stream.receive(max_bytes)
            except anyio.EndOfStream:
                await self._conversation.is_over(self._has_left)
                raise
        self._conversation.heard(chunk)
        return chunk

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""


class ClientOutput(ByteSendStream):
    """What a client is told: one message a ``send``."""

    def __init__(self, stream: ByteSendStream, conversation: Conversation) -> None:
        self._stream = stream
        self._conversation = conversation

    async def send(self, item: bytes) -> None:
        if (message := self._conversation.outgoing(item)) is not None:
            await self._stream.send(message)

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""


def is_hung_up(descriptor: Any) -> bool:
    """Whether nobody is at the other end of a socket or pipe any more."""
    poll = select.poll()
    poll.register(descriptor, 0)  # an end and an error are told without being asked for
    return any(found & (select.POLLHUP | select.POLLERR) for _, found in poll.poll(0))
