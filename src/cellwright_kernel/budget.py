"""Bounds the output of one cell: decides, per piece, whether it passes, waits or is dropped. Sends nothing.

A cell's output passes as it comes while it is within the head, three quarters of the limit. What follows waits in
a ring that holds the rest of the limit, so that the newest is kept, and is released when the cell ends. A cell
below its limit therefore loses nothing, and one above it shows how it began and how it ended. Threads may go on
after that: what they say passes as far as the limit allows, and one line says where it ends. ``outputs`` acts on
these decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["Budget", "HeldMessage", "HeldText", "Limits", "utf8_length"]

TAIL_PART = 4
MAX_CHUNK_BYTES = 4096
CHUNKS_PER_LIMIT = 32
COUNTING_STEP = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one cell may put out in all."""

    max_bytes: int
    max_messages: int


@dataclass
class HeldText:
    """Some writes to one stream, joined when they are released."""

    name: str
    parts: list[str]
    size: int
    writes: int

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True)
class HeldMessage:
    """A message that is not text; ``send`` publishes it."""

    send: Callable[[], object]
    size: int
    writes: int = 1


Held = HeldText | HeldMessage


@dataclass
class Loss:
    """What was dropped, and which limit did it."""

    bytes: int = 0
    writes: int = 0
    limit: str = ""
    stream: str = "stdout"

    def add(self, size: int, writes: int, limit: str, stream: str | None = None) -> None:
        if not self.writes and stream:
            self.stream = stream
        self.bytes += size
        self.writes += writes
        self.limit = limit


@dataclass
class Budget:
    """The account of one cell. Not thread-safe by itself: ``outputs`` holds one lock around all of them."""

    limits: Limits
    passed_bytes: int = 0
    passed_messages: int = 0
    lost: Loss = field(default_factory=Loss)
    """Everything dropped so far."""

    closed: bool = False
    """Whether the cell has ended, so that nothing can wait for its end any more."""

    _silenced: bool = False
    _fresh: Loss = field(default_factory=Loss)
    """What was dropped since the last release."""

    _held: deque[Held] = field(default_factory=deque)
    _held_bytes: int = 0
    _holding: bool = False

    def admit_text(self, name: str, text: str, *, writes: int = 1) -> str:
        """The part of some writes' text that may pass now; the rest waits."""
        if self.closed:
            return self._admit_late(name, text, writes)
        if self._holding:
            self._hold_text(name, text, 0, writes)
            return ""
        capacity = self._capacity
        if len(text) <= capacity and (size := utf8_length(text)) <= capacity:
            self.passed_bytes += size
            return text
        head = _first_bytes(text, capacity)
        self.passed_bytes += utf8_length(head)
        self._holding = True
        self._hold_text(name, text, len(head), writes)
        return head

    def admit_stream_message(self, name: str, text: str) -> bool:
        """Whether text that passed may be sent as one more message; where not, it waits after all."""
        # One message more than allowed costs less than a second way to keep text back after the end.
        if self.closed or self.passed_messages < self._head_messages:
            self.passed_messages += 1
            return True
        self._holding = True
        size = utf8_length(text)
        self.passed_bytes -= size
        # It was written before anything that waits by now.
        self._held.appendleft(HeldText(name, [text], size, 1))
        self._held_bytes += size
        self._evict()
        return False

    def admit_message(self, size: int) -> bool:
        """Whether a message of that size may be sent now; where not, ``hold`` or ``drop`` it."""
        if self._holding or size > self._capacity or self.passed_messages >= self._head_messages:
            return False
        self.passed_bytes += size
        self.passed_messages += 1
        return True

    @property
    def capacity(self) -> int:
        """The size of the largest message that can be held."""
        return max(0, self.limits.max_bytes - self.passed_bytes)

    def hold(self, send: Callable[[], object], size: int) -> None:
        """Let a message wait, at the cost of the oldest that do."""
        self._holding = True
        self._held.append(HeldMessage(send, size))
        self._held_bytes += size
        self._evict()

    def drop(self, size: int) -> None:
        """Count a message that is not sent at all."""
        self._lose(size, 1, "max_output_bytes", None)

    def release(self) -> tuple[str, str, list[Held]]:
        """The stream and text of the marker (empty where nothing was lost), and what waited."""
        held, self._held, self._held_bytes = list(_joined(self._held)), deque(), 0
        fresh, self._fresh = self._fresh, Loss()
        self.passed_bytes += sum(item.size for item in held)
        self.passed_messages += len(held)
        self._holding = False
        return fresh.stream, self._marker(fresh), held

    def report(self) -> dict[str, object]:
        """The account, for the reply's metadata."""
        return {
            "output_bytes": self.passed_bytes,
            "output_messages": self.passed_messages,
            "dropped_bytes": self.lost.bytes,
            "dropped_messages": self.lost.writes,
            "limit": self.lost.limit or None,
        }

    @property
    def _capacity(self) -> int:
        """What may pass at once: all that is left after the cell's end, and before it less the tail's part."""
        tail = 0 if self.closed else self.limits.max_bytes // TAIL_PART
        return max(0, self.limits.max_bytes - tail - self.passed_bytes)

    @property
    def _head_messages(self) -> int:
        tail = 0 if self.closed else self.limits.max_messages // TAIL_PART
        return self.limits.max_messages - tail

    def _admit_late(self, name: str, text: str, writes: int) -> str:
        """Text of a thread that outlived its cell."""
        size = utf8_length(text)
        if not self._silenced and size <= self._capacity and self.passed_messages < self.limits.max_messages:
            self.passed_bytes += size
            return text
        self._lose(size, writes, "max_output_bytes", name)
        if self._silenced:
            return ""
        self._silenced = True
        return f"\n[cellwright: output after the cell's end is dropped; limit max_output_bytes={self.limits.max_bytes:,}]\n"

    @property
    def _chunk_bytes(self) -> int:
        """How much text is held, and later evicted, as one: enough to be cheap, little enough to keep a tail."""
        return max(1, min(MAX_CHUNK_BYTES, self.limits.max_bytes // CHUNKS_PER_LIMIT))

    @property
    def _max_held(self) -> int:
        return max(0, self.limits.max_messages - self.passed_messages)

    def _hold_text(self, name: str, text: str, start: int, writes: int) -> None:
        """Hold ``text[start:]``, of which no more is copied than can be kept."""
        if not start and len(text) <= self._chunk_bytes and text.isascii():
            # By far the most common: a print after the limit. It must cost next to nothing.
            self._append(name, text, writes)
            if self._held_bytes > self.capacity or len(self._held) > self._max_held:
                self._evict()
            return
        kept = text[max(start, len(text) - self.capacity) :]
        if start + len(kept) < len(text) or not kept.isascii():
            kept = _last_bytes(kept, self.capacity)
        cut = utf8_length(text, start) - utf8_length(kept)
        if cut:
            self._lose(cut, 0 if kept else writes, "max_output_bytes", name)
        for piece_start in range(0, len(kept), self._chunk_bytes):
            piece = kept[piece_start : piece_start + self._chunk_bytes]
            self._append(name, piece, 0 if piece_start else writes)
        self._evict()

    def _append(self, name: str, piece: str, writes: int) -> None:
        size = utf8_length(piece)
        last = self._held[-1] if self._held else None
        if isinstance(last, HeldText) and last.name == name and last.size + size <= self._chunk_bytes:
            last.parts.append(piece)
            last.size += size
            last.writes += writes
        else:
            self._held.append(HeldText(name, [piece], size, writes))
        self._held_bytes += size

    def _evict(self) -> None:
        while self._held and (self._held_bytes > self.capacity or len(self._held) > self._max_held):
            limit = "max_output_bytes" if self._held_bytes > self.capacity else "max_output_messages"
            oldest = self._held.popleft()
            self._held_bytes -= oldest.size
            self._lose(oldest.size, oldest.writes, limit, getattr(oldest, "name", None))

    def _lose(self, size: int, writes: int, limit: str, stream: str | None) -> None:
        self.lost.add(size, writes, limit, stream)
        self._fresh.add(size, writes, limit, stream)

    def _marker(self, loss: Loss) -> str:
        if not loss.bytes and not loss.writes:
            return ""
        limits = {"max_output_bytes": self.limits.max_bytes, "max_output_messages": self.limits.max_messages}
        return (
            f"\n[cellwright: {loss.bytes:,} bytes in {max(loss.writes, 1):,} writes dropped here; "
            f"limit {loss.limit}={limits[loss.limit]:,}]\n"
        )


def utf8_length(text: str, start: int = 0) -> int:
    """The length in UTF-8 of ``text[start:]``, without a copy of it."""
    if text.isascii():
        return len(text) - start
    steps = range(start, len(text), COUNTING_STEP)
    return sum(len(text[step : step + COUNTING_STEP].encode("utf-8", "surrogatepass")) for step in steps)


def _first_bytes(text: str, size: int) -> str:
    head = text[:size]
    return head if head.isascii() else head.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def _last_bytes(text: str, size: int) -> str:
    tail = text[-size:] if size else ""
    return tail if tail.isascii() else tail.encode("utf-8", "replace")[-size:].decode("utf-8", "ignore")


def _joined(held: deque[Held]) -> Iterator[Held]:
    """Neighbouring texts of one stream as one."""
    run: HeldText | None = None
    for item in held:
        if isinstance(item, HeldText) and run is not None and run.name == item.name:
            run = HeldText(
                run.name, [*run.parts, *item.parts], run.size + item.size, run.writes + item.writes
            )
            continue
        if run is not None:
            yield run
        run = item if isinstance(item, HeldText) else None
        if run is None:
            yield item
    if run is not None:
        yield run
