"""The resources of one kernel: its sandbox with the channel to it, its proxy socket, its cgroup, its directory.

They go when the kernel has ended; a ``CheckpointGroup`` may outlive its kernel.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePath

import anyio

from cellwright.errors import KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._monitor import MonitorChannel
from cellwright.kernels.processes import KernelProcess
from cellwright.sandbox.cgroups import Group, Groups, processors
from cellwright.sandbox.npm import CACHE, is_npm_layer
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import ProxySocket

__all__ = [
    "INSIDE",
    "LISTENED",
    "NO_CGROUP",
    "Connection",
    "KernelCgroup",
    "KernelCgroups",
    "KernelResources",
    "NpmDirectory",
    "create_connection",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KernelResources:
    """The resources of one kernel, closed when the kernel has ended."""

    directory: Path
    line: MonitorChannel | None = None
    proxy_socket: ProxySocket | None = None
    group: Group | None = None
    _listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def run(self) -> None:
        """Listen to the kernel's monitor, until it is gone or this is closed."""
        if self.line is not None:
            with self._listening:
                await self.line.run()

    def joined(self) -> None:
        """Do nothing: these resources have one kernel."""

    async def left(self, process: KernelProcess) -> None:  # as every home has it
        """Close the resources, since their kernel has ended."""
        await self.close()

    async def close(self) -> None:
        """Save what was written last, and let go of everything."""
        self._listening.cancel()
        with anyio.CancelScope(shield=True):
            if self.line is not None:
                await self.line.close()
            if self.proxy_socket is not None:
                await self.proxy_socket.close()
            if self.group is not None:
                removed = await anyio.to_thread.run_sync(self.group.remove)
                if not removed:  # the next host tries again
                    log.warning("group_left_behind path=%s pids=%s", self.group.path, self.group.pids)
        shutil.rmtree(self.directory, ignore_errors=True)


# The part of the machine that a kernel gets before its first instruction: a cgroup of its own, or processors.


@dataclass(frozen=True, slots=True)
class KernelCgroup:
    """One kernel's cgroup and processors. The descriptor is the starter's to hand over and close."""

    group: Group | None = None
    entrance_fd: int = -1
    processors: tuple[int, ...] = ()

    @property
    def fds(self) -> list[int]:
        return [self.entrance_fd] if self.entrance_fd >= 0 else []

    def handed_over(self) -> None:
        for fd in self.fds:
            os.close(fd)

    async def remove(self) -> None:
        """Remove the cgroup of a kernel that did not start."""
        if self.group is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.group.remove)


NO_CGROUP = KernelCgroup()


class KernelCgroups:
    """Makes cgroups and chooses processors for the kernels of one launcher."""

    def __init__(self, isolation: Isolation | None) -> None:
        self._policy = isolation.policy if isolation is not None else None
        self._groups = isolation.groups if isolation is not None else None
        self._turns = count()

    async def next(self, narrowed: Policy | None = None) -> KernelCgroup:
        """The next kernel's cgroup and processors; ``narrowed`` is the policy of a session that may do less than others.

        Raises:
            KernelStartError: its group could not be made.
        """
        policy = narrowed if self._policy is not None and narrowed is not None else self._policy
        if policy is None:
            return NO_CGROUP
        group, entrance = await self._enclosed(policy)
        shared = self._groups is not None and "cpu" in self._groups.controllers
        available = sorted(os.sched_getaffinity(0))
        own = [] if shared else processors(policy.cpus, available, next(self._turns))
        return KernelCgroup(group, entrance, tuple(own))

    async def _enclosed(self, policy: Policy) -> tuple[Group | None, int]:
        if self._groups is None:
            return None, -1
        try:
            return await anyio.to_thread.run_sync(_make, self._groups, policy)
        except OSError as error:
            raise KernelStartError(
                f"The kernel's group could not be made below {self._groups.directory}: {error}",
                hint="Run `cellwright doctor` to see what this machine allows",
            ) from error


def _make(groups: Groups, policy: Policy) -> tuple[Group, int]:
    group = groups.make(policy)
    try:
        return group, group.open_entrance()
    except BaseException:
        group.remove()
        raise


# The npm packages of one Deno kernel: a directory beside all layers, with the files of its newest one.


@dataclass(frozen=True, slots=True)
class NpmDirectory:
    """One kernel's packages."""

    directory: Path
    seen_at: str
    """As the kernel sees it."""

    def put(self, layers: Sequence[str]) -> None:
        """Add what is in the last layer of npm packages among these, which holds all that came before it."""
        self.directory.mkdir(mode=0o755, exist_ok=True)
        named = [PurePath(layer).name for layer in layers if is_npm_layer(layer)]
        if named:
            _link_tree(self.directory.with_name(named[-1]) / CACHE, self.directory)

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def _link_tree(source: Path, target: Path) -> None:
    for parent, directories, names in os.walk(source):
        here = target / Path(parent).relative_to(source)
        for name in directories:
            (here / name).mkdir(mode=0o755, exist_ok=True)
        for name in names:
            fresh = here / f".{name}.new"
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            _link(Path(parent, name), fresh)
            # At once, under a kernel that may be reading.
            fresh.replace(here / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system that has none, or too many already
        shutil.copyfile(source, target)


# A kernel's directory, its unix sockets, and the connection file that tells the kernel both.

INSIDE = "inside.json"

MAX_SOCKET_PATH = 107

PORTS: dict[str, int] = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4, "hb": 5}

LISTENED = tuple(PORTS)
"""The channels of a kernel, in the order in which their sockets are handed over."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A kernel's address and the key that signs what is said there."""

    directory: Path
    key: str

    @property
    def file(self) -> Path:
        """The connection file, which other Jupyter clients read too."""
        return self.directory / "connection.json"

    def url(self, channel: str) -> str:
        return f"ipc://{self.path(channel)}"

    def path(self, channel: str) -> str:
        """A channel's socket."""
        return f"{self.prefix}-{PORTS[channel]}"

    @property
    def prefix(self) -> str:
        """What the names of all its sockets begin with."""
        return str(self.directory / "s")


def create_connection(directory: Path, *, seen_at: str | None = None) -> Connection:
    """Make the directory, for this user only, and put a connection file into it.

    A kernel that sees the directory elsewhere, at ``seen_at``, finds another one there, named ``inside.json``.

    Raises:
        KernelStartError: the path is too long for a unix socket.
    """
    longest = len(os.fsencode(directory)) + len("/s-5")
    if longest > MAX_SOCKET_PATH:
        raise KernelStartError(
            f"The path of a kernel's sockets has {longest} bytes and may have {MAX_SOCKET_PATH}: {directory}",
            hint="Choose a shorter directory for run-time files",
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = Connection(directory, secrets.token_hex(32))
    _write(connection.file, connection.prefix, connection.key)
    if seen_at is not None:
        _write(directory / INSIDE, f"{seen_at}/{Path(connection.prefix).name}", connection.key)
    return connection


def _write(file: Path, prefix: str, key: str) -> None:
    content = {
        "transport": "ipc",
        "ip": prefix,
        "key": key,
        "signature_scheme": "hmac-sha256",
        **{f"{name}_port": port for name, port in PORTS.items()},
    }
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(content, stream)
