"""What a run finds in its directory, and what is kept of it: files between the data directory and a session's own.

Blocking, like all file work. What runs there and when stands in ``runs``; which paths are allowed in ``sandbox.files``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cellwright.errors import FileTooLarge, NoSuchFile, SandboxError
from cellwright.sandbox.files import Changes, Entry, Snapshot, Workdir
from cellwright.settings import Settings
from cellwright.tools.filetypes import file_type
from cellwright.tools.shelf import RUNS, Shelf, relative

__all__ = ["OldRun", "RunDirectory", "RunFile", "too_old"]

MOST_LISTED = 50
SCRIPT = "script"


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that a run left: ``path`` is its name in the data directory."""

    filename: str
    path: str
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a run's files."""

    files: tuple[RunFile, ...] = ()
    more: int = 0
    not_kept: tuple[str, ...] = ()
    """Names that are no plain files, or could not be copied, with the reason."""
    paths: frozenset[str] = frozenset()
    """Of all files in the run's directory, those beyond ``files`` too."""


class RunDirectory:
    """The directory of one run: a fresh one, or a copy of one on the shelf to which changes go back."""

    def __init__(self, settings: Settings, run_id: str, working_dir: str | None) -> None:
        self._settings = settings
        self._shelf = Shelf(settings)
        self._before = Snapshot({}, complete=True)
        self.run_id = run_id
        self.lasts = working_dir is not None
        """Whether it was there before, and what is deleted in it is deleted."""
        self.name = relative(working_dir) if working_dir is not None else f"{RUNS}/{run_id}"
        """Where its files are in the data directory."""

    def fill(self, written: Path, most_bytes: int) -> None:
        """Bring in what lies on the shelf.

        Raises:
            FileTooLarge: it is more than a run may have.
        """
        if not self.lasts:
            return
        with self._shelf.open(self.name) as shelf, Workdir.open(written) as inside:
            entries = shelf.snapshot().entries.values()
            # A file with several names is never read: another may lie anywhere.
            found = [entry for entry in entries if entry.type == "directory" or _is_plain(entry)]
            for entry in self._fitting(found, most_bytes):
                if entry.type == "directory":
                    inside.make_directory(entry.path)
                else:
                    inside.bring(shelf, entry.path)
            self._before = inside.snapshot()

    def script_name(self, suffix: str) -> str:
        """A name for the script that no file has."""
        number, name = 1, f"{SCRIPT}.{suffix}"
        while name in self._before.entries:
            number += 1
            name = f"{SCRIPT}{number}.{suffix}"
        return name

    def keep(self, written: Path, *, script: tuple[str, str]) -> Kept:
        """Put what a run left onto the shelf, each file at once; ``script`` is the name and the text of its own."""
        try:
            with Workdir.open(written) as inside:
                changes, _ = inside.changed_since(self._before)
                new = [entry for entry in (*changes.created, *changes.changed) if not _is_ours(entry)]
                new = [entry for entry in new if not _is_script(inside, entry, script)]
                if not new and not (self.lasts and changes.deleted):
                    return Kept()
                with self._shelf.open(self.name) as shelf:
                    kept, not_kept = _bring(shelf, inside, new, self._room(changes))
                    if not changes.complete:
                        not_kept.append("names beyond those that are looked at")
                    if self.lasts:
                        _remove(shelf, changes.deleted)
        except NoSuchFile:  # no kernel ever came there
            return Kept()
        if not self.lasts:
            clear_old_runs(self._shelf, self._settings, keep=self.name)
        files = tuple(self._told(entry) for entry in kept)
        paths = frozenset(entry.path for entry in kept)
        return Kept(files[:MOST_LISTED], max(len(files) - MOST_LISTED, 0), tuple(not_kept), paths)

    def _room(self, changes: Changes) -> int:
        """How many bytes may come beside what stays as it was."""
        gone = {entry.path for entry in (*changes.changed, *changes.deleted)}
        stays = (
            one.size for one in self._before.entries.values() if one.type == "file" and one.path not in gone
        )
        return min(self._settings.max_run_disk, self._settings.max_session_disk) - sum(stays)

    def _fitting(self, found: list[Entry], most_bytes: int) -> list[Entry]:
        """What is brought in: all of it, or at the top of the shelf all but what earlier runs left."""
        others = [entry for entry in found if not self._is_of_runs(entry)]
        for wanted in (found, others):
            if sum(entry.size for entry in wanted if entry.type == "file") <= most_bytes:
                return wanted
        total = sum(entry.size for entry in others)
        raise FileTooLarge(
            f"The working directory {self.name or '.'!r} holds {total:,} bytes, and a run may have {most_bytes:,}",
            hint="Name a directory below it, or remove files there",
        )

    def _is_of_runs(self, entry: Entry) -> bool:
        return not self.name and (entry.path == RUNS or entry.path.startswith(f"{RUNS}/"))

    def _told(self, entry: Entry) -> RunFile:
        path = f"{self.name}/{entry.path}" if self.name else entry.path
        return RunFile(entry.path.rpartition("/")[2], path, file_type(entry.path), entry.size)


def _is_ours(entry: Entry) -> bool:
    return entry.path.rpartition("/")[2].startswith(".cellwright-")


def _is_script(inside: Workdir, entry: Entry, script: tuple[str, str]) -> bool:
    """Whether it is the script that ran, left by a kernel that did not live to remove it."""
    name, source = script
    content = source.encode("utf-8", "backslashreplace")
    if entry.path != name or not _is_plain(entry) or entry.size != len(content):
        return False
    try:
        return inside.read(name) == content
    except (
        SandboxError
    ):  # swapped since it was looked at: it is told of like everything else that is not kept
        return False


def _is_plain(entry: Entry) -> bool:
    return entry.type == "file" and entry.links == 1


def _bring(shelf: Workdir, inside: Workdir, new: Iterable[Entry], room: int) -> tuple[list[Entry], list[str]]:
    kept: list[Entry] = []
    not_kept: list[str] = []
    # Counted as they are copied: a file with holes in it takes no room where it was made, and all of it here.
    for entry in sorted(new, key=lambda one: one.path):
        try:
            if entry.type == "directory":
                shelf.make_directory(entry.path)
            elif entry.type == "file" and entry.size > room:
                not_kept.append(
                    f"{entry.path} ({entry.size:,} bytes are more than may be kept: max_run_disk)"
                )
            elif entry.type == "file":
                kept.append(shelf.bring(inside, entry.path))
                room -= kept[-1].size
            else:
                not_kept.append(f"{entry.path} ({entry.type})")
        except SandboxError as error:
            not_kept.append(error.message)
    return kept, not_kept


def _remove(shelf: Workdir, deleted: Iterable[Entry]) -> None:
    # What lies deepest goes first, so that its directory is empty.
    for entry in sorted(deleted, key=lambda one: one.path.count("/"), reverse=True):
        with contextlib.suppress(SandboxError):  # somebody else was quicker, or put something into it
            shelf.remove(entry.path)


@dataclass(frozen=True, slots=True)
class OldRun:
    """What an earlier run left: its name, when, and how much."""

    name: str
    time: float
    size: int


def clear_old_runs(shelf: Shelf, settings: Settings, *, keep: str) -> None:
    """Remove what earlier runs left, beyond what the settings keep; never that of ``keep``."""
    with shelf.open(RUNS) as runs:
        found = [_old_run(shelf, entry) for entry in runs.list().entries if entry.type == "directory"]
        others = [run for run in found if f"{RUNS}/{run.name}" != keep]
        for run in too_old(others, settings, now=time.time()):
            with contextlib.suppress(SandboxError):
                with shelf.open(f"{RUNS}/{run.name}") as directory:
                    directory.clear()
                runs.remove(run.name)


def too_old(runs: Iterable[OldRun], settings: Settings, *, now: float) -> list[OldRun]:
    """Those that make way: all but the newest that fit within count, size and age. Pure."""
    gone: list[OldRun] = []
    count, size = 1, 0  # the one that was just kept is one of them
    for run in sorted(runs, key=lambda one: one.time, reverse=True):
        count, size = count + 1, size + run.size
        fits = count <= settings.max_kept_runs and size <= settings.max_kept_run_bytes
        if not fits or now - run.time > settings.keep_runs_s:
            gone.append(run)
    return gone


def _old_run(shelf: Shelf, entry: Entry) -> OldRun:
    with contextlib.suppress(SandboxError), shelf.open(f"{RUNS}/{entry.path}") as directory:
        size = sum(one.size for one in directory.snapshot().entries.values())
        return OldRun(entry.path, entry.mtime_ns / 1e9, size)
    return OldRun(entry.path, entry.mtime_ns / 1e9, 0)
