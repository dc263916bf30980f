"""Bytes over sockets, TCP and unix alike, that may be cancelled at any moment. Knows no protocol.

anyio's own unix streams report an error to the event loop when a cancellation and a byte arrive in the same turn,
and a proxy cancels all the time.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from cellwright.sandbox.addresses import Address

__all__ = ["Wire", "accept", "connect_to", "listen_at"]

Result = TypeVar("Result")

_BACKLOG = 256


class Wire(ByteStream):
    """One connection. A reset by the other side is the end of what it says."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """What has come, at least a byte.

        Raises:
            EndOfStream: the other side is done.
        """
        try:
            data = await _when_ready(partial(self._raw.recv, max_bytes), self._raw, anyio.wait_readable)
        except ConnectionResetError:
            data = b""
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Hand all of it to the system, which waits while the other side does not read."""
        rest = memoryview(item)
        while rest:
            sent = await _when_ready(partial(self._raw.send, rest), self._raw, anyio.wait_writable)
            rest = rest[sent:]

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        await anyio.lowlevel.checkpoint()
        self._raw.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close at once; never waits."""
        self._raw.close()

    @property
    def peer(self) -> str:
        """The address of the other side."""
        return str(self._raw.getpeername()[0])


def listen_at(path: Path, *, owner: tuple[int, int] | None) -> socket.socket:
    """A unix socket at a path in a directory of ours, for its owner only, in place of one that was left there."""
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.setblocking(False)  # noqa: FBT003
        # The mode of the descriptor becomes the mode of the name: there is no moment at which others can connect.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(str(path))
        if owner is not None:
            os.chown(path, *owner)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def accept(listener: socket.socket) -> Wire:
    """The next connection."""
    raw, _ = await _when_ready(listener.accept, listener, anyio.wait_readable)
    raw.setblocking(False)  # noqa: FBT003
    return Wire(raw)


async def connect_to(address: Address, port: int) -> Wire:
    """A connection to this very address.

    Raises:
        OSError: nobody answers there.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004  # as in IPv4
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.setblocking(False)  # noqa: FBT003
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _finish_connecting(raw, raw.connect_ex((str(address), port)))
    except BaseException:
        raw.close()
        raise
    return Wire(raw)


async def _finish_connecting(raw: socket.socket, number: int) -> None:
    if number == errno.EINPROGRESS:
        await anyio.wait_writable(raw)
        number = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


async def _when_ready(
    attempt: Callable[[], Result], raw: socket.socket, wait: Callable[[socket.socket], Awaitable[None]]
) -> Result:
    # A turn for everybody else first: a busy connection is always ready.
    await anyio.lowlevel.checkpoint()
    while True:
        try:
            return attempt()
        except BlockingIOError:
            await wait(raw)
