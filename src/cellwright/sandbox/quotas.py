"""Keeps what a session writes within a hard quota: a file system in memory of that size, saved after every cell.

No ordinary user may limit a directory on a disk, but everybody may mount memory of a fixed size in namespaces of their
own. So the files of a kernel that lives are in memory, and in the session's own directory as they were when its last
cell ended. Whoever holds the kernel fills, saves and closes (``kernels``). Blocking.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.errors import KernelStartError
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.safe_paths import (
    DIRECTORY,
    MAX_DEPTH,
    OPAQUE,
    READ,
    TICKS_NS,
    Names,
    Stamp,
    clear_directory,
    closing,
    copy_data,
    count_names,
    entries,
    have_same_data,
    open_beneath,
    opened,
    stamp_of,
)

__all__ = ["MemoryLayer", "Mirror", "memory_of"]
MOST_IN_MEMORY = 256 << 20
"""A larger quota lies on the disk, where it can only be watched: so much memory is not a session's to take."""

# Before, memory cannot hold what an ordinary user's overlay notes on its files.
_FIRST_WITH_USER_ATTRIBUTES = (6, 6)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def memory_of(policy: Policy, mode: Mode) -> dict[str, int] | None:
    """The size of the file system in memory that holds what a session writes; None where that is the disk."""
    if mode == "direct" or policy.disk_bytes > MOST_IN_MEMORY:
        return None
    if mode == "overlay" and os.getuid() != 0 and _linux() < _FIRST_WITH_USER_ATTRIBUTES:
        return None
    return {"bytes": policy.disk_bytes, "inodes": policy.disk_files}


class MemoryLayer:
    """A directory in memory and the one on disk in which it is saved. Owns its descriptor of the former."""

    def __init__(self, descriptor: int, saved: Path, *, shared: bool) -> None:
        self.shared = shared
        """Whether what others put into the directory on disk comes in: it cannot below an overlay."""
        self.saved = saved
        self._memory = descriptor
        self._disk = os.open(saved, _DIRECTORY)
        size, status = _size(descriptor), os.fstat(descriptor)
        owner = (status.st_uid, status.st_gid) if os.getuid() == 0 else None
        # One pass may copy a file that is deleted meanwhile, and another in its place.
        self._outward = Mirror(self._memory, self._disk, capacity=2 * size)
        self._inward = Mirror(self._disk, self._memory, capacity=size, owner=owner, wary=True)

    def fill(self) -> None:
        """Bring in what was saved.

        Raises:
            KernelStartError: it does not fit.
        """
        done = self._inward.update()
        if done.left_out:
            raise KernelStartError(
                f"The session's files in {self.saved} do not fit in its quota, or cannot be read",
                hint="Raise max_session_disk or max_session_files, or delete files there",
            )
        self._outward.trust(done.changed)
        # What code changed and nobody has saved yet is not replaced by what somebody else changed.
        self._inward.spared = self._outward.differs

    def is_shown(self) -> bool:
        """Whether there is nothing to bring in. Quick: need not be called from a worker thread."""
        return not self.shared or self._inward.is_current()

    def is_saved(self) -> bool:
        """Whether there is nothing to save. Quick, too."""
        return self._outward.is_current()

    def bring_in(self) -> None:
        """Take over what others changed in the directory on disk, where it is shared."""
        if self.shared:
            self._outward.trust(self._inward.update().changed)

    def save(self) -> Update:
        """Save what changed, and tell what could not be."""
        done = self._outward.update()
        self._inward.trust(done.changed)
        if done.no_place and done.changed:
            # What was deleted goes last, and may have made the room that was missing.
            done = self._outward.update()
            self._inward.trust(done.changed)
        return done

    def close(self) -> None:
        os.close(self._memory)
        os.close(self._disk)


def _linux() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def _size(descriptor: int) -> int:
    found = os.fstatvfs(descriptor)
    return found.f_blocks * found.f_frsize


# Makes one directory tree the same as another, again and again, copying only what changed. Blocking.

_QUICKLY_SEEN = 100

_OTHER_KIND = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EEXIST, errno.ENOTEMPTY})

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(slots=True)
class Update:
    """What one walk did: the names that it copied or removed, and how many entries it could not copy."""

    changed: set[Names] = field(default_factory=set)
    left_out: int = 0
    no_place: dict[Names, str] = field(default_factory=dict)
    """Those among them that the target's disk did not take, with its word for it."""


@dataclass(slots=True)
class Mirror:
    """A source and its target, both open directories that somebody else closes.

    Two of them, one each way, keep two directories the same that are both written to: each is told what the other did
    (``trust``), and spares what the other has yet to take over (``spared``).
    """

    source: int
    target: int
    capacity: int
    """The most bytes that one ``update`` copies."""
    owner: tuple[int, int] | None = None
    """Whom copies are to belong to, where that is not whoever copies."""
    wary: bool = False
    """Whether a file is passed over that has a name outside the source: it may be somebody else's."""
    spared: Callable[[Names], bool] | None = None
    """Which names of the target are not to be touched, where the target has a right to differ."""
    known: dict[Names, Stamp] = field(default_factory=dict)
    """The source's entries as they were when they were copied."""
    unsure: set[Names] = field(default_factory=set)
    """Those that may have changed again in the same tick of the clock: they are copied once more."""

    def spares(self, names: Names) -> bool:
        return self.spared is not None and self.spared(names)

    def update(self) -> Update:
        """Bring the target up to date."""
        return _Pass(self).run()

    def is_current(self) -> bool:
        """Whether there is nothing to copy; quick, and false too where looking would take long."""
        if self.unsure or len(self.known) > _QUICKLY_SEEN:
            return False
        seen = 0
        ahead: list[Names] = [()]
        while ahead:
            names = ahead.pop()
            try:
                for inside, status in entries(self.source, names):
                    if self.known.get(inside) != stamp_of(status):
                        return False
                    seen += 1
                    if stat.S_ISDIR(status.st_mode):
                        ahead.append(inside)
            except OSError:
                return False
        return seen == len(self.known)

    def trust(self, names: Iterable[Names]) -> None:
        """Take the target to be what the source is now at these names."""
        for name in names:
            stamp = self._look(name)
            self.known.pop(name, None)
            self.unsure.discard(name)
            if stamp is not None:
                self.known[name] = stamp

    def differs(self, names: Names) -> bool:
        """Whether the source changed at this name since it was last copied."""
        return self._look(names) != self.known.get(names)

    def _look(self, names: Names) -> Stamp | None:
        try:
            with opened(self.source, names[:-1]) as directory:
                return stamp_of(os.stat(names[-1], dir_fd=directory, follow_symlinks=False))
        except OSError:
            return None


class _Pass:
    """One walk through the source."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._before = mirror.known
        self._now: dict[Names, Stamp] = {}
        self._unsure: set[Names] = set()
        self._capacity = mirror.capacity
        self._done = Update()
        self._first_of: dict[int, Names] = {}
        self._names_of: Counter[int] = count_names(mirror.source) if mirror.wary else Counter()
        # A copy of what changed since then is not trusted to be the last.
        self._settled_ns = time.time_ns() - TICKS_NS

    def run(self) -> Update:
        ahead: list[Names] = [()]
        while ahead:
            for names, status in self._entries(ahead.pop()):
                is_directory = stat.S_ISDIR(status.st_mode)
                if is_directory and len(names) > MAX_DEPTH:
                    self._done.left_out += 1
                elif self._take(names, status) and is_directory:
                    ahead.append(names)
        # What lies deepest goes first, so that its directory is empty.
        for names in sorted(self._gone(), key=len, reverse=True):
            self._remove(names)
            self._done.changed.add(names)
        self._mirror.known, self._mirror.unsure = self._now, self._unsure
        return self._done

    def _gone(self) -> set[Names]:
        """What is to go from the target. Decided before any goes: a directory differs once something left it."""
        gone = self._before.keys() - self._now.keys()
        spared = {names for names in gone if self._mirror.spares(names)}
        return gone - {names[:count] for names in spared for count in range(1, len(names) + 1)}

    def _entries(self, names: Names) -> Iterator[tuple[Names, os.stat_result]]:
        try:
            yield from entries(self._mirror.source, names)
        except OSError:
            # Gone since its name was read, or closed to us: what we have of it is kept for the time being.
            self._keep(names)

    def _keep(self, names: Names) -> None:
        """Leave what was copied from there before as it is."""
        self._done.left_out += 1
        for known, stamp in self._before.items():
            if known[: len(names)] == names:
                self._now[known] = stamp

    def _take(self, names: Names, status: os.stat_result) -> bool:
        """Copy what is not known to be the same; false where that could not be done."""
        stamp, is_directory = stamp_of(status), stat.S_ISDIR(status.st_mode)
        looks_same = self._before.get(names) == stamp
        same = looks_same and (names not in self._mirror.unsure or self._is_copied(names))
        if not same and not is_directory and self._mirror.spares(names):
            return False
        if not same or is_directory:
            try:
                if not self._copy_over(names, status):
                    return False
            except OSError as error:
                # What vanished in between is no loss: it is not there any more.
                if error.errno != errno.ENOENT:
                    self._keep(names)
                if error.errno in _DISK:
                    self._done.no_place[names] = os.strerror(error.errno)
                return False
            if not same and (not is_directory or names not in self._before):
                self._done.changed.add(names)
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            self._first_of.setdefault(status.st_ino, names)
        if not same and status.st_ctime_ns >= self._settled_ns:
            self._unsure.add(names)
        self._now[names] = stamp
        return True

    def _is_copied(self, names: Names) -> bool:
        """Whether a file's copy has its content: one that is right is not replaced, so that nobody takes it for new."""
        try:
            source = open_beneath(self._mirror.source, names, READ)
            with closing(source):
                target = open_beneath(self._mirror.target, names, READ)
                with closing(target):
                    return _have_same_content(source, target)
        except OSError:
            return False

    def _copy_over(self, names: Names, status: os.stat_result) -> bool:
        """Copy, in place of something of another kind too, unless the target has a right to it."""
        try:
            return self._copy(names, status)
        except OSError as error:
            if error.errno not in _OTHER_KIND or self._mirror.spares(names):
                raise
            self._remove(names)
            return self._copy(names, status)

    def _copy(self, names: Names, status: os.stat_result) -> bool:
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            self._make_directory(names, mode)
        elif stat.S_ISREG(mode) and status.st_ino in self._first_of:
            first = self._first_of[status.st_ino]
            with self._parent(first) as (source, name), self._replacing(names) as (parent, temporary):
                os.link(name, temporary, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        elif stat.S_ISREG(mode):
            self._copy_file(names)
        elif stat.S_ISLNK(mode):
            with opened(self._mirror.source, names[:-1]) as directory:
                points_to = os.readlink(names[-1], dir_fd=directory)
            with self._replacing(names) as (parent, temporary):
                os.symlink(points_to, temporary, dir_fd=parent)
        elif stat.S_ISCHR(mode) and status.st_rdev == 0:
            with self._replacing(names) as (parent, temporary):
                os.mknod(temporary, stat.S_IFCHR, 0, dir_fd=parent)
        else:
            self._done.left_out += 1  # a pipe or a socket means nothing elsewhere
            return False
        return True

    def _make_directory(self, names: Names, mode: int) -> None:
        with self._parent(names) as (parent, name):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
            descriptor = os.open(name, DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        with closing(descriptor), opened(self._mirror.source, names) as source:
            _copy_opaque(source, descriptor)
            # Always open to us, whatever the code thought of it.
            os.fchmod(descriptor, stat.S_IMODE(mode) & 0o777 | 0o700)
            self._give(descriptor)

    def _copy_file(self, names: Names) -> None:
        source = open_beneath(self._mirror.source, names, READ)
        with closing(source):
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "it was replaced meanwhile")
            if self._mirror.wary and status.st_nlink > max(1, self._names_of[status.st_ino]):
                raise PermissionError(errno.EPERM, "it has a name elsewhere")
            with self._replacing(names) as (parent, temporary):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                target = os.open(temporary, flags, 0o600, dir_fd=parent)
                with closing(target):
                    self._capacity -= copy_data(source, target, status.st_size, self._capacity)
                    os.fchmod(target, stat.S_IMODE(status.st_mode) & 0o777)
                    self._give(target)
                    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))

    def _give(self, descriptor: int) -> None:
        if self._mirror.owner is not None:
            os.fchown(descriptor, *self._mirror.owner)

    def _remove(self, names: Names) -> None:
        try:
            with self._parent(names) as (parent, name):
                _remove_entry(parent, name)
        except OSError as error:
            # It went with the directory that it was in, whose name something else may have by now.
            if error.errno not in _GONE:
                raise

    @contextlib.contextmanager
    def _parent(self, names: Names) -> Iterator[tuple[int, str]]:
        with opened(self._mirror.target, names[:-1]) as parent:
            yield parent, names[-1]

    @contextlib.contextmanager
    def _replacing(self, names: Names) -> Iterator[tuple[int, str]]:
        """A name to make the copy under, which then takes the place of the last."""
        with self._parent(names) as (parent, name):
            temporary = f".cellwright-{secrets.token_hex(8)}.tmp"
            try:
                yield parent, temporary
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise


def _remove_entry(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        inside = os.open(name, DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        with closing(inside):
            clear_directory(inside)
        os.rmdir(name, dir_fd=parent)


def _have_same_content(one: int, other: int) -> bool:
    statuses = [os.fstat(descriptor) for descriptor in (one, other)]
    looks = [
        (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_size) for status in statuses
    ]
    return (
        looks[0] == looks[1]
        and stat.S_ISREG(statuses[0].st_mode)
        and have_same_data(one, other, statuses[0].st_size)
    )


def _copy_opaque(source: int, target: int) -> None:
    for name in OPAQUE:
        value: bytes | None = None
        with contextlib.suppress(OSError):
            value = os.getxattr(source, name)
        try:
            if value is not None:
                os.setxattr(target, name, value)
            else:
                os.removexattr(target, name)
        except OSError as error:
            if value is not None or error.errno not in (errno.ENODATA, errno.EPERM, errno.ENOTSUP):
                raise
