"""What a directory was at one moment, as a list of names. Contents lie elsewhere (``contents``).

A look at a tree follows no link and reads no contents; what it could not see is named with the reason.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypeAlias

from cellwright.sandbox.listing import SKIPPED, EntryType
from cellwright.sandbox.trees import MAX_DEPTH, Names, entries, stamp_of

__all__ = [
    "OURS",
    "SKIPPED",
    "Identity",
    "Kept",
    "Key",
    "Look",
    "Taken",
    "identity_of",
    "key_of",
    "look_at",
]

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
