"""ZeroMQ's wire format (ZMTP 3.0 without security), as far as a client of Jupyter kernels speaks it. Pure.

libzmq holds whatever a peer has sent of a message that is not over, and a kernel's code can write to its sockets
what it likes. Here a message has a limit: what is longer is passed over as it comes, and counted (ADR 30).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = [
    "MAX_MESSAGE_BYTES",
    "SUBSCRIBE_TO_ALL",
    "Oversized",
    "ProtocolError",
    "Reader",
    "greeting",
    "message_bytes",
]

MAX_MESSAGE_BYTES = 64 << 20
# More than these are sent by nobody who means the message to end.
MAX_PASSED_BYTES = 1 << 30
MAX_FRAMES = 10_000
MAX_COMMAND_BYTES = 4096

MORE, LONG, COMMAND = 1, 2, 4
LENGTH = {0: 1, LONG: 8}
"""How many bytes say how long a frame is."""

GREETING_BYTES = 64
SIGNATURE = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"
VERSION = b"\x03\x00"
NULL = b"NULL".ljust(20, b"\x00")
SUBSCRIBE_TO_ALL = b"\x01"
"""The first message of a SUB that wants to hear everything."""


class ProtocolError(Exception):
    """What the peer said is not ZMTP."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """Stands for a message that was too long to be kept."""

    length: int


def greeting(socket_type: str, *, identity: bytes = b"") -> bytes:
    """All that a client says before its peer is ready for messages."""
    opening = (SIGNATURE + VERSION + NULL).ljust(GREETING_BYTES, b"\x00")
    properties = {b"Socket-Type": socket_type.encode(), b"Identity": identity}
    body = b"\x05READY" + b"".join(_property(name, value) for name, value in properties.items())
    return opening + _frame(COMMAND, body)


def message_bytes(frames: Iterable[bytes]) -> bytes:
    """A message as it goes over the wire."""
    *first, last = frames
    return b"".join([*(_frame(MORE, frame) for frame in first), _frame(0, last)])


def _frame(flags: int, body: bytes) -> bytes:
    kind = 0 if len(body) < 256 else LONG  # what a byte can say
    return bytes([flags | kind]) + len(body).to_bytes(LENGTH[kind], "big") + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value


class Reader:
    """Takes what one peer says, in pieces of any length, and hands out whole messages."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._unread = bytearray()
        self._at = 0
        """How much of that is done with."""
        self._greeted = False
        self.peer_is_ready = False
        """Whether it takes messages; libzmq ends a connection over which one comes before."""
        self._frames: list[bytes] = []
        self._length = 0
        """Of the message that is not over, as far as it came."""
        self._count = 0
        """Its frames."""
        self._passing: _Passing | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[list[bytes] | Oversized]:
        """Yield each message that ends here.

        Raises:
            ProtocolError: this is no peer; whatever else it says cannot be read.
        """
        self._unread += data
        self._greeted = self._greeted or self._read_greeting()
        while self._greeted and (frame := self._next_frame()) is not None:
            flags, length, body = frame
            if flags & COMMAND:
                self._obey(body)
                continue
            self._length += length
            self._count += 1
            oversized = self._length > self._max_bytes
            if not oversized:
                self._frames.append(body)
            if not flags & MORE:
                yield Oversized(self._length) if oversized else self._frames
                self._frames, self._length, self._count = [], 0, 0
            elif self._count > MAX_FRAMES:
                raise ProtocolError(f"a message of more than {MAX_FRAMES:,} frames")
        del self._unread[: self._at]
        self._at = 0

    def _read_greeting(self) -> bool:
        if len(self._unread) < GREETING_BYTES:
            return False
        said, self._at = self._unread[:GREETING_BYTES], GREETING_BYTES
        if said[0] != SIGNATURE[0] or said[9] != SIGNATURE[9] or said[10] < VERSION[0]:
            raise ProtocolError("it does not greet as ZMTP 3 does")
        if said[12:32] != NULL:
            raise ProtocolError("it wants a secured connection")
        return True

    def _obey(self, command: bytes) -> None:
        if command.startswith(b"\x05READY"):
            self.peer_is_ready = True
        elif command.startswith(b"\x05ERROR"):
            raise ProtocolError(f"it refuses the connection: {command[7:].decode(errors='replace')}")

    def _next_frame(self) -> tuple[int, int, bytes] | None:
        """The flags, length and content of the next whole frame; one that makes its message too long comes empty."""
        if self._passing is None:
            head = self._read_head()
            if head is None:
                return None
            flags, start, length = head
            if flags & COMMAND and length > MAX_COMMAND_BYTES:
                raise ProtocolError(f"a command of {length:,} bytes")
            if flags & COMMAND or self._length + length <= self._max_bytes:
                end = start + length
                if end > len(self._unread):
                    return None
                self._at = end
                return flags, length, bytes(self._unread[start:end])
            if self._length + length > MAX_PASSED_BYTES:
                raise ProtocolError(f"a message of more than {MAX_PASSED_BYTES:,} bytes")
            self._frames, self._at = [], start
            self._passing = _Passing(flags, length, left=length)
        return self._pass_over(self._passing)

    def _read_head(self) -> tuple[int, int, int] | None:
        """A frame's flags, where its content starts, and how long that is."""
        if self._at >= len(self._unread):
            return None
        flags = self._unread[self._at]
        start = self._at + 1 + LENGTH[flags & LONG]
        if start > len(self._unread):
            return None
        return flags, start, int.from_bytes(self._unread[self._at + 1 : start], "big")

    def _pass_over(self, passing: _Passing) -> tuple[int, int, bytes] | None:
        passed = min(passing.left, len(self._unread) - self._at)
        self._at += passed
        passing.left -= passed
        if passing.left:
            return None
        self._passing = None
        return passing.flags, passing.length, b""


@dataclass(slots=True)
class _Passing:
    """A frame that nobody wants, while it comes."""

    flags: int
    length: int
    left: int
