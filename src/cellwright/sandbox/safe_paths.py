"""Opens names beneath a directory so that nobody can lead the way outside it, not even while it is walked.

The kernel does it in one call (``openat2``, Linux 5.6 or later). Where that call is missing, each component is
opened by itself and none may be a link. Knows nothing of sizes or contents (see files).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "DIRECTORY",
    "MAX_DEPTH",
    "OPAQUE",
    "READ",
    "TICKS_NS",
    "Names",
    "Stamp",
    "clear_directory",
    "closing",
    "components",
    "copy_data",
    "count_names",
    "entries",
    "has_openat2",
    "have_same_data",
    "open_beneath",
    "opened",
    "stamp_of",
]

# The number is the same on x86_64 and aarch64, as for every call since Linux 5.1.
_SYS_OPENAT2 = 437

_NO_XDEV = 0x01

_NO_MAGICLINKS = 0x02

_NO_SYMLINKS = 0x04

_BENEATH = 0x08

# Renames elsewhere in the system make the kernel give up a walk that it cannot prove; a later one succeeds.
_MAX_TRIES = 64


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def components(path: str) -> tuple[str, ...]:
    """The names along a relative path; none for the directory itself.

    Raises:
        ValueError: the path says by itself that it leads elsewhere.
    """
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL character")
    if path.startswith("/"):
        raise ValueError("a path must be relative to the working directory")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise ValueError("a path cannot contain '..'")
    return names


def open_beneath(
    directory: int, names: tuple[str, ...], flags: int, *, mode: int = 0, cross_mounts: bool = False
) -> int:
    """A descriptor of what these names lead to, with no link followed on the way or at the end.

    Raises:
        OSError: with ``ELOOP`` at a link, ``EXDEV`` at another mount, else as ``open`` does.
    """
    if not has_openat2():
        return walk_beneath(directory, names, flags, mode=mode, cross_mounts=cross_mounts)
    resolve = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | (0 if cross_mounts else _NO_XDEV)
    path = os.fsencode("/".join(names) or ".")
    for _ in range(_MAX_TRIES):
        try:
            return _openat2(directory, path, _OpenHow(flags | os.O_CLOEXEC, mode, resolve))
        except BlockingIOError as error:
            held = error
    raise held


def walk_beneath(
    directory: int, names: tuple[str, ...], flags: int, *, mode: int = 0, cross_mounts: bool = False
) -> int:
    """The same as ``open_beneath`` without the kernel's help: one component at a time."""
    device = os.fstat(directory).st_dev
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    name = "."
    try:
        for name in names[:-1]:
            step = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = step
            _check_device(here, device, cross_mounts=cross_mounts)
        name = names[-1] if names else "."
        found = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=here)
    except NotADirectoryError as error:
        raise _link_or(error, here, name) from None
    finally:
        os.close(here)
    try:
        _check_device(found, device, cross_mounts=cross_mounts)
    except OSError:
        os.close(found)
        raise
    return found


@functools.cache
def has_openat2() -> bool:
    """Whether this kernel, and whatever filters our calls to it, has ``openat2``."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, b".", _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _BENEATH)))
    except OSError:
        # ENOSYS from an old kernel, EPERM from a container's filter of calls it does not know.
        return False
    finally:
        os.close(root)
    return True


def _openat2(directory: int, path: bytes, how: _OpenHow) -> int:
    found: int = _libc().syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(path))
    return found


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _check_device(descriptor: int, device: int, *, cross_mounts: bool) -> None:
    if not cross_mounts and os.fstat(descriptor).st_dev != device:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _link_or(error: NotADirectoryError, here: int, name: str) -> OSError:
    """The kernel's word for a link on the way is ELOOP; a walk by hand only hears that it is no directory."""
    try:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    except OSError:
        return error
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) if is_link else error


# Empties a directory that code filled to be hard to empty: too deep to walk, closed to its owner, full of
# links.

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def clear_directory(root: int) -> int:
    """Delete everything in an open directory, and tell how many entries could not be deleted.

    Directories inside others are first moved to the top, so that neither the depth of the tree nor the length of
    its paths matters and at most two descriptors are open. No link is followed. Nobody may be writing there any
    more, else this may leave what is new.
    """
    stuck: set[str] = set()
    while ahead := [name for name in _names(root) if name not in stuck]:
        for name in ahead:
            if not _remove(root, name):
                stuck.add(name)
    return len(stuck)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _remove(root: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=root)
    except IsADirectoryError:
        return _dissolve(root, name)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _dissolve(root: int, name: str) -> bool:
    """Delete a directory's files, move its directories to the top, and delete it."""
    try:
        descriptor = _open(root, name)
    except OSError:
        return False
    try:
        for inside in _names(descriptor):
            _unlink_or_lift(root, descriptor, inside)
        os.rmdir(name, dir_fd=root)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _unlink_or_lift(root: int, directory: int, name: str) -> None:
    """What can be neither deleted nor moved stays, and so does the directory that it is in."""
    with contextlib.suppress(OSError):
        try:
            os.unlink(name, dir_fd=directory)
        except IsADirectoryError:
            # Moving a directory writes to it, so it must be open to us first.
            os.close(_open(directory, name))
            os.rename(name, secrets.token_hex(16), src_dir_fd=directory, dst_dir_fd=root)


def _open(parent: int, name: str) -> int:
    """A directory, open for reading, even where its owner (us) has no permission: it is given that first."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with contextlib.suppress(OSError):
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(".", _DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


# Pieces that whatever walks and copies trees is made of: entries, stamps, data with its holes, overlay
# marks. Blocking.

Names: TypeAlias = tuple[str, ...]

Stamp: TypeAlias = tuple[int, int, int, int, int]

MAX_DEPTH = 128
"""As deep as paths can usefully be; code that wants to exhaust whoever looks goes deeper."""

TICKS_NS = 20_000_000
"""File systems tell time in ticks: what changed so shortly before it was copied may change again unnoticed."""

OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
"""What an overlay notes on a directory that hides the one below it, for root and for others."""

READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK

_CHUNK = 16 << 20


def entries(root: int, names: Names) -> Iterator[tuple[Names, os.stat_result]]:
    """What lies in one directory.

    Raises:
        OSError: it is not there, or closed to us.
    """
    descriptor = open_beneath(root, names, DIRECTORY)
    with closing(descriptor), os.scandir(descriptor) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                yield (*names, entry.name), entry.stat(follow_symlinks=False)


def count_names(root: int) -> Counter[int]:
    """How many names each file with several has beneath a directory."""
    found: Counter[int] = Counter()
    ahead: list[Names] = [()]
    while ahead:
        with contextlib.suppress(OSError):
            for names, status in entries(root, ahead.pop()):
                if stat.S_ISDIR(status.st_mode) and len(names) <= MAX_DEPTH:
                    ahead.append(names)
                elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                    found[status.st_ino] += 1
    return found


@contextlib.contextmanager
def opened(root: int, names: Names) -> Iterator[int]:
    descriptor = open_beneath(root, names, DIRECTORY)
    with closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode, status.st_mtime_ns)


def have_same_data(one: int, other: int, size: int) -> bool:
    """Whether two files have the same bytes up to a size. Where both have a hole nothing is read, however long it is."""
    offset = 0
    while (begin := min(_next_data(one, offset, size), _next_data(other, offset, size))) < size:
        end = max(_next_hole(one, begin), _next_hole(other, begin), begin + 1)
        offset = min(end, size, begin + _CHUNK)
        if os.pread(one, offset - begin, begin) != os.pread(other, offset - begin, begin):
            return False
    return True


def _next_data(descriptor: int, offset: int, size: int) -> int:
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return size  # nothing but a hole is left


def _next_hole(descriptor: int, offset: int) -> int:
    """Where the data at an offset ends; the offset itself where there is none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_HOLE)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return offset


def copy_data(source: int, target: int, size: int, capacity: int) -> int:
    """Copy a file's data and leave its holes; returns how much was copied."""
    copied = offset = 0
    while True:
        try:
            begin = os.lseek(source, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # nothing but a hole is left
        offset = os.lseek(source, begin, os.SEEK_HOLE)
        while begin < offset:
            if copied >= capacity:
                raise OSError(errno.ENOSPC, "there is no more room for copies")
            os.lseek(target, begin, os.SEEK_SET)
            sent = os.sendfile(target, source, begin, min(_CHUNK, offset - begin, capacity - copied))
            if not sent:
                break
            begin += sent
            copied += sent
    os.ftruncate(target, max(size, offset))
    return copied
