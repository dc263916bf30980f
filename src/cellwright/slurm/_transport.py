"""The transport to the host of one allocation: through ``srun``, or by TLS where a site forbids that.

Where the allocation stands is asked of whoever keeps track of it (``allocations``); which of its hosts counts, of the
fence. Two engines cannot both own the allocation, as they cannot own its storage; should one that lost its storage
still be there, the host listens to whoever attached last.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.abc
import anyio.to_thread

from cellwright import children
from cellwright.errors import HostLost, HostPending, HostUnreachable, UnknownHost
from cellwright.hosts.connection import HostConnection
from cellwright.rlimits import unlimited_children
from cellwright.slurm import _tls
from cellwright.slurm._allocations import Allocations
from cellwright.slurm._directories import Allocation, AllocationPaths, Fence, HostAddress, read_host_address
from cellwright.slurm._states import Ended, Pending, Submitting, state_text
from cellwright.slurm.commands import job_environment
from cellwright.slurm.pipe import FOUND, READ_BYTES

__all__ = ["AllocationTransport", "Connecting", "PipeStream", "PromptAcknowledgements", "pipe_command"]
Connecting: TypeAlias = Literal["srun", "tls"]

BEAT_S = 2.0

_CONNECT_S = 15.0


class AllocationTransport:
    """Connects to one allocation's host; it is never started here."""

    def __init__(
        self, allocations: Allocations, directory: Path, *, python: str, connecting: Connecting = "srun"
    ) -> None:
        """``directory`` is the allocation's, ``python`` an interpreter that its node has."""
        self.paths = AllocationPaths(directory)
        self._allocations = allocations
        self._key = directory.name
        self._python = python
        self._connecting = connecting
        self._fence = Fence(self.paths.storage)

    @property
    def beat_s(self) -> float | None:
        return BEAT_S

    async def connect(self) -> HostConnection:
        allocation = await self._running()
        about = await anyio.to_thread.run_sync(self._living)
        if about is None:
            raise HostPending(
                f"{_named(allocation)} has its node, and its host is starting there",
                hint=f"If that takes long, see {allocation.log}",
            )
        if self._connecting == "tls":
            stream: anyio.abc.ByteStream = await _tls.connect(about, self.paths.credentials)
        else:
            stream = await self._through_srun(about)
        self._allocations.trust(self._key)
        return HostConnection(stream)

    async def end(self) -> str | None:
        self._allocations.doubt(self._key)
        await self._allocations.look()
        try:
            allocation = self._allocations.find(self._key)
        except UnknownHost:
            return f"Allocation {self._key!r} is forgotten"
        if not isinstance(allocation.state, Ended):
            return None
        return f"{_named(allocation)} {state_text(allocation.state, now=time.time()).text}"

    async def _running(self) -> Allocation:
        """The allocation, where it runs.

        Raises:
            HostPending: it waits for its turn.
            HostLost: it has ended.
            UnknownHost: it is forgotten.
        """
        allocation = self._allocations.find(self._key)
        if isinstance(allocation.state, Pending | Submitting):
            await self._allocations.look()
            allocation = self._allocations.find(self._key)
        told = state_text(allocation.state, now=time.time())
        if isinstance(allocation.state, Pending | Submitting):
            raise HostPending(f"{_named(allocation)} is {told.text}", hint=told.hint)
        if isinstance(allocation.state, Ended) or allocation.job_id is None:
            raise HostLost(f"{_named(allocation)} {told.text}", hint=told.hint)
        return allocation

    def _living(self) -> HostAddress | None:
        """What the host says that counts; None before it has said so."""
        latest = self._fence.latest()
        about = read_host_address(self.paths.current)
        return (
            about
            if latest is not None and about is not None and about.incarnation == latest.incarnation
            else None
        )

    async def _through_srun(self, about: HostAddress) -> PipeStream:
        command = pipe_command(about.job_id, self._python, about.socket)
        stream = await PipeStream.open(command, _environment(os.environ))
        found = False
        try:
            with anyio.move_on_after(_CONNECT_S) as late:
                found = await stream.greeted()
        finally:
            if not found:
                await stream.aclose()
        if found:
            return stream
        why = f"no answer within {_CONNECT_S:g} s" if late.cancelled_caught else stream.words
        raise HostUnreachable(
            f"srun does not reach job {about.job_id} on {about.node}: {why or 'it ended without a word'}",
            hint="Its kernels go on; the next attempt follows by itself",
        )


def _named(allocation: Allocation) -> str:
    job = f" (job {allocation.job_id})" if allocation.job_id is not None else ""
    return f"Allocation {allocation.name!r}{job}"


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What ``srun`` is started with, and sends to the node as it is: nothing secret, and nothing of another job's."""
    return job_environment(environment, ("LD_LIBRARY_PATH",))


# The login side of ``pipe``: a stream of bytes through an ``srun`` that reaches a job's host.

_WORDS_BYTES = 4_000

_END_S = 0.5

_LAST_WORDS_S = 5.0


def pipe_command(job_id: int, python: str, socket: str) -> list[str]:
    """What reaches the host: a step without memory or processors of its own."""
    return [
        "srun",
        f"--jobid={job_id}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        "--mem=0",
        "--cpu-bind=none",
        "--unbuffered",
        "--quiet",
        "--job-name=attach",
        python,
        "-I",
        "-S",
        str(Path(__file__).with_name("pipe.py")),
        socket,
    ]


class PipeStream(anyio.abc.ByteStream):
    """Bytes to and from a host."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._first = b""
        self._words = b""
        self._promptness: PromptAcknowledgements | None = None

    @classmethod
    async def open(cls, command: list[str], environment: Mapping[str, str]) -> PipeStream:
        """Start the command; the host is not found yet (see ``greeted``).

        Raises:
            HostUnreachable: it cannot be run.
        """
        try:
            with unlimited_children():
                process = await anyio.open_process(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise HostUnreachable(f"{command[0]} cannot be run: {error}") from error
        return cls(process)

    @property
    def words(self) -> str:
        """What the command said before it ended."""
        return self._words.decode("utf-8", "replace").strip()

    async def greeted(self) -> bool:
        """Whether the other end has found the host; False where the command ended instead, and ``words`` tells why."""
        try:
            first = await self.receive()
        except anyio.EndOfStream:
            return False
        self._first = first.removeprefix(FOUND)
        self._promptness = await anyio.to_thread.run_sync(PromptAcknowledgements, self._process.pid)
        return True

    async def send(self, item: bytes) -> None:
        if self._process.stdin is None:
            raise anyio.ClosedResourceError
        await self._process.stdin.send(item)

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._process.stdout is None:
            raise anyio.ClosedResourceError
        try:
            data = await self._process.stdout.receive(max_bytes)
        except anyio.EndOfStream:
            await self._hear_words()
            raise
        if self._promptness is not None:
            self._promptness.acknowledge()
        return data

    async def send_eof(self) -> None:
        if self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def aclose(self) -> None:
        """End the command; the host goes on."""
        with anyio.CancelScope(shield=True):
            # Without input the other end goes by itself; where the network is cut, it cannot hear of it.
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self.send_eof()
            await children.end(self._process, grace_s=_END_S)
            if self._promptness is not None:
                self._promptness.close()

    async def _hear_words(self) -> None:
        """What it said to the end, which is near."""
        stderr = self._process.stderr
        with (
            anyio.move_on_after(_LAST_WORDS_S),
            contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError),
        ):
            while stderr is not None:
                self._words = (self._words + await stderr.receive())[-_WORDS_BYTES:]


# Makes ``srun`` carry small messages at once.

# The same on every architecture.
_PIDFD_GETFD = 438

_libc = ctypes.CDLL(None, use_errno=True)


class PromptAcknowledgements:
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
        os.set_inheritable(fd, False)
        had = socket.socket(fileno=fd)
    except OSError:  # closed meanwhile
        return None
    if had.family in (socket.AF_INET, socket.AF_INET6) and had.type == socket.SOCK_STREAM:
        with contextlib.suppress(OSError):
            had.getpeername()
            return had
    had.close()
    return None
