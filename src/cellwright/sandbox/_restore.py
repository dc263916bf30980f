"""Makes a directory again what it was. What is to be done is decided first, by pure functions. Blocking.

How it is done, so that a full disk changes nothing and whoever dies half-way leaves whole files, is ``restore``'s.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cellwright.errors import FileFailed
from cellwright.sandbox.files import kind_of
from cellwright.sandbox.safe_paths import OPAQUE, READ, Names, clear_directory, closing, open_beneath, opened
from cellwright.sandbox.snapshot_store import (
    OURS,
    Contents,
    Identity,
    Kept,
    Look,
    Taken,
    copy_file,
    identity_of,
    key_of,
    look_at,
)

__all__ = ["Restored", "fill_layer", "restore"]
_WHITEOUT = Kept("whiteout", 0, 0, (0, 0), (0, 0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Restored:
    """What is different from before, and what could not be made as it was, with the reasons."""

    changed: tuple[Names, ...]
    removed: tuple[Names, ...]
    failed: Mapping[Names, str]


@dataclass(slots=True)
class Plan:
    """What is to be done, parents before what lies in them."""

    place: list[Names] = field(default_factory=list)
    """What is to be written and put in place."""
    adjust: list[Names] = field(default_factory=list)
    """What has the right content, but not the right mode or time."""
    clear: list[Names] = field(default_factory=list)
    """What is to go, with all that is in it."""
    failed: dict[Names, str] = field(default_factory=dict)
    """What cannot be done."""


def restore(
    contents: Contents, taken: Taken, target: int, *, owner: tuple[int, int] | None, make_space: bool
) -> Restored:
    """Make an open directory what it was."""
    placing = DirectoryChange(contents, taken.entries, target, owner)
    with placing.undone_if_it_fails():
        look = look_at(
            target,
            taken.skip,
            open_up=lambda names: names not in taken.left_out and placing.open_up(names),
        )
        plan = plan_restore(taken, look, _same(contents, taken.entries, target, look))
        placing.stage(plan.place, plan.clear, make_space=make_space)
    placing.put(plan.place)
    placing.clear(plan.clear)
    placing.adjust({names: look.found[names] for names in plan.adjust})
    placing.finish([names for names, kept in taken.entries.items() if kept.kind == "directory"])
    gone = set(plan.clear) - placing.failed.keys()
    removed = [names for names in look.found if any(above in gone for above in _ways(names))]
    return Restored(tuple(sorted(placing.changed)), tuple(sorted(removed)), plan.failed | placing.failed)


def fill_layer(
    contents: Contents, taken: Taken, lower: int, upper: int, *, owner: tuple[int, int] | None
) -> Restored:
    """Put into the upper layer over a directory what makes it look as it did."""
    look = look_at(lower, taken.skip)
    entries, plan = plan_layer(taken, look, _same(contents, taken.entries, lower, look))
    placing = DirectoryChange(contents, entries, upper, owner)
    with placing.undone_if_it_fails():
        placing.stage(plan.place)
    placing.put(plan.place)
    placing.finish([names for names, kept in entries.items() if kept.kind == "directory"])
    removed = tuple(names for names in plan.place if entries[names] is _WHITEOUT)
    changed = tuple(sorted(placing.changed - set(removed)))
    return Restored(changed, removed, plan.failed | placing.failed)


# Decisions ---------------------------------------------------------------------------------------------------------


def plan_restore(taken: Taken, look: Look, same: set[Names]) -> Plan:
    """What makes a directory that looks so what it was; ``same`` are the names that have their content still."""
    plan = Plan(failed=_lost(taken, look))
    left_alone = look.skipped | (look.found.keys() & taken.left_out.keys())
    holders = {above for names in left_alone for above in _ways(names[:-1])}
    blocked: set[Names] = set()
    for names, kept in sorted(taken.entries.items(), key=_depth):
        status = look.found.get(names)
        if names[:-1] in blocked:
            blocked.add(names)
            plan.failed[names] = plan.failed[names[:-1]]
        elif names in look.skipped or (names in holders and kept.kind != "directory"):
            blocked.add(names)
            plan.failed[names] = "a directory that is left alone stands in its place"
        elif not names or (status is not None and kind_of(status) == kept.kind == "directory"):
            continue
        elif status is None or names not in same:
            plan.place.append(names)
        elif _is_different(kept, status):
            plan.adjust.append(names)
    going = _new_names(taken, look)
    for names in [names for names in going if names in holders]:
        plan.failed[names] = "it is new, and holds what is left alone"
    plan.clear = _topmost([names for names in going if names not in holders])
    return plan


def plan_layer(taken: Taken, look: Look, same: set[Names]) -> tuple[dict[Names, Kept], Plan]:
    """What makes a directory that looks so appear as it was, once it lies over it; with the names of the layer."""
    plan = Plan(failed=_lost(taken, look))
    wanted: dict[Names, Kept] = {}
    for names, kept in taken.entries.items():
        status = look.found.get(names)
        is_there = status is not None and (kind_of(status) == kept.kind == "directory" or names in same)
        if kept.kind == "whiteout":
            plan.failed[names] = "it would hide what lies below it"
        elif names and (status is None or not is_there or _is_different(kept, status)):
            wanted[names] = kept
    wanted |= dict.fromkeys(_topmost(_new_names(taken, look)), _WHITEOUT)
    for names in list(wanted):
        for above in _ways(names[:-1]):
            wanted[above] = taken.entries[above]
    plan.place = [names for names, _ in sorted(wanted.items(), key=_depth)]
    entries = {(): taken.entries[()], **wanted}
    return {names: replace(kept, opaque=()) if kept.opaque else kept for names, kept in entries.items()}, plan


def _lost(taken: Taken, look: Look) -> dict[Names, str]:
    """What was left out and does not surely look as it did."""
    lost: dict[Names, str] = {}
    for names, reason in taken.left_out.items():
        status = look.found.get(names)
        if status is None or key_of(status) != taken.passed_over.get(names):
            lost[names] = f"it was not kept: {reason}"
    return lost


def _new_names(taken: Taken, look: Look) -> list[Names]:
    """What was not there, but for what may have been there unseen, and what goes with something else."""
    replaced = {
        names
        for names, status in look.found.items()
        if names in taken.entries
        and taken.entries[names].kind != "directory"
        and kind_of(status) == "directory"
    }
    unseen = taken.left_out
    return [
        names
        for names in look.found
        if names not in taken.entries
        and not ((replaced or unseen) and any(above in replaced or above in unseen for above in _ways(names)))
        and () not in unseen
    ]


def _topmost(going: list[Names]) -> list[Names]:
    """Names that go by themselves, without those that go with a directory above them."""
    all_of_them = set(going)
    return [names for names in going if names[:-1] not in all_of_them]


def _ways(names: Names) -> list[Names]:
    """A name and all that it lies in, from the top."""
    return [names[:count] for count in range(1, len(names) + 1)]


def _depth(item: tuple[Names, object]) -> int:
    return len(item[0])


def _is_different(kept: Kept, status: os.stat_result) -> bool:
    if kept.kind == "whiteout":
        return False
    return kept.mtime_ns != status.st_mtime_ns or (
        kept.kind != "link" and kept.mode != status.st_mode & 0o777
    )


# What is the same --------------------------------------------------------------------------------------------------


def _same(contents: Contents, entries: Mapping[Names, Kept], root: int, look: Look) -> set[Names]:
    """The files, links and whiteouts that have the content they had, and no name too many or too few."""
    mates: dict[Identity, set[Names]] = defaultdict(set)
    for names, kept in entries.items():
        if kept.shared is not None:
            mates[kept.shared].add(names)
    same: set[Names] = set()
    for names, kept in entries.items():
        status = look.found.get(names)
        if status is None or kind_of(status) != kept.kind or kept.kind == "directory":
            continue
        wanted = mates[kept.shared] if kept.shared is not None else {names}
        if kept.kind == "whiteout":
            same.add(names)
        elif kept.kind == "link":
            same |= {names} if _points_there(root, names, kept) else set()
        elif _shares_rightly(wanted, names, entries, look) and _has_content(
            contents, root, names, kept, status
        ):
            same.add(names)
    return same


def _shares_rightly(wanted: set[Names], names: Names, entries: Mapping[Names, Kept], look: Look) -> bool:
    """Whether a file has those names, of all that matter, that it had."""
    status = look.found[names]
    if look.has_name_elsewhere(status):
        return False
    identity = identity_of(status)
    strangers = (other for other in look.names_of.get(identity, ()) if other not in wanted)
    if any(other in entries for other in strangers):
        return False
    return all(other in look.found and identity_of(look.found[other]) == identity for other in wanted)


def _has_content(contents: Contents, root: int, names: Names, kept: Kept, status: os.stat_result) -> bool:
    if kept.content is None or kept.size != status.st_size:
        return False
    if contents.holds(kept.content, key_of(status)):
        return True
    try:
        descriptor = open_beneath(root, names, READ)
        with closing(descriptor):
            return key_of(os.fstat(descriptor)) == key_of(status) and contents.is_same(
                kept.content, descriptor
            )
    except OSError:
        return False


def _points_there(root: int, names: Names, kept: Kept) -> bool:
    try:
        with opened(root, names[:-1]) as directory:
            return os.readlink(names[-1], dir_fd=directory) == kept.points_to
    except OSError:
        return False


# Puts files into a directory so that it changes as a whole, as far as a file system allows. Blocking.

_STAGING = f"{OURS}restore-"

_HANDLE = os.O_PATH | os.O_NOFOLLOW

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_OTHER_KIND = frozenset({errno.EISDIR, errno.ENOTDIR})

_NO_LIMIT = 1 << 62


class DirectoryChange:
    """One change of a directory, in the order of its methods. The directory is somebody else's to close."""

    def __init__(
        self,
        contents: Contents,
        entries: Mapping[Names, Kept],
        target: int,
        owner: tuple[int, int] | None,
    ) -> None:
        self.changed: set[Names] = set()
        self.failed: dict[Names, str] = {}
        self._contents, self._entries, self._target, self._owner = contents, entries, target, owner
        self._staging = ""
        self._beside = -1
        self._staged: dict[Names, str] = {}
        self._first_of: dict[Identity, str] = {}
        self._was_closed: dict[Names, int] = {}
        self._made_room = False

    @contextlib.contextmanager
    def undone_if_it_fails(self) -> Iterator[None]:
        """Until everything is staged, an error leaves the directory as it was.

        Raises:
            FileFailed: the file system refused.
        """
        try:
            self._clear_leftovers()
            yield
        except BaseException as error:
            self._discard()
            for names, mode in sorted(self._was_closed.items(), key=lambda item: -len(item[0])):
                with contextlib.suppress(OSError), self._handle(names) as path:
                    path.chmod(mode)
            if not isinstance(error, OSError):
                raise
            raise FileFailed(
                f"The files could not be brought back: {error.strerror or error}",
                hint="Files that were in the way were deleted; free space and try again"
                if self._made_room
                else "Nothing was changed; free space or delete files that are not needed, and try again",
            ) from error

    def open_up(self, names: Names) -> bool:
        """Open a directory that is closed to its owner (us); false where that cannot be, or changes nothing."""
        try:
            with self._handle(names) as path:
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & stat.S_IRWXU == stat.S_IRWXU:
                    return False
                path.chmod(mode | stat.S_IRWXU)
        except OSError:
            return False
        self._was_closed.setdefault(names, mode)
        return True

    # Beside ------------------------------------------------------------------------------------------------------

    def stage(self, place: Sequence[Names], going: Sequence[Names] = (), *, make_space: bool = False) -> None:
        """Write everything that is to be placed.

        With ``make_space`` what is going, and what now has these names, is deleted first if there is not room for both.

        Raises:
            OSError: it cannot be written.
        """
        if not place and not going:
            return
        self._begin()
        try:
            self._make_all(place)
        except OSError as error:
            if not make_space or error.errno not in _FULL:
                raise
            self._empty()
            self._made_room = True
            self.clear(going)
            self.clear(names for names in place if self._entries[names].kind != "directory")
            self._empty()
            self._make_all(place)

    def _clear_leftovers(self) -> None:
        with os.scandir(self._target) as found:
            leftovers = [entry.name for entry in found if entry.name.startswith(_STAGING)]
        for name in leftovers:
            _remove(self._target, name)  # of somebody who died half-way

    def _begin(self) -> None:
        self._staging = f"{_STAGING}{secrets.token_hex(8)}.tmp"
        try:
            os.mkdir(self._staging, 0o700, dir_fd=self._target)
        except PermissionError:
            if not self.open_up(()):
                raise
            os.mkdir(self._staging, 0o700, dir_fd=self._target)
        self._beside = os.open(self._staging, _DIRECTORY, dir_fd=self._target)

    def _make_all(self, place: Sequence[Names]) -> None:
        self._staged.clear()
        self._first_of.clear()
        for number, names in enumerate(place):
            self._make(self._entries[names], str(number))
            self._staged[names] = str(number)

    def _make(self, kept: Kept, name: str) -> None:
        match kept.kind:
            case "file" if kept.shared in self._first_of:
                os.link(self._first_of[kept.shared], name, src_dir_fd=self._beside, dst_dir_fd=self._beside)
            case "file":
                self._make_file(kept, name)
            case "link":
                os.symlink(kept.points_to, name, dir_fd=self._beside)
                self._give(kept, name)
                times = (kept.mtime_ns, kept.mtime_ns)
                os.utime(name, ns=times, dir_fd=self._beside, follow_symlinks=False)
            case "directory":
                os.mkdir(name, 0o700, dir_fd=self._beside)
                self._give(kept, name)
            case _:
                os.mknod(name, stat.S_IFCHR, 0, dir_fd=self._beside)

    def _make_file(self, kept: Kept, name: str) -> None:
        if kept.content is None:
            raise FileNotFoundError(errno.ENOENT, "its content is gone")
        source = self._contents.open(kept.content)
        with closing(source):
            target = os.open(name, _NEW, 0o600, dir_fd=self._beside)
            with closing(target):
                copy_file(source, target, capacity=_NO_LIMIT)
                self._give(kept, name)
                os.fchmod(target, kept.mode)
                os.utime(target, ns=(kept.mtime_ns, kept.mtime_ns))
        if kept.shared is not None:
            self._first_of[kept.shared] = name

    def _give(self, kept: Kept, name: str) -> None:
        status = os.stat(name, dir_fd=self._beside, follow_symlinks=False)
        owner = self._owner or kept.owner
        if owner == (status.st_uid, status.st_gid):
            return
        try:
            os.chown(name, *owner, dir_fd=self._beside, follow_symlinks=False)
        except OSError:
            # Whose it was before may be nobody whom we may give it to.
            if self._owner is not None:
                raise

    # In place ----------------------------------------------------------------------------------------------------

    def put(self, place: Iterable[Names]) -> None:
        """Give everything that was staged its name, parents first."""
        for names in place:
            with self._failing(names), self._parent(names) as parent:
                try:
                    self._rename_over(names, parent)
                except OSError as error:
                    if error.errno not in _OTHER_KIND:
                        raise
                    self._move_away(names, parent)
                    self._rename_over(names, parent)
                self.changed.add(names)
                self._note(names, os.stat(names[-1], dir_fd=parent, follow_symlinks=False))

    def clear(self, going: Iterable[Names]) -> None:
        """Take names away, with all that lies in them."""
        for names in going:
            with self._failing(names), self._parent(names) as parent, contextlib.suppress(FileNotFoundError):
                self._move_away(names, parent)

    def adjust(self, files: Mapping[Names, os.stat_result]) -> None:
        """Set modes and times of what has the right content, if it still is what was seen."""
        for names, seen in files.items():
            kept = self._entries[names]
            with self._failing(names):
                if kept.kind == "link":
                    times = (kept.mtime_ns, kept.mtime_ns)
                    with self._parent(names) as parent:
                        os.utime(names[-1], ns=times, dir_fd=parent, follow_symlinks=False)
                else:
                    with self._handle(names) as path:
                        if key_of(path.stat()) != key_of(seen):
                            raise OSError(errno.EBUSY, "it changed meanwhile")
                        self._set(kept, path)
                        self._note(names, path.stat())
                self.changed.add(names)

    def finish(self, directories: Iterable[Names]) -> None:
        """Delete what was taken away, and set the directories' modes, times and marks: each after what it holds."""
        self._discard()
        for names in sorted(directories, key=len, reverse=True):
            if names in self.failed:
                continue
            with self._failing(names), self._handle(names) as path:
                kept, status = self._entries[names], path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, "it was replaced meanwhile")
                self._mark(kept, path)
                if status.st_mode & 0o777 != kept.mode or status.st_mtime_ns != kept.mtime_ns:
                    self._set(kept, path)

    def _set(self, kept: Kept, path: Path) -> None:
        # Bits such as a group's that is handed down are the directory's own.
        path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o7000 | kept.mode)
        os.utime(path, ns=(kept.mtime_ns, kept.mtime_ns))

    def _mark(self, kept: Kept, path: Path) -> None:
        wanted = dict(kept.opaque)
        for name in OPAQUE:
            value: bytes | None = None
            with contextlib.suppress(OSError):
                value = os.getxattr(path, name)
            if name in wanted and value != wanted[name]:
                os.setxattr(path, name, wanted[name])
            elif value is not None and name not in wanted:
                os.removexattr(path, name)

    def _note(self, names: Names, status: os.stat_result) -> None:
        content = self._entries[names].content
        if content is not None:
            # Not certain: it changed just now, and may again.
            self._contents.note(key_of(status), content, certain=False)

    # Names -------------------------------------------------------------------------------------------------------

    def _rename_over(self, names: Names, parent: int) -> None:
        self._opening_up(names[:-1], self._staged[names], self._beside, names[-1], parent)

    def _move_away(self, names: Names, parent: int) -> None:
        name = f"old-{secrets.token_hex(8)}"
        try:
            self._opening_up(names[:-1], names[-1], parent, name, self._beside)
        except PermissionError:
            # A directory is written to when it moves.
            if not self.open_up(names):
                raise
            os.rename(names[-1], name, src_dir_fd=parent, dst_dir_fd=self._beside)

    def _opening_up(self, directory: Names, old: str, source: int, new: str, target: int) -> None:
        try:
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
        except PermissionError:
            if not self.open_up(directory):
                raise
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)

    @contextlib.contextmanager
    def _parent(self, names: Names) -> Iterator[int]:
        descriptor = open_beneath(self._target, names[:-1], os.O_PATH | os.O_DIRECTORY)
        with closing(descriptor):
            yield descriptor

    @contextlib.contextmanager
    def _handle(self, names: Names) -> Iterator[Path]:
        """A path that leads to one file or directory for as long as this lasts, whatever happens to its name."""
        descriptor = open_beneath(self._target, names, _HANDLE)
        with closing(descriptor):
            yield Path(f"/proc/self/fd/{descriptor}")

    @contextlib.contextmanager
    def _failing(self, names: Names) -> Iterator[None]:
        """What cannot be done to one name is noted, and does not keep the others from being done."""
        try:
            yield
        except OSError as error:
            self.failed[names] = error.strerror or str(error)

    def _empty(self) -> None:
        clear_directory(self._beside)

    def _discard(self) -> None:
        if self._beside >= 0:
            self._empty()
            os.close(self._beside)
            self._beside = -1
            with contextlib.suppress(OSError):
                os.rmdir(self._staging, dir_fd=self._target)


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(OSError):
        directory = os.open(name, _DIRECTORY, dir_fd=parent)
        with closing(directory):
            clear_directory(directory)
        os.rmdir(name, dir_fd=parent)
