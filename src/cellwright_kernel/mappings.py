"""Memory that is shared: maps of files, which a forked kernel makes anew from what lies there then, and all other kinds.

A fork shares such memory with its origin. When a file has come back under its name, a map still shows the one that
went. Descriptors are ``checkpoints``' matter; private memory needs nothing, since a fork has its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

__all__ = ["Map", "file_maps", "map_anew", "other_maps_in_words", "shared_maps", "stamp_written"]

MAP_SHARED, MAP_FIXED = 0x01, 0x10
PROTECTION = {"r": 1, "w": 2, "x": 4}
DELETED = " (deleted)"
# None of these is a file that could be opened again.
NO_FILES = ("/dev/", "/memfd:", "/SYSV", "anon_inode:")
ANONYMOUS = "/dev/zero"
FIELDS = 6


@dataclass(frozen=True)
class Map:
    """A piece of memory that is shared with whoever else maps the same."""

    start: int
    length: int
    access: str
    """As the system writes it: ``rw-``."""
    offset: int
    path: str
    size: int
    """How long the file was: beyond its end the memory must not be touched."""


def shared_maps() -> list[Map]:
    """All that this process has now."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        return [_parsed(line) for line in file if line.split(maxsplit=2)[1].endswith("s")]


def file_maps(maps: Iterable[Map]) -> list[Map]:
    """Those of files that have a name."""
    return [one for one in maps if one.path.startswith("/") and not _is_nameless(one)]


def other_maps_in_words(maps: Iterable[Map]) -> list[str]:
    """Those that stay shared with the origin, whatever becomes of it."""
    names = [one.path.removesuffix(DELETED) for one in maps if _is_nameless(one)]
    told = ["anonymous shared memory" if name == ANONYMOUS else f"the shared memory {name}" for name in names]
    return list(dict.fromkeys(told))


def map_anew(maps: Collection[Map]) -> list[str]:
    """Let each map show the file that now has its name; tells those that could not be."""
    failed: list[str] = []
    for one in maps:
        try:
            _map_one_anew(one)
        except OSError:
            failed.append(f"the memory map of {one.path}")
    return failed


def stamp_written() -> None:
    """Let files that are mapped to be written look changed: writing to memory alone is not noted on every file system."""
    if "mmap" not in sys.modules:
        return
    for path in {one.path for one in file_maps(shared_maps()) if "w" in one.access}:
        with contextlib.suppress(OSError):
            os.utime(path)


def _parsed(line: str) -> Map:
    where, access, offset, _, _, *rest = line.rstrip("\n").split(maxsplit=FIELDS - 1)
    begin, end = (int(edge, 16) for edge in where.split("-"))
    path, size = rest[0] if rest else "", 0
    with contextlib.suppress(OSError):
        size = os.stat(path).st_size
    return Map(begin, end - begin, access[:3], int(offset, 16), path, size)


def _is_nameless(one: Map) -> bool:
    return one.path.startswith(NO_FILES) or one.path.endswith(DELETED)


def _map_one_anew(one: Map) -> None:
    file = os.open(one.path, (os.O_RDWR if "w" in one.access else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if os.fstat(file).st_size < one.size:
            raise OSError("it is shorter than it was")
        protection = sum(PROTECTION.get(letter, 0) for letter in one.access)
        mmap = ctypes.CDLL(None, use_errno=True).mmap
        mmap.restype = ctypes.c_void_p
        mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        found = mmap(one.start, one.length, protection, MAP_SHARED | MAP_FIXED, file, one.offset)
        if found != one.start:
            raise OSError(ctypes.get_errno(), "it cannot be mapped")
    finally:
        os.close(file)
