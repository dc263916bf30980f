"""An engine's side of the conversation with its host: calls with answers, and the stream of events.

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
from cellwright.hosts.protocol import FrameReader, frame

__all__ = ["EventSink", "HostConnection"]

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
