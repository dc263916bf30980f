"""Finds this machine's host for a storage directory, or starts it.

Where things lie: ``<storage>/host/<incarnation>/`` holds a host's journal and outlives it; the sockets live in a
short private runtime directory, because a unix socket's path may have no more than 107 bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from cellwright.errors import HostStartError, HostUnreachable
from cellwright.hosts.connection import HostConnection
from cellwright.settings import paths as places
from cellwright.unixstreams import UnixStream

__all__ = [
    "HostPaths",
    "HostTransport",
    "LocalTransport",
    "NoTransport",
    "await_end",
    "connect_or_start",
    "dead_incarnations",
    "end_host",
    "forget_incarnation",
    "living_host",
    "make_private",
    "runtime_base",
]

# How long a dying process may hold its lock: while somebody may still connect to it, and after that.
_DYING_S = 2.0

_DEAF_S = 60.0

_DYING_CHECK_S = 0.02

_END_S = 60.0


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Every place that a host of one storage directory uses."""

    storage: Path

    @property
    def home(self) -> Path:
        return self.storage / "host"

    @property
    def lock(self) -> Path:
        """Held by the host while it lives."""
        return self.home / "lock"

    @property
    def log(self) -> Path:
        return self.home / "host.log"

    @property
    def current(self) -> Path:
        """Names the living host's incarnation and process."""
        return self.home / "current.json"

    @property
    def cache(self) -> Path:
        return self.storage / "cache"

    @property
    def runtime(self) -> Path:
        digest = hashlib.sha256(os.fsencode(self.storage)).hexdigest()[:12]
        return runtime_base() / digest

    @property
    def socket(self) -> Path:
        return self.runtime / "host.sock"

    @property
    def connections(self) -> Path:
        """Where the engine answers for named connections; beside the runtime directory, which is the host's."""
        return self.runtime.with_name(f"{self.runtime.name}.sock")

    def journal(self, incarnation: str) -> Path:
        return self.home / incarnation


def runtime_base() -> Path:
    """A private directory with a short path, for sockets."""
    return Path(places.runtime_base())


def make_private(directory: Path) -> Path:
    """Make a directory that only this user can enter, and refuse one that somebody else made."""
    try:
        return Path(places.make_private(str(directory)))
    except places.NotPrivate as error:
        raise HostStartError(error.message, hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class LocalTransport:
    """Connects to this machine's host (see ``connection``)."""

    paths: HostPaths
    beat_s: float | None = None
    hidden: frozenset[str] = frozenset()
    """Variables that a host is not given: they hold credentials of connections."""

    async def connect(self) -> HostConnection:
        """A connection to the living host, starting one where there is none.

        Raises:
            HostStartError: it cannot be started, or does not answer.
        """
        return await connect_or_start(self.paths, hidden=self.hidden)

    async def end(self) -> str | None:
        """What is told where the process ended; None if only the connection broke."""
        with anyio.move_on_after(_DYING_S):
            while is_held(self.paths.lock):  # the other process cannot set an event of ours
                await anyio.sleep(_DYING_CHECK_S)
        with anyio.move_on_after(_DEAF_S):
            # Nobody listens any more: it is ending, and what it waits for is the system or the disk.
            while is_held(self.paths.lock) and not await _is_listening(self.paths):
                await anyio.sleep(_DYING_CHECK_S)
        if is_held(self.paths.lock):
            return None
        return "The process that owned the kernel went away"


async def connect_or_start(paths: HostPaths, *, hidden: Collection[str] = ()) -> HostConnection:
    """Return a connection to the living host, starting one where there is none."""
    connection = await _connect(paths)
    if connection is not None:
        return connection
    paths.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(runtime_base())
    await anyio.to_thread.run_sync(_start, paths, hidden)
    connection = await _connect(paths)
    if connection is None:
        raise HostStartError("The host started but does not answer", hint=f"See {paths.log}")
    return connection


def end_host(paths: HostPaths) -> bool:
    """End the living host of a storage directory with all its kernels; returns whether there was one.

    Raises:
        HostStartError: it does not end.
    """
    pid = living_host(paths)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    await_end(paths, pid)
    return True


def living_host(paths: HostPaths) -> int | None:
    """The process of the living host of a storage directory, if there is one."""
    return _named(paths) if is_held(paths.lock) else None


def _named(paths: HostPaths) -> int | None:
    """The process that is noted as the host; none while one begins or ends."""
    try:
        return int(json.loads(paths.current.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None


def await_end(paths: HostPaths, pid: int) -> None:
    """Return once a host that was told to end is gone, whether or not another has begun in its place.

    Raises:
        HostStartError: it does not end.
    """
    deadline = time.monotonic() + _END_S
    while is_held(paths.lock) and _named(paths) in (pid, None):
        if time.monotonic() > deadline:
            raise HostStartError(
                f"The host (process {pid}) does not end", hint=f"End it with `kill -9 {pid}`"
            )
        time.sleep(_DYING_CHECK_S)


def dead_incarnations(paths: HostPaths, *, living: str | None) -> list[str]:
    """Incarnations whose host is gone and whose journal may still hold something."""
    if not paths.home.is_dir():
        return []
    return sorted(entry.name for entry in paths.home.iterdir() if entry.is_dir() and entry.name != living)


def forget_incarnation(paths: HostPaths, incarnation: str) -> None:
    """Remove a dead host's journal after it was read to its end."""
    shutil.rmtree(paths.journal(incarnation), ignore_errors=True)


async def _connect(paths: HostPaths) -> HostConnection | None:
    if not is_held(paths.lock):
        return None
    try:
        # As the host wrote it down: it may have been started where the runtime directory was another.
        about = json.loads(paths.current.read_text())
        return HostConnection(UnixStream.over(await anyio.connect_unix(about["socket"])))
    except (OSError, ValueError, KeyError):
        return None


async def _is_listening(paths: HostPaths) -> bool:
    connection = await _connect(paths)
    if connection is None:
        return False
    await connection.close()
    return True


def is_held(lock: Path) -> bool:
    """Whether a living process holds this lock file."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _start(paths: HostPaths, hidden: Collection[str]) -> None:
    """Start a detached host and wait for the line in which it says that it listens."""
    with paths.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cellwright.hosts", str(paths.storage)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={name: value for name, value in os.environ.items() if name not in hidden},
        )
    assert process.stdout is not None  # for the type checker: PIPE was asked for
    with process.stdout:
        line = process.stdout.readline()
    if not line:
        code = process.wait()
        raise HostStartError(
            f"The host ended with code {code} before it listened: {_last_line(paths.log)}",
            hint=f"See {paths.log}, or run `cellwright doctor`",
        )
    # The host is meant to outlive us; if it does not, somebody must take note of its end.
    threading.Thread(target=process.wait, name="cellwright-host-end", daemon=True).start()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


# How a host is reached: found or started, and told from one that is only out of reach. What is said is
# ``protocol``.


class HostTransport(Protocol):
    """Connects to one host's process, wherever it runs."""

    @property
    def paths(self) -> HostPaths:
        """Where its journals lie; read when it is gone."""
        ...

    @property
    def beat_s(self) -> float | None:
        """How often it is asked for a sign of life; None where the system tells of its end."""
        ...

    async def connect(self) -> HostConnection:
        """A connection to the living host, starting one where that is possible.

        Raises:
            HostStartError: it cannot be started.
            HostPending: it will be there later.
            HostUnreachable: it lives, as far as anybody knows, but cannot be reached now.
            HostLost: it is gone and does not come back.
        """
        ...

    async def end(self) -> str | None:
        """Why the host is gone, in words, once that is certain; None if only the connection broke."""
        ...


@dataclass(frozen=True, slots=True)
class NoTransport:
    """A host that may well live, and that nobody here knows how to reach: SLURM's commands are not at hand."""

    name: str
    beat_s: float | None = 60.0

    @property
    def paths(self) -> HostPaths:
        return HostPaths(Path("/nonexistent"))

    async def connect(self) -> HostConnection:
        raise HostUnreachable(
            f"{self.name} is in a SLURM allocation, and `sbatch` is not on the PATH here",
            hint="Start the daemon where SLURM's commands are; the kernels there go on",
        )

    async def end(self) -> str | None:
        return None
