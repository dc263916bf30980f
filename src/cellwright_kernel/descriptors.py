"""What a forked kernel does with the descriptors it was born with: keeps files, lets go of everything shared.

A fork shares open files with its origin, positions included. So files are opened anew where they were; sockets, event
queues and pipes of the kernel's own are let go of. A number that code may still hold is never free to be given to
something else: it leads nowhere instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Inventory", "OpenFile", "Own", "let_go", "open_anew", "open_now", "take_inventory"]

Own = dict[int, tuple[int, int]]
"""Descriptors, each with what it leads to: a number may be given to something else later."""

STANDARD = 3
# Flags that would change the file, not the way of using it.
CHANGING = os.O_CREAT | os.O_EXCL | os.O_TRUNC
DELETED = " (deleted)"
ANONYMOUS = "anon_inode:"
# Event counters are missing here: whatever talks to the kernel's own sockets has some.
NAMED_KINDS = {
    f"{ANONYMOUS}[eventpoll]": "an open selector (epoll)",
    f"{ANONYMOUS}[io_uring]": "an open queue of the system's (io_uring)",
    f"{ANONYMOUS}[pidfd]": "an open handle of a process",
    f"{ANONYMOUS}[signalfd]": "an open queue of signals",
    f"{ANONYMOUS}[timerfd]": "an open timer",
    f"{ANONYMOUS}inotify": "an open watch on files (inotify)",
}
DATABASE = b"SQLite format 3\0"


@dataclass(frozen=True)
class OpenFile:
    """A plain file that was open, and how far it was read or written."""

    fd: int
    path: str
    flags: int
    position: int
    identity: tuple[int, int]
    is_database: bool
    """SQLite's, which refuses to write once there is another file under the name."""


@dataclass(frozen=True)
class Inventory:
    """What a process has open: files to open anew, numbers that must lead nowhere, and in words what cannot return."""

    files: tuple[OpenFile, ...]
    blind: tuple[int, ...]
    told: tuple[str, ...]


def open_now() -> Own:
    """All descriptors of this process beyond the standard ones."""
    found: Own = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names only
        with contextlib.suppress(OSError):  # the one that listed them is closed by now
            if (fd := int(name)) >= STANDARD:
                found[fd] = _identity(fd)
    return found


def has_strange(own: Own) -> bool:
    """Whether anything is open that is not the kernel's own; quick."""
    # The one that lists them is among them.
    return len(os.listdir("/proc/self/fd")) - 1 > len(own) + STANDARD  # noqa: PTH208


def take_inventory(own: Own, own_path: str, but: Collection[int]) -> Inventory:
    """Look at everything open except ``own`` and ``but``; sockets at ``own_path`` are the kernel's, too."""
    files: list[OpenFile] = []
    blind: list[int] = []
    told: list[str] = []
    for fd, identity in sorted(open_now().items()):
        if own.get(fd) == identity or fd in but:
            continue
        with contextlib.suppress(OSError):
            mode = os.fstat(fd).st_mode
            path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                files.append(_open_file(fd, path))
                if _is_locked(fd):
                    # A fork that kept it would keep the lock, and nobody could take it again.
                    blind.append(fd)
                    told.append(f"the lock on the file {path}")
            elif stat.S_ISSOCK(mode):
                blind.append(fd)
                told += _socket(fd, own_path)
            elif stat.S_ISFIFO(mode):
                told.append("an open pipe" if path.startswith("pipe:") else f"the open pipe {path}")
            elif path.startswith(ANONYMOUS):
                blind.append(fd)
                told += [NAMED_KINDS[path]] if path in NAMED_KINDS else []
    return Inventory(tuple(files), tuple(blind), tuple(dict.fromkeys(told)))


def let_go(own: Own, blind: Collection[int], keep: Collection[int]) -> None:
    """Close what is the kernel's own, and let what is code's lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in blind:
        if fd not in keep:
            os.dup2(nowhere, fd, inheritable=False)
    os.close(nowhere)
    for fd, identity in own.items():
        with contextlib.suppress(OSError):
            if fd not in keep and _identity(fd) == identity:
                os.close(fd)


def open_anew(files: Collection[OpenFile], *, elsewhere: bool) -> list[str]:
    """Open files again, each with its number and position; tells those that could not be.

    ``elsewhere``: this process sees other directories now, and a file that is not there must not be shared.
    """
    failed: list[str] = []
    for file in files:
        try:
            fresh = os.open(file.path, file.flags | os.O_CLOEXEC)
        except OSError:
            failed.append(f"the open file {file.path.removesuffix(DELETED)}")
            if elsewhere:
                fresh = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            else:
                with contextlib.suppress(OSError):
                    os.lseek(file.fd, file.position, os.SEEK_SET)
                continue
        if file.is_database and _identity(fresh) != file.identity:
            failed.append(f"the connection to the SQLite database {file.path}, which may only be read now")
        inheritable = os.get_inheritable(file.fd)
        with contextlib.suppress(OSError):
            os.lseek(fresh, file.position, os.SEEK_SET)
        os.dup2(fresh, file.fd, inheritable=inheritable)
        os.close(fresh)
    return failed


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _open_file(fd: int, path: str) -> OpenFile:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL) & ~CHANGING
    is_database = False
    with contextlib.suppress(OSError):  # it is not open for reading, or a directory
        is_database = os.pread(fd, len(DATABASE), 0) == DATABASE
    return OpenFile(fd, path, flags, os.lseek(fd, 0, os.SEEK_CUR), _identity(fd), is_database)


def _is_locked(fd: int) -> bool:
    with open(f"/proc/self/fdinfo/{fd}", encoding="utf-8") as file:  # noqa: PTH123
        return any(line.startswith("lock:") for line in file)


def _socket(fd: int, own_path: str) -> list[str]:
    """A socket in words; nothing for those of the kernel's own."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as found:
        names = []
        for name in (found.getsockname, found.getpeername):
            with contextlib.suppress(OSError):
                names.append(name())
        if any(str(name).startswith(own_path) for name in names):
            return []
        shown = [f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name) for name in names if name]
        return [f"the open socket {' → '.join(shown)}" if shown else "an open socket without an address"]
    return []
