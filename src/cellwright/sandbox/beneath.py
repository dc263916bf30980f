"""Opens names beneath a directory so that nobody can lead the way outside it, not even while it is walked.

The kernel does it in one call (``openat2``, Linux 5.6 or later). Where that call is missing, each component is
opened by itself and none may be a link. Knows nothing of sizes or contents (see files).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat

__all__ = ["components", "has_openat2", "open_beneath", "walk_beneath"]

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
