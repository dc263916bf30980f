"""Byte streams over unix sockets whose readers may be cancelled at any moment.

anyio's own (4.16) let a socket's readiness settle the future of a reader that was cancelled in the same turn of the
loop: what comes of it is no loss of data, but an error of the loop itself, which a log shows and a test run counts.
This one waits with ``anyio.wait_readable``, which has no such gap. It neither connects nor listens. What comes over
one, or over a pipe, may be taken line by line.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

__all__ = ["MAX_LINE_BYTES", "UnixStream", "lines"]

MAX_LINE_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 1 << 16
_CHUNK_BYTES = 256 * 1024
_OVER = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


class UnixStream(anyio.abc.ByteStream):
    """One connection, whose socket it owns."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        self._socket = connection
        self._closed = False

    @classmethod
    def over(cls, stream: anyio.abc.AnyByteStream) -> UnixStream:
        """The same connection; the stream that it had is not to be used any more."""
        return cls(stream.extra(anyio.abc.SocketAttribute.raw_socket))

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {anyio.abc.SocketAttribute.raw_socket: lambda: self._socket}

    async def receive(self, max_bytes: int = _PIECE_BYTES) -> bytes:
        """What has come, at least a byte.

        Raises:
            anyio.EndOfStream: the other side has said all.
            anyio.BrokenResourceError: the connection is gone.
            anyio.ClosedResourceError: it was closed on this side.
        """
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
            except OSError as error:
                raise self._failure() from error
            else:
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        """Send all of it."""
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError as error:
                raise self._failure() from error

    async def send_eof(self) -> None:
        """Say that nothing more will come."""
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close it; whoever waits for it is told."""
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._socket)
            self._socket.close()
        await anyio.lowlevel.checkpoint()

    def _failure(self) -> anyio.BrokenResourceError | anyio.ClosedResourceError:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


async def lines(read: anyio.abc.ByteReceiveStream) -> AsyncIterator[bytes]:
    """The lines that come, without those that are empty, until the other side goes or one never ends."""
    rest = bytearray()
    while True:
        try:
            chunk = await read.receive(_CHUNK_BYTES)
        except _OVER:
            return
        searched = len(rest)
        rest += chunk
        while (end := rest.find(b"\n", searched)) >= 0:
            line = bytes(rest[:end])
            del rest[: end + 1]
            searched = 0
            if line.strip():
                yield line
        if len(rest) > MAX_LINE_BYTES:
            return
