"""What code left in a session's working directory, by what the file system says of each file. Reads no contents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cellwright.errors import SandboxError
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.listings import shown_path

__all__ = ["Leavings", "LeftFile", "entries_in", "leavings_of"]

MOST_LISTED = 50
# File systems tell time by a clock that may be some ticks behind.
_TICKS_NS = 20_000_000
_NS = 1_000_000_000


class LeftFile(msgspec.Struct, frozen=True):
    """A file in a working directory; ``type`` is ``file``, ``link``, ``deleted`` (from the project) or ``other``."""

    path: str
    type: str
    size: int
    time: float


@dataclass(frozen=True, slots=True)
class Leavings:
    """Files, the newest first, by their paths from ``directory``; ``more`` counts those beyond a bound."""

    directory: str
    files: tuple[LeftFile, ...] = ()
    more: int = 0
    seen: Mapping[str, Entry] = field(default_factory=dict, repr=False)
    """All that lay there, for the next look."""


def entries_in(directory: str) -> Mapping[str, Entry]:
    """All that lies in a directory; nothing where it is not there yet, or no longer. Blocking."""
    try:
        with Workdir.open(Path(directory)) as workdir:
            return workdir.snapshot().entries
    except SandboxError:
        return {}


def leavings_of(
    directory: str,
    seen: Mapping[str, Entry],
    *,
    since: float = 0,
    until: float | None = None,
    before: Mapping[str, Entry] | None = None,
    but: Collection[Path] = (),
    limit: int = MOST_LISTED,
) -> Leavings:
    """Of the files that were seen in a directory, those that came or changed since a moment and since an earlier look.

    What changed after ``until`` is another's, and is left for the look that is meant for it. ``but`` are files of the
    engine's own.
    """
    own = {str(path.relative_to(directory)) for path in but if path.is_relative_to(directory)}
    first = int(since * _NS) - _TICKS_NS
    known = before or {}
    if until is not None:
        last = int(until * _NS)
        then = {path: entry for path, entry in seen.items() if _changed_at(entry) <= last}
        seen = {path: entry for path, entry in known.items() if path in seen} | then
    found = [
        entry
        for path, entry in seen.items()
        if _is_new(entry, first) and known.get(path) != entry and path not in own
    ]
    found.sort(key=_changed_at, reverse=True)
    return Leavings(directory, tuple(map(_told, found[:limit])), max(len(found) - limit, 0), seen)


def _is_new(entry: Entry, first: int) -> bool:
    ours = entry.path.rpartition("/")[2].startswith(".cellwright-")
    return entry.type != "directory" and _changed_at(entry) >= first and not ours


def _changed_at(entry: Entry) -> int:
    # Of the file itself: code can set the other times.
    return entry.identity[1]


def _told(entry: Entry) -> LeftFile:
    kind = "deleted" if entry.type == "whiteout" else entry.type
    return LeftFile(shown_path(entry.path), kind, entry.size, entry.mtime_ns / _NS)
