"""A kernel's messages as lines of a byte stream, and whatever else was printed there. Pure (pipes are ``pipeclient``'s).

A message is the kernel's token and one line of JSON. Bytes without the token come from a raw write or a subprocess, and
are handed on as they are. Whoever writes there may write anything: a line that is too long is skipped while it comes, one
that is no message is refused, and no more than one line is ever held.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from cellwright.kernels.messages import BadMessageError, Message

__all__ = ["Line", "Piece", "Printed", "Splitter", "TooLong", "message_of"]

NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class Line:
    """What stood between the token and the end of the line."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Printed:
    """Bytes that are no message."""

    content: bytes


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was skipped."""

    length: int


Piece = Line | Printed | TooLong


@dataclass(slots=True)
class Splitter:
    """Cuts a stream into messages and the rest."""

    token: bytes
    max_line_bytes: int
    _held: bytearray = field(default_factory=bytearray)
    _in_line: bool = False
    _searched: int = 0
    _skipped: int = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that are complete with these bytes."""
        self._held += data
        while (piece := self._line() if self._in_line else self._printed()) is not None:
            yield piece

    def rest(self) -> Iterator[Piece]:
        """What is left when nothing more will come; half a message is none."""
        if self._held and not self._in_line:
            yield Printed(bytes(self._held))
        self._held.clear()

    def _printed(self) -> Piece | None:
        at = self._held.find(self.token)
        if at >= 0:
            before = bytes(self._held[:at])
            del self._held[: at + len(self.token)]
            self._in_line, self._searched, self._skipped = True, 0, 0
            return Printed(before) if before else self._line()
        # The end may be the beginning of a token, of which the rest is on its way.
        kept = _overlap(self._held, self.token)
        before = bytes(self._held[: len(self._held) - kept])
        del self._held[: len(before)]
        return Printed(before) if before else None

    def _line(self) -> Piece | None:
        end = self._held.find(NEWLINE, self._searched)
        if end >= 0:
            content = bytes(self._held[:end])
            del self._held[: end + 1]
            self._in_line = False
            length = self._skipped + len(content)
            return TooLong(length) if length > self.max_line_bytes else Line(content)
        self._searched = len(self._held)
        if self._skipped + len(self._held) > self.max_line_bytes:
            self._skipped += len(self._held)
            self._held.clear()
            self._searched = 0
        return None


def _overlap(text: bytearray, token: bytes) -> int:
    """How many bytes at the end of the text are the beginning of the token."""
    return next(
        (count for count in range(min(len(text), len(token) - 1), 0, -1) if text.endswith(token[:count])), 0
    )


class _Envelope(msgspec.Struct):
    channel: Literal["iopub", "shell", "control"]
    kind: str
    parent: str = ""
    content: msgspec.Raw = msgspec.Raw(b"{}")
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Envelope).decode
_read_object = msgspec.json.Decoder(dict[str, Any]).decode


def message_of(line: bytes) -> Message:
    """The message in a line.

    Raises:
        BadMessageError: it holds none.
    """
    try:
        return _message(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        # JavaScript's text may hold half characters (lone surrogates), which nobody else's may. Python's reader takes
        # them, and they are replaced when they are written.
        return _message(json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessageError(f"no message: {error}") from None


def _message(line: bytes) -> Message:
    found = _decode(line)
    content, metadata = bytes(found.content), bytes(found.metadata)
    # Others read both without a second thought.
    _read_object(content)
    _read_object(metadata)
    return Message(found.channel, found.kind, found.parent, content, metadata)
