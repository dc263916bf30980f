"""How an engine and its host speak: messages in frames, and the engine's side: calls with answers, a stream of events.

It neither starts hosts (see ``local``) nor interprets events (see ``engine``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import anyio
import anyio.abc
import msgspec

from cellwright import errors
from cellwright.hosts import protocol

__all__ = [
    "MAX_FRAME_BYTES",
    "EventSink",
    "FrameReader",
    "HostConnection",
    "frame",
    "frame_bytes",
    "whole_frames",
]

_log = logging.getLogger(__name__)

T = TypeVar("T")
EventSink: TypeAlias = Callable[[list[protocol.Event]], None]
_BROKEN = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

# Refusals that come back as the error they were at the host.
_REFUSALS: dict[str, type[errors.CellwrightError]] = {
    error.code: error
    for error in (
        errors.CheckpointRefused,
        errors.FileFailed,
        errors.HostError,
        errors.KernelBusy,
        errors.KernelGone,
        errors.KernelStartError,
        errors.UnknownCheckpoint,
    )
}


# How messages lie on the wire and in the host's journal, so that replaying is copying.

MAX_FRAME_BYTES = 64 * 1024 * 1024

_LENGTH_BYTES = 4

_encoder = msgspec.msgpack.Encoder()


def frame(message: msgspec.Struct) -> bytes:
    """Encode one message with its length before it."""
    payload = _encoder.encode(message)
    if len(payload) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(payload):,} bytes is over the protocol's {MAX_FRAME_BYTES:,}")
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def frame_bytes(data: bytes, at: int = 0) -> int:
    """The size of the frame that starts at ``at``, its length included."""
    return _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES], "big")


def whole_frames(data: bytes) -> int:
    """How many leading bytes of ``data`` are whole frames."""
    at = 0
    while at + _LENGTH_BYTES <= len(data) and at + frame_bytes(data, at) <= len(data):
        at += frame_bytes(data, at)
    return at


class FrameReader:
    """Cuts a byte stream into the payloads of its frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the payloads that are now whole.

        Raises:
            ValueError: the peer announced a frame over the limit; nothing after it can be trusted.
        """
        self._pending += data
        payloads: list[bytes] = []
        at = 0
        while len(self._pending) - at >= _LENGTH_BYTES:
            length = int.from_bytes(self._pending[at : at + _LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                if payloads:  # what came before it is whole; the next bytes, or none, find it again
                    break
                raise ValueError(f"a frame of {length:,} bytes is over the protocol's {MAX_FRAME_BYTES:,}")
            if len(self._pending) - at - _LENGTH_BYTES < length:
                break
            at += _LENGTH_BYTES
            payloads.append(bytes(self._pending[at : at + length]))
            at += length
        del self._pending[:at]
        return payloads


# The engine's side.


class HostConnection:
    """One conversation; when it breaks, every open call fails with ``HostLost`` and ``lost`` is set."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._waiting: dict[int, anyio.Event] = {}
        self._answers: dict[int, protocol.Reply | protocol.Refusal] = {}
        self._count = 0
        self._sending = anyio.Lock()
        self.lost = anyio.Event()

    async def call(self, request: protocol.Request, result: type[T]) -> T:
        """Send a request and return its answer; calls reach the host in the order in which they are made.

        Raises:
            CellwrightError: what the host refused it with.
            HostLost: the host went away before it answered.
        """
        self._count += 1
        number = self._count
        arrived = self._waiting[number] = anyio.Event()
        try:
            await self._send(protocol.Call(number, request))
            await arrived.wait()
            return self._answer(number, result)
        finally:
            self._waiting.pop(number, None)
            self._answers.pop(number, None)

    async def read(self, on_events: EventSink) -> None:
        """Take in what the host says until it goes away."""
        reader = FrameReader()
        try:
            while True:
                payloads = reader.feed(await self._stream.receive())
                self._take([protocol.decode_from_host(payload) for payload in payloads], on_events)
        except _BROKEN:
            pass
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            # Nothing that comes after it can be trusted; whoever attaches again is told all of it anew.
            _log.error("host_not_understood reason=%s", error)  # where it came from says nothing
        finally:
            self.lost.set()
            for arrived in self._waiting.values():
                arrived.set()

    async def close(self) -> None:
        await self._stream.aclose()

    async def _send(self, call: protocol.Call) -> None:
        data = frame(call)
        if self.lost.is_set():
            raise _lost()
        try:
            async with self._sending:
                await self._stream.send(data)
        except _BROKEN as error:
            raise _lost() from error

    def _take(self, messages: list[protocol.FromHost], on_events: EventSink) -> None:
        events: list[protocol.Event] = []
        for message in messages:
            if isinstance(message, protocol.Event):
                events.append(message)
            elif arrived := self._waiting.get(message.id):
                self._answers[message.id] = message
                arrived.set()
        if events:
            on_events(events)

    def _answer(self, number: int, result: type[T]) -> T:
        answer = self._answers.get(number)
        if answer is None:
            raise _lost()
        if isinstance(answer, protocol.Reply):
            try:
                return msgspec.msgpack.decode(answer.result, type=result)
            except (ValueError, msgspec.DecodeError, RecursionError) as error:
                raise errors.HostError(f"The host's answer cannot be read: {error}") from None
        if answer.setting is not None:
            raise errors.LimitReached(answer.message, setting=answer.setting, hint=answer.hint)
        if answer.code in _REFUSALS:
            raise _REFUSALS[answer.code](answer.message, hint=answer.hint)
        raise errors.HostRefused(answer.message, cause=answer.code, hint=answer.hint)


def _lost() -> errors.HostLost:
    return errors.HostLost(
        "The process that owns the kernels went away",
        hint="The documents and histories are whole; run a cell to start a new kernel",
    )
