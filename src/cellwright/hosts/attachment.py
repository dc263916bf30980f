"""One engine's connection, as the host sees it: calls in, answers and events out.

Events are copied from the journal, so that a slow engine costs no memory and a returning one misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.abc
import msgspec

from cellwright.hosts import protocol
from cellwright.hosts.eventlog import Cursor, EventLog
from cellwright.hosts.frames import FrameReader, frame

__all__ = ["Attachment"]


class Attachment:
    def __init__(self, stream: anyio.abc.ByteStream, log: EventLog) -> None:
        self._stream = stream
        self._log = log
        self._sending = anyio.Lock()
        self._grew = anyio.Event()
        self._scope = anyio.CancelScope()
        self.cursor: Cursor | None = None

    async def serve(self, take: Callable[[protocol.Call], None]) -> None:
        """Hand over calls until the engine goes away, is replaced, or says something that is not a call."""
        reader = FrameReader()
        with self._scope:
            while True:
                try:
                    payloads = reader.feed(await self._stream.receive())
                    calls = [protocol.decode_from_engine(payload) for payload in payloads]
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
                except (ValueError, msgspec.DecodeError, RecursionError) as error:
                    await self.send(protocol.Refusal(0, "protocol", f"Not a call: {error}"))
                    return
                for call in calls:
                    take(call)

    async def send(self, message: protocol.Reply | protocol.Refusal) -> None:
        await self._send(frame(message))

    async def follow(self, since: int) -> None:
        """Send every event after ``since``, now and as they come."""
        self.cursor = self._log.cursor(since)
        while True:
            grew = self._grew
            if data := self._log.read(self.cursor):
                await self._send(data)
            else:
                await grew.wait()

    def log_grew(self) -> None:
        self._grew.set()
        self._grew = anyio.Event()

    def close(self) -> None:
        self._scope.cancel()

    async def _send(self, data: bytes) -> None:
        try:
            async with self._sending:
                await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.close()
