"""The host's end of the conversation with a fork server; the packets are described in ``cellwright_kernel``.

Forks nothing by itself and starts no process: ``forkserver`` does, and hands the socket to this.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import anyio
import msgspec

from cellwright.errors import KernelStartError
from cellwright.kernels.processes import reap

__all__ = ["ForkChannel", "Forked"]

log = logging.getLogger(__name__)

PACKET_BYTES = 1 << 18
ADOPTION_S = 10.0
ADOPTION_CHECK_S = 0.01


@dataclass(frozen=True, slots=True)
class Forked:
    """A kernel's process, just forked; the pidfd is the receiver's to close."""

    pid: int
    pidfd: int


class _Ready(msgspec.Struct, tag_field="op", tag="ready"):
    failures: dict[str, str]
    paths: list[str]
    version: str
    search: list[str]


class _Warm(msgspec.Struct, tag_field="op", tag="warm"):
    pass


class _ForkedOne(msgspec.Struct, tag_field="op", tag="forked"):
    id: int
    pid: int


class _Refused(msgspec.Struct, tag_field="op", tag="refused"):
    id: int | None
    """None of a request that could not be read."""
    reason: str


class _Exited(msgspec.Struct, tag_field="op", tag="exited"):
    pid: int
    status: int | None


_Packet: TypeAlias = _Ready | _Warm | _ForkedOne | _Refused | _Exited
_decode: Callable[[bytes], _Packet] = msgspec.json.Decoder(_Packet).decode


@dataclass(slots=True)
class _Waiting:
    """Something that a packet will settle."""

    settled: anyio.Event = field(default_factory=anyio.Event)
    forked: Forked | None = None
    refusal: str = "the fork server ended"
    status: int | None = None


class ForkChannel:
    """Asks for forks and hears of ends, while ``run`` does."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._forks: dict[int, _Waiting] = {}
        self._ends: dict[int, _Waiting] = {}
        self._last_id = 0
        self.ready = anyio.Event()
        self.warm = anyio.Event()
        """Set when kernels start as fast as they can, or nothing more can be forked."""
        self.closed = anyio.Event()
        self.preload_failures: dict[str, str] = {}
        """Modules that could not be preloaded, each with the reason."""
        self.paths: list[str] = []
        """What the interpreter runs from and imports from."""
        self.version = ""
        self.search: list[str] = []
        """Where it imports from, in order."""

    async def run(self) -> None:
        """Receive until the fork server is gone."""
        try:
            while True:
                await anyio.wait_readable(self._socket)
                try:
                    data, fds, _, _ = socket.recv_fds(self._socket, PACKET_BYTES, 4)
                except BlockingIOError:
                    continue
                except ConnectionError:
                    return
                if not data:
                    return
                if not self._understands(data, fds):
                    return
        finally:
            self.closed.set()
            self.ready.set()
            self.warm.set()
            for waiting in (*self._forks.values(), *self._ends.values()):
                waiting.settled.set()

    async def fork(self, request: dict[str, Any], fds: Sequence[int], *, timeout_s: float) -> Forked:
        """A new process, which will become the kernel that the request describes.

        Raises:
            KernelStartError: the fork server is gone, refused or does not answer.
        """
        self._last_id += 1
        request_id = self._last_id
        waiting = self._forks[request_id] = _Waiting()
        try:
            with anyio.fail_after(timeout_s):
                await self._send({"op": "fork", "id": request_id, **request}, fds)
                await waiting.settled.wait()
        except TimeoutError:
            raise KernelStartError(f"The fork server did not answer within {timeout_s:g} s") from None
        finally:
            # A fork that is answered after its caller has gone finds nobody here, and is ended.
            del self._forks[request_id]
        if waiting.forked is None:
            raise KernelStartError(f"The fork server did not fork a kernel: {waiting.refusal}")
        return waiting.forked

    async def status_of(self, pid: int) -> int | None:
        """The exit status of a process that has ended; None where nobody can tell it any more."""
        waiting = self._ends.setdefault(pid, _Waiting())
        if not self.closed.is_set():
            await waiting.settled.wait()
        del self._ends[pid]
        return await self._adopted_status(pid) if waiting.status is None else waiting.status

    async def _adopted_status(self, pid: int) -> int | None:
        """The status of a dead fork server's kernel, which is ours to bury if this process adopts orphans."""
        with anyio.move_on_after(ADOPTION_S):
            # A fork server that is just dying has closed its channel a moment before its children become ours.
            while (status := reap(pid)) is None and os.path.exists(f"/proc/{pid}"):  # noqa: ASYNC240  # nothing tells of it
                await anyio.sleep(ADOPTION_CHECK_S)
            return status
        # A process that stalled finds its deadline over: the kernel may have become ours since the last look.
        return reap(pid)

    async def _send(self, packet: dict[str, Any], fds: Sequence[int]) -> None:
        data = msgspec.json.encode(packet)
        while not self.closed.is_set():
            try:
                socket.send_fds(self._socket, [data], list(fds))
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError:
                break
            else:
                return
        raise KernelStartError("The fork server is gone")

    def _understands(self, data: bytes, fds: list[int]) -> bool:
        """Take a packet in; False where it is none: then nothing that comes after it can be trusted."""
        try:
            self._hear(_decode(data), fds)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            log.error("fork_server_not_understood reason=%s", error)  # noqa: TRY400  # where it came from says nothing
            return False
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _hear(self, packet: _Packet, fds: list[int]) -> None:
        """Settle what a packet tells; a descriptor that is kept is taken out of ``fds``."""
        match packet:
            case _Ready():
                self.preload_failures, self.paths = packet.failures, packet.paths
                self.version, self.search = packet.version, packet.search
                self.ready.set()
            case _Warm():
                self.warm.set()
            case _ForkedOne(request_id, pid):
                if not fds:
                    raise ValueError("a fork without its descriptor")
                self._settle_fork(request_id, Forked(pid, fds.pop(0)))
            case _Refused(request_id, reason):
                waiting = self._forks.get(request_id) if request_id is not None else None
                if waiting is not None:
                    waiting.refusal = reason
                    waiting.settled.set()
            case _Exited(pid, status):
                waiting = self._ends.setdefault(pid, _Waiting())
                waiting.status = status
                waiting.settled.set()
            case _:
                assert_never(packet)

    def _settle_fork(self, request_id: int, forked: Forked) -> None:
        waiting = self._forks.get(request_id)
        if waiting is not None:
            waiting.forked = forked
            waiting.settled.set()
            return
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(forked.pidfd, signal.SIGKILL)
        os.close(forked.pidfd)
