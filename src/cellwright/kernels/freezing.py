"""The host's ends of a kernel's checkpoints: the line over which one is asked for, and the socket of each.

What happens at the other ends is ``cellwright_kernel.freezing``. Which checkpoints are kept is the host's to decide.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec

from cellwright.errors import CheckpointRefused, KernelStartError
from cellwright.kernels.processes import pid_of

__all__ = ["Frozen", "KernelLine", "private_bytes"]

PACKET_BYTES = 1 << 16
FREEZE_TIMEOUT_S = 60.0
_CREDENTIALS = struct.Struct("3i")
_ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4)


class KernelLine:
    """The line to a kernel itself, which it is given before it runs. Says who it is, and hands over sockets."""

    def __init__(self) -> None:
        self._mine, self._theirs = _pair()
        self.pid: int | None = None
        """The kernel's own process, as this one sees it; known once it has met."""

    @property
    def fd(self) -> int:
        return self._theirs.fileno()

    def handed_over(self) -> None:
        self._theirs.close()

    def close(self) -> None:
        self._theirs.close()
        self._mine.close()

    async def meet(self) -> None:
        """Wait for the kernel's first word, which tells its number."""
        try:
            self.pid = (await _receive(self._mine)).sender
        except KernelStartError:
            # Its end is noticed and explained by whoever watches the process.
            await anyio.sleep_forever()

    def set_apart(self) -> None:
        """Let the kernel lose sight of a branch of it that comes to be."""
        with contextlib.suppress(OSError):
            self._mine.send(b'{"apart": true}')

    async def freeze(self, ended: Sequence[int], *, at_once: bool) -> Frozen:
        """A checkpoint of the kernel, which must be idle. One at a time.

        ``ended`` are checkpoints of it that were dropped, of which it has yet to take note. ``at_once``: it is to tell
        what cannot come back without delay.

        Raises:
            CheckpointRefused: it cannot be forked now, with the reason.
            TimeoutError: it does not answer.
        """
        mine, theirs = _pair()
        frozen = Frozen(mine)
        try:
            with theirs:
                request = msgspec.json.encode({"ended": list(ended), "at_once": at_once})
                socket.send_fds(self._mine, [request], [theirs.fileno()])
            with anyio.fail_after(FREEZE_TIMEOUT_S):
                told = await _receive(self._mine)
        except OSError as error:
            frozen.close()
            raise CheckpointRefused(f"the kernel cannot be asked: {error.strerror}") from error
        except BaseException:
            frozen.close()
            raise
        if not told.content.get("taken") or not told.fds:
            frozen.close()
            raise CheckpointRefused(str(told.content.get("reason", "the kernel does not say why")))
        frozen.begin(told.fds[0], number=int(told.content["pid"]))
        return frozen


class Frozen:
    """A frozen process, from the moment that it is asked for. Closing it ends it."""

    def __init__(self, mine: socket.socket) -> None:
        self._socket = mine
        self._asking = anyio.Lock()
        self._listening = anyio.CancelScope()
        self._pidfd = -1
        self.pid = 0
        self.number = 0
        """Its process as the kernel that it was forked from has it, whose child it is."""
        self.parent: Any = None
        self.cannot_return: tuple[str, ...] | None = None
        """What will not come back, in words; None while it has not been told."""

    def begin(self, pidfd: int, *, number: int) -> None:
        """It is there now."""
        self._pidfd, self.number, self.pid = pidfd, number, pid_of(pidfd)

    async def describe(self) -> tuple[str, ...]:
        """What will not come back with it, once it knows.

        Raises:
            KernelStartError: it ended instead.
        """
        with self._listening:
            async with self._asking:
                while self.cannot_return is None:
                    self._hear((await _receive(self._socket)).content)
        return self.cannot_return or ()

    def _hear(self, told: dict[str, Any]) -> None:
        if "cannot_return" in told:
            self.cannot_return = tuple(map(str, told["cannot_return"]))

    async def spawn(self, job: dict[str, Any], fds: Sequence[int]) -> tuple[int, int, tuple[str, ...]]:
        """A new kernel's process: its number as its own keeper sees it, its number here, and what did not come back.

        Raises:
            KernelStartError: it could not be made.
        """
        # Whoever waits for its description need not any more: it comes with this.
        self._listening.cancel()
        async with self._asking:
            try:
                socket.send_fds(self._socket, [msgspec.json.encode({"spawn": job})], list(fds))
            except OSError as error:
                raise KernelStartError(f"The checkpoint is gone: {error.strerror}") from error
            born = sender = 0
            lost: tuple[str, ...] | None = None
            # Two processes speak here, and the second may be first.
            while lost is None or not born:
                told = await _receive(self._socket)
                self._hear(told.content)
                if "failed" in told.content:
                    raise KernelStartError(f"The checkpoint could not come back: {told.content['failed']}")
                born = int(told.content.get("born", born))
                if "ready" in told.content:
                    sender, lost = told.sender, tuple(map(str, told.content["ready"]))
        return born, sender, lost

    def private_bytes(self) -> int:
        """The memory that would be free without it."""
        return private_bytes(self.pid) if self.pid else 0

    def close(self) -> None:
        """End it."""
        self._listening.cancel()
        self._socket.close()
        if self._pidfd >= 0:
            # It ends by itself when its socket closes; should code have meddled with it, it ends all the same.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = -1


def private_bytes(pid: int) -> int:
    """The pages that only this process has; 0 where it is gone."""
    found = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith((b"Private_Clean:", b"Private_Dirty:")):
                found += int(line.split()[1]) * 1024
    return found


def _pair() -> tuple[socket.socket, socket.socket]:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.setblocking(False)  # noqa: FBT003  # the standard library takes no name
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return mine, theirs


@dataclass(frozen=True, slots=True)
class _Told:
    content: dict[str, Any]
    sender: int
    """The process that said it, as the system tells it."""
    fds: tuple[int, ...]


async def _receive(end: socket.socket) -> _Told:
    """The next word that can be understood."""
    while True:
        await anyio.wait_readable(end)
        try:
            data, ancillary, _, _ = end.recvmsg(PACKET_BYTES, _ANCILLARY)
        except BlockingIOError:
            continue
        except OSError as error:
            raise KernelStartError(f"The kernel's checkpoint cannot be heard: {error.strerror}") from error
        if not data:
            raise KernelStartError("The kernel's checkpoint has ended")
        sender, fds = 0, array("i")
        for _, kind, content in ancillary:
            if kind == socket.SCM_CREDENTIALS:
                sender = _CREDENTIALS.unpack(content)[0]
            elif kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        with contextlib.suppress(msgspec.DecodeError):
            told = msgspec.json.decode(data)
            if isinstance(told, dict):
                return _Told(told, sender, tuple(fds))
        for fd in fds:
            os.close(fd)
