"""Makes ``srun`` carry small messages at once.

SLURM sends what a step says over TCP as TCP likes it: a second small message waits until the first was acknowledged,
which the other side puts off for 40 ms. ``srun`` is a child of ours, so its socket can be had from it and told to send at
once; and whenever something came in, to acknowledge at once. Where the system does not let us, messages are late and
nothing else is wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from pathlib import Path

__all__ = ["Promptness"]

# The same on every architecture.
_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


class Promptness:
    """The TCP connections of one process, as long as this is open."""

    def __init__(self, pid: int) -> None:
        self._sockets = _connections(pid)
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.acknowledge()

    def acknowledge(self) -> None:
        """Have what came in so far acknowledged now."""
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def close(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


def _connections(pid: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            entries = Path(f"/proc/{pid}/fd").iterdir()
            found.extend(filter(None, (_connection(pidfd, entry) for entry in entries)))
        finally:
            os.close(pidfd)
    return found


def _connection(pidfd: int, entry: Path) -> socket.socket | None:
    try:
        if not str(entry.readlink()).startswith("socket:"):
            return None
        fd = _libc.syscall(_PIDFD_GETFD, pidfd, int(entry.name), 0)
        if fd < 0:
            return None
        os.set_inheritable(fd, False)  # noqa: FBT003  # the standard library takes no name
        had = socket.socket(fileno=fd)
    except OSError:  # closed meanwhile
        return None
    if had.family in (socket.AF_INET, socket.AF_INET6) and had.type == socket.SOCK_STREAM:
        with contextlib.suppress(OSError):
            had.getpeername()
            return had
    had.close()
    return None
