"""The one way in which anything of ours reads from or writes to a directory that user code can write to.

That code runs while we look, and may swap files, links and directories under our hands at full speed. So every path
is opened beneath the directory's descriptor without following any link (see safe_paths), what was opened is checked on
its own descriptor, and every size is bounded. Blocking, like all file work: call it from a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from cellwright.errors import FileFailed, FileRefused, FileTooLarge, NoSuchFile, SandboxError
from cellwright.sandbox.safe_paths import clear_directory, components, open_beneath

__all__ = ["Changes", "Entry", "Listing", "Snapshot", "Workdir", "kind_of", "quoted_path", "shown_path"]


# Lists a working directory, and compares two listings: files that came, changed and went. Reads no contents.

EntryType = Literal["file", "directory", "link", "whiteout", "other"]

# Nobody puts a result deeper than this; code that wants to exhaust whoever looks does.
MAX_DEPTH = 64

SKIPPED = frozenset({".git", ".venv", "__pycache__", "node_modules", ".ipynb_checkpoints"})

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK


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
    descriptor = open_beneath(root, names, _LISTED, cross_mounts=cross_mounts)
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


DEFAULT_MAX_BYTES = 100 * 1024**2

DEFAULT_MAX_ENTRIES = 10_000

_CHUNK = 1024**2

_PREFIX = ".cellwright-"

_SUFFIX = ".tmp"

# Non-blocking: nobody who plants a pipe, or holds a lease on a file, makes us wait.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_PARENT = os.O_PATH | os.O_DIRECTORY

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_DELETED = " (deleted)"

_FORBIDDEN_MODE_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a file, and how large the whole was when it was read."""

    data: bytes
    size: int


class Workdir:
    """A directory that user code writes to, held by its descriptor: renaming or replacing it leads nowhere else.

    Owns the descriptor; close it, or use it in a ``with`` statement. Paths are relative to it, with ``/`` between
    names. Every method raises a ``SandboxError``: ``FileRefused`` where a path leads elsewhere or to no plain file,
    ``NoSuchFile``, ``FileTooLarge``, and ``FileFailed`` for what the file system refuses.
    """

    def __init__(
        self, descriptor: int, *, max_bytes: int = DEFAULT_MAX_BYTES, cross_mounts: bool = False
    ) -> None:
        self._root = descriptor
        self._max_bytes = max_bytes
        self._cross_mounts = cross_mounts

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        below: str = "",
        max_bytes: int = DEFAULT_MAX_BYTES,
        cross_mounts: bool = False,
    ) -> Self:
        """Hold the directory at a path that nobody but us can replace, or one below it, where code can."""
        try:
            descriptor = os.open(path, _DIRECTORY)
        except OSError as error:
            raise failure("open", str(path), error) from error
        top = cls(descriptor, max_bytes=max_bytes, cross_mounts=cross_mounts)
        if below in ("", "."):
            return top
        with top, file_errors("open", f"{path}/{below}"):
            inside = open_beneath(descriptor, components(below), _DIRECTORY, cross_mounts=True)
        return cls(inside, max_bytes=max_bytes, cross_mounts=cross_mounts)

    def close(self) -> None:
        """Let go of the directory; what lies there stays."""
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, path: str, max_bytes: int | None = None) -> bytes:
        """The whole content of a plain file."""
        limit = self._limit(max_bytes)
        with self._plain_file(path) as (descriptor, size):
            if size > limit:
                raise too_large(path, size, limit)
            data = _read_up_to(descriptor, limit + 1)
        if len(data) > limit:
            raise too_large(path, len(data), limit)
        return data

    def read_part(self, path: str, *, offset: int = 0, max_bytes: int | None = None) -> Part:
        """At most this many bytes from an offset on, of a plain file of any size."""
        with self._plain_file(path) as (descriptor, size):
            os.lseek(descriptor, offset, os.SEEK_SET)
            return Part(_read_up_to(descriptor, self._limit(max_bytes)), size)

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[int, int]]:
        """A plain file's descriptor, to read from and to hand on, and its size; closed afterwards."""
        with self._plain_file(path) as found:
            yield found

    def write(self, path: str, data: bytes, *, parents: bool = False) -> Entry:
        """Put a file of this content in place of whatever has the name, link or not, all at once."""
        if len(data) > self._max_bytes:
            raise too_large(path, len(data), self._max_bytes)
        with (
            self._parent(path, create=parents) as (parent, name),
            file_errors("write", path),
            _temporary(parent, like=name) as (temporary, descriptor),
        ):
            _write_all(descriptor, data)
            os.fsync(descriptor)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            return entry_of(path, os.fstat(descriptor))

    def bring(self, source: Workdir, path: str) -> Entry:
        """Put a plain file of another directory in place of whatever has the name here, all at once.

        Of its mode only the right to be run comes along: who may read and write is decided where it goes.
        """
        with (
            source._plain_file(path) as (read_from, size),  # of the same class
            self._parent(path, create=True) as (parent, name),
            file_errors("write", path),
            _temporary(parent, like=name) as (temporary, descriptor),
        ):
            if _copy_up_to(read_from, descriptor, size + 1) != size:
                raise FileFailed(
                    f"{path} changed while it was copied", hint="Wait for the cell that writes it"
                )
            _set_executable(descriptor, wanted=bool(os.fstat(read_from).st_mode & stat.S_IXUSR))
            os.fsync(descriptor)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            return entry_of(path, os.fstat(descriptor))

    def make_directory(self, path: str) -> None:
        """Make a directory, with those above it; one that is there stays."""
        names = self._names(path)
        with file_errors("make", path):
            self._make_directories(names)

    def is_opaque(self, path: str) -> bool:
        """Whether a directory of an overlay's layer hides all that lies below it in the project."""
        # Without root's attributes an overlay keeps its notes in the user's own (see how it is mounted).
        note = "trusted.overlay.opaque" if os.geteuid() == 0 else "user.overlay.opaque"
        try:
            flags = _READ | os.O_DIRECTORY
            descriptor = open_beneath(self._root, self._names(path), flags, cross_mounts=self._cross_mounts)
        except OSError:  # gone since its name was read
            return False
        try:
            return os.getxattr(descriptor, note) == b"y"
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def list(self, path: str = "", max_entries: int = DEFAULT_MAX_ENTRIES) -> Listing:
        """The names in a directory, each as what it is itself."""
        names = self._names(path)
        with file_errors("list", path or "the working directory"):
            return list_directory(self._root, names, max_entries=max_entries, cross_mounts=self._cross_mounts)

    def entry(self, path: str) -> Entry | None:
        """What has this name, or None."""
        try:
            with self._parent(path) as (parent, name):
                return entry_of(path, os.stat(name, dir_fd=parent, follow_symlinks=False))
        except (FileNotFoundError, NoSuchFile):
            return None
        except OSError as error:
            raise failure("look at", path, error) from error

    def exists(self, path: str) -> bool:
        """Whether anything has this name, be it a link that leads nowhere."""
        return self.entry(path) is not None

    def remove(self, path: str) -> None:
        """Delete a file, a link itself, or an empty directory."""
        with self._parent(path) as (parent, name), file_errors("remove", path):
            try:
                os.unlink(name, dir_fd=parent)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=parent)

    def move(self, path: str, to: str) -> Entry:
        """Give a file, link or directory another name in here, with the directories that the name needs."""
        with self._parent(path) as (old, name), self._parent(to, create=True) as (new, becomes):
            if self.exists(to):
                raise FileRefused(f"{to} is there already", hint="Delete it first, or choose another name")
            with file_errors("move", path):
                os.rename(name, becomes, src_dir_fd=old, dst_dir_fd=new)
                return entry_of(to, os.stat(becomes, dir_fd=new, follow_symlinks=False))

    def clear(self) -> int:
        """Delete everything in the directory and tell how many entries could not be deleted."""
        return clear_directory(self._root)

    def snapshot(self, *, max_entries: int = DEFAULT_MAX_ENTRIES, skip: frozenset[str] = SKIPPED) -> Snapshot:
        """What lies here now, to compare with later. Does not look into directories of the names to skip."""
        return take_snapshot(self._root, max_entries=max_entries, skip=skip, cross_mounts=self._cross_mounts)

    def changed_since(
        self,
        before: Snapshot,
        *,
        max_entries: int = DEFAULT_MAX_ENTRIES,
        skip: frozenset[str] = SKIPPED,
    ) -> tuple[Changes, Snapshot]:
        """What came, changed and went since then, and the snapshot to compare with the next time."""
        after = self.snapshot(max_entries=max_entries, skip=skip)
        return compare(before, after), after

    def copy_out(self, path: str, destination: Path, max_bytes: int | None = None) -> int:
        """Copy a plain file to a path outside, in whose directory only we write, and tell its size."""
        limit = self._limit(max_bytes)
        with self._plain_file(path) as (source, size), file_errors("copy to", str(destination)):
            if size > limit:
                raise too_large(path, size, limit)
            parent = os.open(destination.parent, _PARENT | os.O_CLOEXEC)
            try:
                with _temporary(parent, like=destination.name) as (temporary, target):
                    copied = _copy_up_to(source, target, limit + 1)
                    if copied > limit:
                        raise too_large(path, copied, limit)
                    os.fsync(target)
                    os.rename(temporary, destination.name, src_dir_fd=parent, dst_dir_fd=parent)
            finally:
                os.close(parent)
        return copied

    def _limit(self, max_bytes: int | None) -> int:
        return self._max_bytes if max_bytes is None else max_bytes

    def _names(self, path: str) -> tuple[str, ...]:
        try:
            return components(path)
        except ValueError as error:
            raise FileRefused(
                f"{path!r} cannot be used in a working directory: {error}",
                hint="Name a file by its path from the working directory, such as data/result.csv",
            ) from None

    @contextlib.contextmanager
    def _plain_file(self, path: str) -> Iterator[tuple[int, int]]:
        """A regular file that has this one name only, open for reading, and its size."""
        names = self._names(path)
        with file_errors("read", path):
            descriptor = open_beneath(self._root, names, _READ, cross_mounts=self._cross_mounts)
            try:
                status = os.fstat(descriptor)
                _check_plain(path, status)
                _check_still_named(path, descriptor, names[-1] if names else "")
                yield descriptor, status.st_size
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The directory that holds a name, and the name."""
        names = self._names(path)
        if not names:
            raise FileRefused("The working directory itself is no file", hint="Name something inside it")
        with file_errors("reach", path):
            if create:
                self._make_directories(names[:-1])
            parent = open_beneath(self._root, names[:-1], _PARENT, cross_mounts=self._cross_mounts)
        try:
            yield parent, names[-1]
        finally:
            os.close(parent)

    def _make_directories(self, names: tuple[str, ...]) -> None:
        for count in range(1, len(names) + 1):
            parent = open_beneath(self._root, names[: count - 1], _PARENT, cross_mounts=self._cross_mounts)
            try:
                os.mkdir(names[count - 1], 0o777, dir_fd=parent)
                _give_to_owner_of(parent, names[count - 1])
            except FileExistsError:
                continue
            finally:
                os.close(parent)


@contextlib.contextmanager
def _temporary(parent: int, *, like: str) -> Iterator[tuple[str, int]]:
    """A new file beside the one to replace, with its owner and mode; gone afterwards, unless it was renamed."""
    name = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=parent)
    try:
        _take_after(descriptor, parent, like)
        yield name, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


def _take_after(descriptor: int, parent: int, name: str) -> None:
    owner = os.fstat(parent)
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_FORBIDDEN_MODE_BITS)
    if os.geteuid() == 0:
        # A session of a daemon run by root has a uid of its own, and must be able to use what it is given.
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _set_executable(descriptor: int, *, wanted: bool) -> None:
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    # Whoever may read it may run it.
    mode = mode | (mode & 0o444) >> 2 if wanted else mode & ~0o111
    os.fchmod(descriptor, mode)


def _give_to_owner_of(parent: int, name: str) -> None:
    if os.geteuid() == 0:
        owner = os.fstat(parent)
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)


def _check_plain(path: str, status: os.stat_result) -> None:
    kind = entry_of(path, status).type
    if kind != "file":
        what = "a directory" if kind == "directory" else "a pipe, socket or device"
        raise FileRefused(f"{path} is {what}, not a file", hint="Name a plain file")
    if status.st_nlink != 1:
        # The other name may be anywhere on the file system, and the content somebody else's.
        raise FileRefused(f"{path} has {status.st_nlink} hard links", hint=LINK_HINT)


def _check_still_named(path: str, descriptor: int, name: str) -> None:
    """Refuse what lost the name under which it was opened: its one link, counted after that, may be another.

    The kernel tells a descriptor's path by the very entry that was opened, which never comes back once it is deleted.
    """
    now = os.readlink(f"/proc/self/fd/{descriptor}")  # text, as the names are
    if not now.endswith(f"/{name}") or now.endswith(_DELETED):
        raise FileRefused(f"{path} was replaced while it was opened", hint="Read it again when it is at rest")


def _read_up_to(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    while left > 0 and (data := os.read(descriptor, min(left, _CHUNK))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def _copy_up_to(source: int, target: int, limit: int) -> int:
    copied = 0
    while copied < limit and (data := os.read(source, min(limit - copied, _CHUNK))):
        _write_all(target, data)
        copied += len(data)
    return copied


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


# What a file system's refusals mean to whoever asked: which of our errors, on what, and the next step. Acts
# on nothing.

LINK_HINT = (
    "Only what lies in the working directory itself can be used: copy the file there under its own name"
)

_NEXT_STEPS = {
    errno.ENOSPC: "The working directory is full: delete files there, or raise its quota",
    errno.EDQUOT: "The working directory is full: delete files there, or raise its quota",
    errno.EROFS: "The file system is read-only: write somewhere else",
    errno.EACCES: "Change the permissions of the file and of its directory",
    errno.EPERM: "Change the permissions of the file and of its directory",
    errno.ENAMETOOLONG: "Use a shorter name",
    errno.EAGAIN: "Another program holds the file: close it there, then try again",
    errno.EISDIR: "Name a file inside it",
    errno.ENOTDIR: "A part of the path is a file: name something else",
    errno.ENOTEMPTY: "Remove what it holds first",
}


@contextlib.contextmanager
def file_errors(action: str, path: str) -> Iterator[None]:
    """Turn what the file system refuses into an error of ours."""
    try:
        yield
    except OSError as error:
        raise failure(action, path, error) from error


def failure(action: str, path: str, error: OSError) -> SandboxError:
    """The error that says what could not be done to which path."""
    match error.errno:
        case errno.ENOENT:
            return NoSuchFile(
                f"Cannot {action} {path}: there is none",
                hint="List its directory; paths begin at the top of the data directory, or of the session's",
            )
        case errno.ELOOP:
            return FileRefused(f"Cannot {action} {path}: a symbolic link stands in the way", hint=LINK_HINT)
        case errno.EXDEV:
            return FileRefused(f"Cannot {action} {path}: it lies on another mount", hint=LINK_HINT)
        case errno.ENXIO:
            return FileRefused(f"{path} is a pipe, socket or device, not a file", hint="Name a plain file")
    step = _NEXT_STEPS.get(error.errno or 0, "Check the working directory, then try again")
    return FileFailed(f"Cannot {action} {path}: {error.strerror or error}", hint=step)


def too_large(path: str, size: int, limit: int) -> FileTooLarge:
    """The error of a file that is larger than may be handled."""
    return FileTooLarge(
        f"{path} has at least {size:,} bytes, and {limit:,} may be handled at once",
        hint="Read it in parts, or write less into it",
    )
