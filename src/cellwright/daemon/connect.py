"""Finds the daemon of a storage directory, or starts it; asks it things. For its clients, in the standard library.

Whoever starts, replaces or ends a daemon holds the start lock meanwhile, so that of many clients at once one starts it
and the others find it. A socket that nobody listens on is left over from a killed daemon and counts for nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time

import cellwright
from cellwright.daemon.handshake import encode_handshake
from cellwright.daemon.paths import DaemonPaths
from cellwright.errors import CellwrightError
from cellwright.settings.paths import make_private, make_storage

__all__ = ["DaemonUnavailable", "ask", "connect", "connect_or_start", "read_about", "stop", "was_killed"]

# Waits are counted in looks, and not by the clock: while the whole machine stands still nobody is late.
_ANSWER_LOOKS = 60
_ANSWER_LOOK_S = 1.0
_END_LOOKS = 3_000
_END_LOOK_S = 0.02
_CHUNK = 65_536

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class DaemonUnavailable(CellwrightError):
    """The daemon cannot be started or does not answer."""

    code = "daemon_unavailable"


def connect_or_start(paths: DaemonPaths, directory: str, *, say: Callable[[str], None]) -> socket.socket:
    """A connection to the living daemon, starting one where there is none.

    A daemon of another version or installation makes way for ours if it has nothing to do; otherwise ``say`` is told.

    Raises:
        DaemonUnavailable: it ended before it listened.
    """
    connection = connect(paths)
    if connection is not None:
        if _is_ours(paths):
            return connection
        connection.close()
    with _start_lock(paths):
        connection = connect(paths)
        if connection is not None and not _is_ours(paths):
            connection = _replace(paths, connection, say)
        if connection is None:
            _start(paths, directory)
            connection = connect(paths)
    if connection is None:
        raise DaemonUnavailable("The daemon started but does not answer", hint="See `cellwright daemon logs`")
    return connection


def connect(paths: DaemonPaths) -> socket.socket | None:
    """A connection to the living daemon, or none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Where it said it listens: a client that started us without our variables would look elsewhere.
        connection.connect(read_about(paths).get("socket", paths.socket))
    except OSError:
        connection.close()
        return None
    return connection


def ask(connection: socket.socket, want: str, **details: Any) -> dict[str, Any]:
    """Send a request and read its one line of answer; the connection stays open.

    Raises:
        DaemonUnavailable: the daemon went away, or refused, before it answered.
    """
    try:
        connection.sendall(encode_handshake(want, **details))
        line = _read_line(connection)
    except OSError as error:
        raise DaemonUnavailable(
            f"The daemon did not answer: {error}", hint="See `cellwright daemon logs`"
        ) from error
    if not line:
        raise DaemonUnavailable(
            "The daemon went away before it answered", hint="See `cellwright daemon logs`"
        )
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise DaemonUnavailable(answer["error"], hint=answer.get("hint"))
    return answer


def _read_line(connection: socket.socket) -> bytes:
    """One line, or what came of it before the other side went away.

    Raises:
        OSError: nothing came for too long.
    """
    said, looks = b"", 0
    connection.settimeout(_ANSWER_LOOK_S)
    while not said.endswith(b"\n"):
        try:
            chunk = connection.recv(_CHUNK)
        except TimeoutError:
            looks += 1
            if looks == _ANSWER_LOOKS:
                raise
            continue
        if not chunk:
            break
        said += chunk
    connection.settimeout(None)
    return said


def stop(paths: DaemonPaths, **details: Any) -> dict[str, Any] | None:
    """Ask the daemon to end and wait until it did; none if there was none.

    Raises:
        DaemonUnavailable: it did not end.
    """
    if not os.path.isdir(paths.home):
        return None
    with _start_lock(paths):
        connection = connect(paths)
        if connection is None:
            return None
        with connection:
            answer = ask(connection, "stop", **details)
        if answer.get("stopping"):
            _wait_for_end(paths)
    return answer


def read_about(paths: DaemonPaths) -> dict[str, Any]:
    """What the living daemon wrote down about itself."""
    try:
        with open(paths.about, encoding="utf-8") as file:
            about: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return about


def was_killed(paths: DaemonPaths) -> bool:
    """Whether the daemon that is gone did not end by itself: one that does takes its socket away first."""
    return os.path.lexists(read_about(paths).get("socket", paths.socket))


class _start_lock:  # noqa: N801  # reads as a function; contextlib costs the byte pump more than this does
    """Held while a daemon is being started or ended, by one process at a time."""

    def __init__(self, paths: DaemonPaths) -> None:
        self._paths = paths

    def __enter__(self) -> None:
        try:
            make_storage(self._paths.storage)
            os.makedirs(self._paths.home, mode=0o700, exist_ok=True)
            make_private(self._paths.runtime)
            self._fd = os.open(self._paths.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DaemonUnavailable(
                f"{error.filename} cannot be used: {error.strerror}",
                hint="Make room there, or set CELLWRIGHT_STORAGE to a directory that can be written",
            ) from error
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _is_held(lock: str) -> bool:
    """Whether a living process holds a lock. Only for who holds the start lock: for a moment this takes it itself."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _is_ours(paths: DaemonPaths) -> bool:
    """Whether the daemon runs this version from this environment, whose packages and extras it then has."""
    about = read_about(paths)
    return about.get("version") == cellwright.__version__ and about.get("prefix", sys.prefix) == sys.prefix


def _replace(
    paths: DaemonPaths, connection: socket.socket, say: Callable[[str], None]
) -> socket.socket | None:
    """End an idle daemon of another version or environment, its host with it; keep a busy one."""
    about = read_about(paths)
    with connection:
        answer = ask(connection, "stop", if_idle=True)
    if answer.get("stopping"):
        _wait_for_end(paths)
        return None
    say(
        f"The daemon is version {about.get('version', 'unknown')} in {about.get('prefix', 'an unknown place')}, this is "
        f"{cellwright.__version__} in {sys.prefix}; it is busy ({answer.get('busy')}) and is used as it is. "
        "`cellwright daemon stop` ends it"
    )
    return connect(paths)


def _wait_for_end(paths: DaemonPaths) -> None:
    for _ in range(_END_LOOKS):
        if not _is_held(paths.lock):
            return
        time.sleep(_END_LOOK_S)
    pid = read_about(paths).get("pid")
    raise DaemonUnavailable(f"The daemon (process {pid}) does not end", hint=f"End it with `kill {pid}`")


def _start(paths: DaemonPaths, directory: str) -> None:
    """Start a detached daemon and wait for the line in which it says that it listens."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    log = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "cellwright.daemon", paths.storage, directory],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            # A client may have been started with these ignored or blocked; the daemon is nobody's child in spirit.
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM],
        )
    finally:
        os.close(writing)
        os.close(log)
    with open(reading, "rb") as ready:
        line = ready.readline()
    if not line:
        _, status = os.waitpid(pid, 0)
        raise DaemonUnavailable(
            f"The daemon ended with code {os.waitstatus_to_exitcode(status)} before it listened: {_last_line(paths)}",
            hint="See `cellwright daemon logs`, or run `cellwright doctor`",
        )


def _last_line(paths: DaemonPaths) -> str:
    with open(paths.log, encoding="utf-8", errors="replace") as file:
        lines = file.read()[-4096:].strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
