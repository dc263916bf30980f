"""Contents of files, each kept once however many checkpoints need it, within a fixed room. Blocking.

Whose contents they are and what they were called stands elsewhere (``snapshot_store``). A content is a file of its own in a
directory that is ours alone; where the file system can, it shares its blocks with what it was taken from.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TypeAlias

from cellwright.sandbox.files import SKIPPED, EntryType
from cellwright.sandbox.safe_paths import (
    MAX_DEPTH,
    Names,
    closing,
    copy_data,
    entries,
    have_same_data,
    stamp_of,
)

__all__ = [
    "OURS",
    "SKIPPED",
    "Contents",
    "Identity",
    "Kept",
    "Key",
    "Look",
    "Taken",
    "copy_file",
    "identity_of",
    "key_of",
    "look_at",
]
BLOCK = 4096
"""Every content counts as at least so many bytes, and as a multiple: so many files cannot be kept for nothing."""

_FICLONE = 0x40049409

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

_NAME = "content-"

# A content that is put back again and again looks different each time; the latest looks are the likely ones.
_MOST_KEYS = 16

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(slots=True)
class _Content:
    bytes: int
    uses: int = 0
    keys: dict[Key, bool] = field(default_factory=dict)
    """What the files looked like that have it, and whether that is certain."""


class Contents:
    """A directory of numbered contents. They go when nobody holds them and ``sweep`` is called."""

    def __init__(self, directory: Path, *, capacity: int) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path, self._capacity = directory, capacity
        self._directory = os.open(directory, _DIRECTORY)
        os.fchmod(self._directory, 0o700)
        self._clear()
        self._all: dict[int, _Content] = {}
        self._by_key: dict[Key, int] = {}
        self._idle: set[int] = set()
        self._next = 0
        self.used = 0
        """The bytes of all contents together."""

    def add(self, source: int) -> int:
        """Keep the content of an open file; returns its number.

        Raises:
            OSError: with ``ENOSPC`` where there is no room, else as the file system says.
        """
        number, self._next = self._next, self._next + 1
        capacity = (self._capacity - self.used) // BLOCK * BLOCK
        if capacity <= 0:
            raise OSError(errno.ENOSPC, "there is no more room for contents")
        name = f"{_NAME}{number}"
        target = os.open(name, _NEW, 0o600, dir_fd=self._directory)
        try:
            with closing(target):
                taken = copy_file(source, target, capacity=capacity)
        except BaseException:
            os.unlink(name, dir_fd=self._directory)
            raise
        size = max(BLOCK, -(-taken // BLOCK) * BLOCK)
        self._all[number] = _Content(size)
        self._idle.add(number)
        self.used += size
        return number

    def open(self, number: int) -> int:
        """A content, open to be read by whoever closes it."""
        return os.open(f"{_NAME}{number}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)

    def bytes_of(self, numbers: Iterable[int]) -> int:
        return sum(self._all[number].bytes for number in numbers)

    def is_same(self, number: int, source: int) -> bool:
        """Whether an open file has a content, by reading both."""
        content = self.open(number)
        with closing(content):
            size = os.fstat(content).st_size
            return os.fstat(source).st_size == size and have_same_data(content, source, size)

    # Which file has which ---------------------------------------------------------------------------------------

    def known(self, key: Key) -> int | None:
        """The content that a file most likely has that looks like this."""
        return self._by_key.get(key)

    def holds(self, number: int, key: Key) -> bool:
        """Whether a file that looks like this surely has a content."""
        return self._by_key.get(key) == number and self._all[number].keys[key]

    def note(self, key: Key, number: int, *, certain: bool) -> None:
        """Remember that a file that looks like this has a content."""
        self._forget(key)
        keys = self._all[number].keys
        if len(keys) >= _MOST_KEYS:
            self._forget(next(iter(keys)))
        keys[key] = certain
        self._by_key[key] = number

    def _forget(self, key: Key) -> None:
        if key in self._by_key:
            del self._all[self._by_key.pop(key)].keys[key]

    # Who needs which --------------------------------------------------------------------------------------------

    def __contains__(self, number: object) -> bool:
        return number in self._all

    def hold(self, number: int) -> None:
        self._all[number].uses += 1
        self._idle.discard(number)

    def release(self, numbers: Iterable[int]) -> None:
        """Undo as many ``hold``."""
        for number in numbers:
            self._all[number].uses -= 1
            if not self._all[number].uses:
                self._idle.add(number)

    def sweep(self) -> None:
        """Delete what nobody holds."""
        while self._idle:
            number = self._idle.pop()
            content = self._all.pop(number)
            for key in content.keys:
                del self._by_key[key]
            self.used -= content.bytes
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{_NAME}{number}", dir_fd=self._directory)

    def close(self) -> None:
        """Delete everything; the second time does nothing."""
        if self._directory < 0:
            return
        self._clear()
        os.close(self._directory)
        self._directory = -1
        self._all.clear()
        self._by_key.clear()
        self._idle.clear()
        self.used = 0
        # Somebody else's file in it is not ours to delete.
        with contextlib.suppress(OSError):
            self._path.rmdir()

    def _clear(self) -> None:
        with os.scandir(self._directory) as found:
            names = [entry.name for entry in found if entry.name.startswith(_NAME)]
        for name in names:
            # A session's engine deletes its directory meanwhile: it may be further than we are.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._directory)


def copy_file(source: int, target: int, *, capacity: int) -> int:
    """Make an empty file the same as another, sharing its blocks where that can be; returns the bytes of its data.

    Raises:
        OSError: with ``ENOSPC`` where that is more than there is room for.
    """
    status = os.fstat(source)
    if min(status.st_size, status.st_blocks * 512) > capacity:
        raise OSError(errno.ENOSPC, "there is no more room for contents")
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        # Another file system, or one that cannot share: each has its own word for it.
        if error.errno in _FULL:
            raise
        return copy_data(source, target, status.st_size, capacity)
    return min(status.st_size, os.fstat(target).st_blocks * 512)


# What a directory was at one moment, as a list of names. Contents lie elsewhere (``snapshot_store``).

Key: TypeAlias = tuple[int, int, int, int, int, int]

Identity: TypeAlias = tuple[int, int]

OURS = ".cellwright-"
"""How the names of our own temporaries begin, which end in ``.tmp``."""

# More than a person's project has, and few enough to be listed before every cell.
_MOST_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class Kept:
    """One name as it was."""

    kind: EntryType
    mode: int
    mtime_ns: int
    owner: tuple[int, int]
    key: Key
    """What it looked like then: whatever looks the same later was not touched."""
    size: int = 0
    content: int | None = None
    """Which content a file had."""
    points_to: str = ""
    """What a link said."""
    opaque: tuple[tuple[str, bytes], ...] = ()
    """An overlay's notes on a directory that hides the one below it."""
    shared: Identity | None = None
    """Which file it was, where that had several names."""


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A directory as it was, down to the last name; the directory itself has the empty name."""

    entries: Mapping[Names, Kept]
    left_out: Mapping[Names, str]
    """What could not be kept, with the reason. Nothing is known of what lies in directories among them."""
    total_bytes: int
    new_bytes: int
    """What this one added to the contents that are kept."""
    skip: frozenset[str] = SKIPPED
    passed_over: Mapping[Names, Key] = field(default_factory=dict, repr=False)
    """What files that were left out looked like: whatever looks the same later is no loss."""


@dataclass(slots=True)
class Look:
    """Everything that a walk saw."""

    found: dict[Names, os.stat_result] = field(default_factory=dict)
    left_out: dict[Names, str] = field(default_factory=dict)
    skipped: set[Names] = field(default_factory=set)
    """Directories that were not to be looked into, and our own temporaries."""
    names_of: dict[Identity, list[Names]] = field(default_factory=lambda: defaultdict(list))
    """The names of each file that has several somewhere."""

    def has_name_elsewhere(self, status: os.stat_result) -> bool:
        """Whether a file has a name that was not seen here: it may be somebody else's."""
        return status.st_nlink > 1 and status.st_nlink > len(self.names_of.get(identity_of(status), ()))


def look_at(root: int, skip: frozenset[str], *, open_up: Callable[[Names], bool] | None = None) -> Look:
    """See all that lies beneath a directory. ``open_up`` is asked to open one that is closed to us."""
    look = Look()
    ahead: list[Names] = [()]
    while ahead:
        names = ahead.pop()
        if len(look.found) >= _MOST_ENTRIES:
            look.left_out[names] = f"there are more than {_MOST_ENTRIES} files"
            continue
        try:
            ahead += _look_into(root, names, look, skip)
        except OSError as error:
            if isinstance(error, PermissionError) and open_up is not None and open_up(names):
                ahead.append(names)
            elif error.errno not in (errno.ENOENT, errno.ENOTDIR):
                look.left_out[names] = f"it cannot be read ({error.strerror})"
    return look


def _is_skipped(names: Names, skip: frozenset[str], *, is_directory: bool) -> bool:
    """Whether something is passed over: a directory by its name (``.git``) or its path (``/data/old``), a file by its
    ending (``*.ipynb``), our own temporaries always.
    """
    name = names[-1]
    ours = name.startswith(OURS) and name.endswith(".tmp")
    ending = name if is_directory else f"*{PurePath(name).suffix}"
    return ours or ending in skip or "/" + "/".join(names) in skip


def _look_into(root: int, names: Names, look: Look, skip: frozenset[str]) -> list[Names]:
    """Note what one directory holds; returns the directories to look into next."""
    ahead: list[Names] = []
    for inside, status in entries(root, names):
        mode = status.st_mode
        is_directory = stat.S_ISDIR(mode)
        if _is_skipped(inside, skip, is_directory=is_directory):
            look.skipped.add(inside)
            continue
        look.found[inside] = status
        if is_directory and len(inside) > MAX_DEPTH:
            look.left_out[inside] = f"it is more than {MAX_DEPTH} directories deep"
        elif is_directory:
            ahead.append(inside)
        elif status.st_nlink > 1 and stat.S_ISREG(mode):
            look.names_of[identity_of(status)].append(inside)
    return ahead


def key_of(status: os.stat_result) -> Key:
    """What changes with every change to a file, as far as the clock and the file system tell."""
    return (status.st_dev, *stamp_of(status))


def identity_of(status: os.stat_result) -> Identity:
    return (status.st_dev, status.st_ino)
