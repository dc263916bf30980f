"""The host's journal: numbered events in files of bounded size, in the frames that also go over the wire.

Written by one host, followed by the connection of its engine, and read after the host's death by whoever finds the
directory. Nothing is synced to the platter: a kernel does not survive what a page cache does not survive.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cellwright.hosts.connection import FrameReader, frame, frame_bytes, whole_frames
from cellwright.hosts.protocol import Event, EventBody, Output, decode_event

__all__ = ["Cursor", "EventLog", "read_events"]

SEGMENT_BYTES = 4 * 1024 * 1024
MAX_WAITING_BYTES = 16 * 1024 * 1024
_READ_BYTES = 256 * 1024
_PREFIX, _SUFFIX = "events-", ".log"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Cursor:
    """A follower's place in the log."""

    first_seq: int
    offset: int


class EventLog:
    """Appends events and lets followers copy them out from any place that is not yet forgotten."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._segments: list[int] = []
        self._waiting: deque[tuple[str, EventBody, float]] = deque()
        self._waiting_bytes = 0
        self._failing = False
        self.dropped_outputs = 0
        self.last_seq = 0
        self._fd = -1
        self._size = 0
        self._open_segment()

    def append(self, kernel_id: str, body: EventBody, *, time: float) -> None:
        """Number an event and write it; it survives this process from here on.

        Where the disk refuses it, it waits in memory, in its order, for ``retry`` or the next event. Output that
        finds too much waiting is dropped: what began and ended must still be told when there is room again.
        """
        if isinstance(body, Output) and self._waiting_bytes + len(body.content) > MAX_WAITING_BYTES:
            self.dropped_outputs += 1
            return
        self._waiting.append((kernel_id, body, time))
        self._waiting_bytes += _weight(body)
        self.retry()

    def retry(self) -> bool:
        """Write what waits; true if anything was written."""
        before = self.last_seq
        while self._waiting:
            kernel_id, body, time = self._waiting[0]
            event = Event(seq=self.last_seq + 1, time=time, kernel_id=kernel_id, body=body)
            try:
                self._write(frame(event))
            except OSError as error:
                if not self._failing:
                    _log.error("journal_not_written directory=%s %s", self._directory, error)
                self._failing = True
                break
            self._failing = False
            self.last_seq = event.seq
            self._waiting.popleft()
            self._waiting_bytes -= _weight(body)
        return self.last_seq > before

    def cursor(self, since: int) -> Cursor:
        """Return the place right after event ``since``, or the oldest that is kept."""
        first = max((seq for seq in self._segments if seq <= since + 1), default=self._segments[0])
        cursor = Cursor(first, 0)
        for payload, end in _frames(_segment_path(self._directory, first)):
            if decode_event(payload).seq > since:
                break
            cursor.offset = end
        return cursor

    def read(self, cursor: Cursor) -> bytes:
        """Copy out whole frames from the cursor on and advance it; empty when there is nothing new."""
        while True:
            data = self._read_frames(cursor)
            if data or cursor.first_seq == self._segments[-1]:
                cursor.offset += len(data)
                return data
            cursor.first_seq = min(seq for seq in self._segments if seq > cursor.first_seq)
            cursor.offset = 0

    def _read_frames(self, cursor: Cursor) -> bytes:
        with _segment_path(self._directory, cursor.first_seq).open("rb") as file:
            data = os.pread(file.fileno(), _READ_BYTES, cursor.offset)
            end = whole_frames(data)
            if data and not end:  # one frame larger than a read
                data = os.pread(file.fileno(), frame_bytes(data), cursor.offset)
                end = len(data)
        return data[:end]

    def forget(self, upto: int, *, keep: Cursor | None = None) -> None:
        """Remove the segments that hold only events up to ``upto``, but none that ``keep`` still has to read."""
        while len(self._segments) > 1 and self._segments[1] <= upto + 1:
            if keep is not None and keep.first_seq <= self._segments[0]:
                return
            _segment_path(self._directory, self._segments.pop(0)).unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > SEGMENT_BYTES:
            full = self._fd
            self._open_segment()
            os.close(full)
        try:
            _write_all(self._fd, data)
        except OSError:
            # A torn frame would make everything behind it unreadable.
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def _open_segment(self) -> None:
        first = self.last_seq + 1
        path = _segment_path(self._directory, first)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._segments.append(first)
        self._size = 0


def read_events(directory: Path, *, since: int = 0) -> Iterator[Event]:
    """Yield what a dead host's directory still holds after event ``since``.

    A torn last frame is left out, and so is what follows one that cannot be read, in its file.
    """
    names = (path.name[len(_PREFIX) : -len(_SUFFIX)] for path in directory.glob(f"{_PREFIX}*{_SUFFIX}"))
    for first in sorted(int(name) for name in names if name.isdecimal()):
        path = _segment_path(directory, first)
        try:
            for payload, _ in _frames(path):
                event = decode_event(payload)
                if event.seq > since:
                    yield event
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            _log.error("journal_not_read path=%s %s", path, error)  # where it came from says nothing


def _weight(body: EventBody) -> int:
    return len(body.content) if isinstance(body, Output) else 0


def _segment_path(directory: Path, first_seq: int) -> Path:
    return directory / f"{_PREFIX}{first_seq:012d}{_SUFFIX}"


def _frames(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield each whole frame's payload and the offset behind it."""
    reader = FrameReader()
    offset = 0
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            for payload in reader.feed(data):
                offset += len(payload) + 4
                yield payload, offset


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
