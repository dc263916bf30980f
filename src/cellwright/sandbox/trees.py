"""Pieces that whatever walks and copies trees is made of: entries, stamps, data with its holes, overlay marks. Blocking.

Nothing here follows a link: names are opened beneath a root (see ``safe_paths``). What to copy, and where to, others decide
(``quotas``, ``snapshots``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from cellwright.sandbox.safe_paths import open_beneath

__all__ = [
    "DIRECTORY",
    "MAX_DEPTH",
    "OPAQUE",
    "READ",
    "TICKS_NS",
    "Names",
    "Stamp",
    "closing",
    "copy_data",
    "count_names",
    "entries",
    "have_same_data",
    "opened",
    "stamp_of",
]

Names: TypeAlias = tuple[str, ...]
Stamp: TypeAlias = tuple[int, int, int, int, int]

MAX_DEPTH = 128
"""As deep as paths can usefully be; code that wants to exhaust whoever looks goes deeper."""
TICKS_NS = 20_000_000
"""File systems tell time in ticks: what changed so shortly before it was copied may change again unnoticed."""
OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
"""What an overlay notes on a directory that hides the one below it, for root and for others."""
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK

_CHUNK = 16 << 20


def entries(root: int, names: Names) -> Iterator[tuple[Names, os.stat_result]]:
    """What lies in one directory.

    Raises:
        OSError: it is not there, or closed to us.
    """
    descriptor = open_beneath(root, names, DIRECTORY)
    with closing(descriptor), os.scandir(descriptor) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                yield (*names, entry.name), entry.stat(follow_symlinks=False)


def count_names(root: int) -> Counter[int]:
    """How many names each file with several has beneath a directory."""
    found: Counter[int] = Counter()
    ahead: list[Names] = [()]
    while ahead:
        with contextlib.suppress(OSError):
            for names, status in entries(root, ahead.pop()):
                if stat.S_ISDIR(status.st_mode) and len(names) <= MAX_DEPTH:
                    ahead.append(names)
                elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                    found[status.st_ino] += 1
    return found


@contextlib.contextmanager
def opened(root: int, names: Names) -> Iterator[int]:
    descriptor = open_beneath(root, names, DIRECTORY)
    with closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode, status.st_mtime_ns)


def have_same_data(one: int, other: int, size: int) -> bool:
    """Whether two files have the same bytes up to a size. Where both have a hole nothing is read, however long it is."""
    offset = 0
    while (begin := min(_next_data(one, offset, size), _next_data(other, offset, size))) < size:
        end = max(_next_hole(one, begin), _next_hole(other, begin), begin + 1)
        offset = min(end, size, begin + _CHUNK)
        if os.pread(one, offset - begin, begin) != os.pread(other, offset - begin, begin):
            return False
    return True


def _next_data(descriptor: int, offset: int, size: int) -> int:
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return size  # nothing but a hole is left


def _next_hole(descriptor: int, offset: int) -> int:
    """Where the data at an offset ends; the offset itself where there is none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_HOLE)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return offset


def copy_data(source: int, target: int, size: int, capacity: int) -> int:
    """Copy a file's data and leave its holes; returns how much was copied."""
    copied = offset = 0
    while True:
        try:
            begin = os.lseek(source, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # nothing but a hole is left
        offset = os.lseek(source, begin, os.SEEK_HOLE)
        while begin < offset:
            if copied >= capacity:
                raise OSError(errno.ENOSPC, "there is no more room for copies")
            os.lseek(target, begin, os.SEEK_SET)
            sent = os.sendfile(target, source, begin, min(_CHUNK, offset - begin, capacity - copied))
            if not sent:
                break
            begin += sent
            copied += sent
    os.ftruncate(target, max(size, offset))
    return copied
