"""Lists a working directory, and compares two listings: files that came, changed and went. Reads no contents."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from cellwright.sandbox.safe_paths import open_beneath

__all__ = [
    "Changes",
    "Entry",
    "Listing",
    "Snapshot",
    "compare",
    "entry_of",
    "kind_of",
    "list_directory",
    "quoted_path",
    "shown_path",
    "take_snapshot",
]

EntryType = Literal["file", "directory", "link", "whiteout", "other"]

# Nobody puts a result deeper than this; code that wants to exhaust whoever looks does.
MAX_DEPTH = 64
SKIPPED = frozenset({".git", ".venv", "__pycache__", "node_modules", ".ipynb_checkpoints"})
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a working directory. A link is told as a link, never as what it points to."""

    path: str
    type: EntryType
    """``whiteout`` stands in an overlay's layer for something that was deleted; ``other`` is a pipe, socket or device."""
    size: int
    mtime_ns: int
    links: int
    identity: tuple[int, int] = field(repr=False)
    """Inode and change time: code cannot set the latter, so an edit that restores size and time still shows."""
    executable: bool = False
    """Whether its owner may run it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in one directory, sorted; ``complete`` is false where there were more than asked for."""

    entries: tuple[Entry, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that lay beneath a directory at one moment; ``complete`` is false where a bound, or a closed door, cut it short."""

    entries: Mapping[str, Entry]
    complete: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different between two snapshots.

    Where one of them was cut short ``complete`` is false, and what merely was not looked at is not called deleted.
    """

    created: tuple[Entry, ...]
    changed: tuple[Entry, ...]
    deleted: tuple[Entry, ...]
    complete: bool

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.deleted)


def entry_of(path: str, status: os.stat_result) -> Entry:
    """An entry from what ``lstat`` says."""
    return Entry(
        path,
        kind_of(status),
        status.st_size,
        status.st_mtime_ns,
        status.st_nlink,
        (status.st_ino, status.st_ctime_ns),
        bool(status.st_mode & stat.S_IXUSR),
    )


def shown_path(path: str) -> str:
    """A path as text: bytes that are no UTF-8, which file names may hold, are written as ``\\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def quoted_path(path: str) -> str:
    """A path for a line of text: in quotes where a line break or a control character would pass for something else."""
    text = shown_path(path)
    return text if text.isprintable() else json.dumps(text)


def list_directory(
    root: int, names: tuple[str, ...], *, max_entries: int, cross_mounts: bool = False
) -> Listing:
    """The names in one directory.

    Raises:
        OSError: it is not there, not a directory, or the way to it leads elsewhere.
    """
    descriptor = open_beneath(root, names, _DIRECTORY, cross_mounts=cross_mounts)
    found: list[Entry] = []
    complete = True
    try:
        for entry in _scan(descriptor, names):
            if len(found) == max_entries:
                complete = False
                break
            found.append(entry)
    finally:
        os.close(descriptor)
    return Listing(tuple(sorted(found, key=lambda entry: entry.path)), complete)


def take_snapshot(
    root: int, *, max_entries: int, skip: frozenset[str] = SKIPPED, cross_mounts: bool = False
) -> Snapshot:
    """Everything beneath a directory, except what lies in directories of these names."""
    found: dict[str, Entry] = {}
    complete = True
    ahead: list[tuple[str, ...]] = [()]
    while ahead:
        names = ahead.pop()
        capacity = max_entries - len(found)
        try:
            listing = list_directory(root, names, max_entries=capacity, cross_mounts=cross_mounts)
        except OSError as error:
            # Gone or swapped since its name was read; or closed to us, or too deep, and then there is more to tell.
            complete = complete and error.errno in _GONE
            continue
        complete = complete and listing.complete
        for entry in listing.entries:
            found[entry.path] = entry
            inside = (*names, entry.path.rpartition("/")[2])
            if entry.type == "directory" and inside[-1] not in skip:
                if len(inside) <= MAX_DEPTH:
                    ahead.append(inside)
                else:
                    complete = False
    return Snapshot(found, complete)


def compare(before: Snapshot, after: Snapshot) -> Changes:
    """What came, changed and went. A directory counts as changed only where it became one or ceased to be one."""
    old, new = before.entries, after.entries
    created = [entry for path, entry in new.items() if path not in old]
    changed = [entry for path, entry in new.items() if path in old and _differs(old[path], entry)]
    deleted = [entry for path, entry in old.items() if path not in new] if after.complete else []
    complete = before.complete and after.complete
    return Changes(_sorted(created), _sorted(changed), _sorted(deleted), complete)


def _scan(descriptor: int, names: tuple[str, ...]) -> Iterator[Entry]:
    prefix = "".join(f"{name}/" for name in names)
    with os.scandir(descriptor) as names_found:
        for name in names_found:
            try:
                status = name.stat(follow_symlinks=False)
            except OSError:
                continue
            yield entry_of(prefix + name.name, status)


def kind_of(status: os.stat_result) -> EntryType:
    """What a name stands for; a whiteout hides what an overlay has below."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISCHR(mode) and status.st_rdev == 0:
        return "whiteout"
    return "other"


def _differs(old: Entry, new: Entry) -> bool:
    if old.type == new.type == "directory":
        return False
    return old != new


def _sorted(entries: list[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.path))
