"""Keeps what the files of a working directory were, checkpoint by checkpoint, and brings them back. Blocking.

Taking reads only what changed since it was last taken; which content lies where is ``snapshot_store``' to know, and how
a directory becomes again what it was is ``restore``'s. When to do either others decide. Code may write to the
directory meanwhile: every name is opened beneath it without following a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.sandbox._restore import Restored, fill_layer, restore
from cellwright.sandbox.files import kind_of
from cellwright.sandbox.safe_paths import OPAQUE, READ, TICKS_NS, Names, closing, open_beneath, opened
from cellwright.sandbox.snapshot_store import (
    SKIPPED,
    Contents,
    Identity,
    Kept,
    Key,
    Taken,
    identity_of,
    key_of,
    look_at,
)

__all__ = ["Restored", "Taken", "Versions"]

_TRIES = 3


class Versions:
    """The contents that a session's checkpoints share, in a directory of the host's own. May be used from any thread."""

    def __init__(self, directory: Path, *, capacity: int) -> None:
        self._contents = Contents(directory, capacity=capacity)
        self._lock = threading.Lock()
        self._live: set[Taken] = set()
        self._latest: dict[Identity, _Latest] = {}

    @property
    def used_bytes(self) -> int:
        """What all contents take together."""
        return self._contents.used

    def take(
        self, source: int, *, skip: frozenset[str] = SKIPPED, doubted: frozenset[int] = frozenset()
    ) -> Taken:
        """Keep an open directory as it is, except directories of some names.

        ``doubted`` are the inodes of files that processes have mapped to write: no stamp tells when those change.
        """
        with self._lock:
            identity = identity_of(os.fstat(source))
            taking = _Taking(self._contents, source, doubted, self._latest.get(identity, _Latest()))
            taken = taking.run(skip)
            self._latest[identity] = _Latest(taken.entries, taking.unsure)
            self._live.add(taken)
            return taken

    def restore(
        self, taken: Taken, target: int, *, owner: tuple[int, int] | None = None, make_space: bool = False
    ) -> Restored:
        """Make an open directory what it was; what is the same already is not touched.

        ``owner`` is whom new files are to belong to, if not to whom they did. With ``make_space`` what goes is deleted
        before what comes is written, if there is not room for both.

        Raises:
            FileFailed: it could not be done. Nothing was changed, unless room was made.
        """
        with self._lock:
            self._check(taken)
            return restore(self._contents, taken, target, owner=owner, make_space=make_space)

    def fill_layer(
        self, taken: Taken, lower: int, upper: int, *, owner: tuple[int, int] | None = None
    ) -> Restored:
        """Put into the empty upper layer over a directory what makes it look as it did.

        Raises:
            FileFailed: it could not be done.
        """
        with self._lock:
            self._check(taken)
            return fill_layer(self._contents, taken, lower, upper, owner=owner)

    def drop(self, taken: Taken) -> None:
        """Forget a checkpoint's files, and delete the contents that no other needs. Twice is as good as once."""
        with self._lock:
            if taken in self._live:
                self._live.remove(taken)
                self._contents.release(_held(taken.entries))
                self._contents.sweep()

    def close(self) -> None:
        """Forget everything and remove the directory."""
        with self._lock:
            self._live.clear()
            self._latest.clear()
            self._contents.close()

    def _check(self, taken: Taken) -> None:
        if taken not in self._live:
            raise ValueError("these files were dropped")


@dataclass(slots=True)
class _Latest:
    """What was last taken of a directory, so that what did not change is not looked at twice."""

    entries: Mapping[Names, Kept] = field(default_factory=dict)
    unsure: set[Names] = field(default_factory=set)
    """Names that may have changed again in the same tick of the clock."""


class _Taking:
    """One walk through a directory."""

    def __init__(self, contents: Contents, source: int, doubted: frozenset[int], latest: _Latest) -> None:
        self._contents, self._source, self._doubted, self._latest = contents, source, doubted, latest
        self._entries: dict[Names, Kept] = {}
        self._passed_over: dict[Names, Key] = {}
        self._seen: dict[Key, int] = {}
        self.unsure: set[Names] = set()
        # What changed since then may change again without looking different.
        self._settled_ns = time.time_ns() - TICKS_NS

    def run(self, skip: frozenset[str]) -> Taken:
        before = self._contents.used
        self._look = look_at(self._source, skip)
        try:
            return self._take(skip, before)
        except BaseException:
            self._contents.release(_held(self._entries))
            raise
        finally:
            self._contents.sweep()

    def _take(self, skip: frozenset[str], before: int) -> Taken:
        found, fresh = self._look.found, []
        found[()] = os.fstat(self._source)
        for names, status in found.items():
            same = self._unchanged(names, status)
            if same is not None:
                self._keep(names, same)
            else:
                fresh.append((names, status))
        # Small files first: where there is not room for all, more are kept.
        for names, status in sorted(fresh, key=lambda item: item[1].st_size):
            self._take_one(names, status)
        # Checkpoints of one directory that did not change share their list.
        entries = (
            self._latest.entries
            if not fresh and len(self._entries) == len(self._latest.entries)
            else self._entries
        )
        total = self._contents.bytes_of(set(_held(entries)))
        return Taken(
            entries, self._look.left_out, total, self._contents.used - before, skip, self._passed_over
        )

    def _unchanged(self, names: Names, status: os.stat_result) -> Kept | None:
        """What was taken last time, if that is certain to be the same."""
        last = self._latest.entries.get(names)
        if last is None or last.key != key_of(status) or status.st_ino in self._doubted:
            return None
        if last.content is None:
            return last if names not in self._latest.unsure else None
        return last if self._contents.holds(last.content, last.key) else None

    def _keep(self, names: Names, kept: Kept) -> None:
        self._entries[names] = kept
        if kept.content is not None:
            self._contents.hold(kept.content)

    def _take_one(self, names: Names, status: os.stat_result) -> None:
        try:
            kept = self._read(names, status)
        except OSError as error:
            # What vanished in between is no loss: it is not there any more.
            if error.errno != errno.ENOENT:
                self._leave_out(names, status, _reason(error))
            return
        if isinstance(kept, Kept):
            self._keep(names, kept)
        else:
            self._leave_out(names, status, kept)

    def _leave_out(self, names: Names, status: os.stat_result, reason: str) -> None:
        self._look.left_out[names] = reason
        self._passed_over[names] = key_of(status)

    def _read(self, names: Names, status: os.stat_result) -> Kept | str:
        """One name as it is now, or why it cannot be kept."""
        kind = kind_of(status)
        if kind == "other":
            return "it is a pipe, a socket or a device"
        if kind == "file":
            return self._read_file(names)
        if status.st_ctime_ns >= self._settled_ns:
            self.unsure.add(names)
        points_to = ""
        opaque: tuple[tuple[str, bytes], ...] = ()
        if kind == "link":
            with opened(self._source, names[:-1]) as directory:
                points_to = os.readlink(names[-1], dir_fd=directory)
        elif kind == "directory" and names not in self._look.left_out:
            with opened(self._source, names) as directory:
                opaque = _opaque(directory)
        return _kept(status, points_to=points_to, opaque=opaque)

    def _read_file(self, names: Names) -> Kept | str:
        for _ in range(_TRIES):
            source = open_beneath(self._source, names, READ)
            with closing(source):
                before = os.fstat(source)
                if not stat.S_ISREG(before.st_mode):
                    raise FileNotFoundError(errno.ENOENT, "it was replaced meanwhile")
                if self._look.has_name_elsewhere(before):
                    return "it has a name elsewhere (a hard link)"
                content = self._content(names, source, before)
                key = key_of(os.fstat(source))
            if key == key_of(before):
                self._contents.note(key, content, certain=before.st_ctime_ns < self._settled_ns)
                self._seen[key] = content
                return _kept(before, content=content)
            self._contents.sweep()
        return "it changed while it was copied"

    def _content(self, names: Names, source: int, status: os.stat_result) -> int:
        """The content of an open file: one that is kept already, if it is the same, or a new one."""
        key = key_of(status)
        if key in self._seen:
            return self._seen[key]  # another name of a file that was just read
        known = self._contents.known(key)
        if known is not None and self._contents.holds(known, key) and status.st_ino not in self._doubted:
            return known
        last = self._latest.entries.get(names)
        # It may have been written again as it was.
        for likely in {known, last.content if last is not None else None}:
            if likely is not None and likely in self._contents and self._contents.is_same(likely, source):
                return likely
        return self._contents.add(source)


def _kept(
    status: os.stat_result,
    *,
    content: int | None = None,
    points_to: str = "",
    opaque: tuple[tuple[str, bytes], ...] = (),
) -> Kept:
    kind = kind_of(status)
    return Kept(
        kind=kind,
        mode=stat.S_IMODE(status.st_mode) & 0o777,
        mtime_ns=status.st_mtime_ns,
        owner=(status.st_uid, status.st_gid),
        key=key_of(status),
        size=status.st_size if kind == "file" else 0,
        content=content,
        points_to=points_to,
        opaque=opaque,
        shared=identity_of(status) if kind == "file" and status.st_nlink > 1 else None,
    )


def _opaque(directory: int) -> tuple[tuple[str, bytes], ...]:
    found = []
    for name in OPAQUE:
        with contextlib.suppress(OSError):
            found.append((name, os.getxattr(directory, name)))
    return tuple(found)


def _held(entries: Mapping[Names, Kept]) -> list[int]:
    return [kept.content for kept in entries.values() if kept.content is not None]


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "there is no room to keep it"
    return f"it cannot be read ({error.strerror})"
