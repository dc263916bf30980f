"""The host's ends of a kernel's checkpoints: the line over which one is asked for, and the socket of each.

What happens at the other ends is ``cellwright_kernel.freezing``. Which checkpoints are kept is the host's to decide.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from cellwright.errors import CheckpointRefused, KernelStartError

__all__ = ["Frozen", "KernelLine", "private_bytes"]

PACKET_BYTES = 1 << 16
FREEZE_TIMEOUT_S = 30.0
_CREDENTIALS = struct.Struct("3i")
_ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size)


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
            _, self.pid = await _receive(self._mine)
        except KernelStartError:
            # Its end is noticed and explained by whoever watches the process.
            await anyio.sleep_forever()

    def set_apart(self) -> None:
        """Let the kernel lose sight of a branch of it that comes to be."""
        with contextlib.suppress(OSError):
            self._mine.send(b'{"apart": true}')

    async def freeze(self, checkpoint_id: str, ended: Sequence[int]) -> Frozen:
        """A checkpoint of the kernel, which must be idle. One at a time.

        ``ended`` are checkpoints of it that were dropped, of which it has yet to take note.

        Raises:
            CheckpointRefused: it cannot be forked now, with the reason.
            TimeoutError: it does not answer.
        """
        mine, theirs = _pair()
        frozen = Frozen(mine)
        try:
            with theirs:
                request = msgspec.json.encode({"id": checkpoint_id, "ended": list(ended)})
                socket.send_fds(self._mine, [request], [theirs.fileno()])
            with anyio.fail_after(FREEZE_TIMEOUT_S):
                reply, _ = await _receive(self._mine)
                if reply.get("taken"):
                    await frozen.meet()
        except OSError as error:
            frozen.close()
            raise CheckpointRefused(f"the kernel cannot be asked: {error.strerror}") from error
        except BaseException:
            frozen.close()
            raise
        if not reply.get("taken"):
            frozen.close()
            raise CheckpointRefused(str(reply.get("reason", "the kernel does not say why")))
        frozen.number = int(reply["pid"])
        return frozen


class Frozen:
    """A frozen process, from the moment that it is asked for. Closing it ends it."""

    def __init__(self, mine: socket.socket) -> None:
        self._socket = mine
        self._asking = anyio.Lock()
        self._pidfd = -1
        self.pid = 0
        self.number = 0
        """Its process as the kernel that it was forked from has it, whose child it is."""
        self.parent: Any = None
        self.cannot_return: tuple[str, ...] = ()

    async def meet(self) -> None:
        """Wait until it has frozen.

        Raises:
            KernelStartError: it ended instead.
        """
        told, self.pid = await _receive(self._socket)
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(self.pid)
        self.cannot_return = tuple(map(str, told.get("cannot_return", ())))

    async def spawn(self, job: dict[str, Any], fds: Sequence[int]) -> tuple[int, int, tuple[str, ...]]:
        """A new kernel's process: its number as its own keeper sees it, its number here, and what did not come back.

        Raises:
            KernelStartError: it could not be made.
        """
        async with self._asking:
            try:
                socket.send_fds(self._socket, [msgspec.json.encode({"spawn": job})], list(fds))
            except OSError as error:
                raise KernelStartError(f"The checkpoint is gone: {error.strerror}") from error
            born = 0
            while True:
                told, sender = await _receive(self._socket)
                if "failed" in told:
                    raise KernelStartError(f"The checkpoint could not come back: {told['failed']}")
                born = int(told.get("born", born))
                if "ready" in told:
                    lost = tuple(map(str, told["ready"]))
                    break
            # Two processes speak here, and the second may be first.
            while not born:
                told, _ = await _receive(self._socket)
                born = int(told.get("born", born))
        return born, sender, lost

    def private_bytes(self) -> int:
        """The memory that would be free without it."""
        return private_bytes(self.pid) if self.pid else 0

    def close(self) -> None:
        """End it."""
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


async def _receive(end: socket.socket) -> tuple[dict[str, Any], int]:
    """The next word, and the number of the process that said it, as the system tells it."""
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
        sender = next(
            (
                _CREDENTIALS.unpack(content)[0]
                for _, kind, content in ancillary
                if kind == socket.SCM_CREDENTIALS
            ),
            0,
        )
        try:
            told = msgspec.json.decode(data)
        except msgspec.DecodeError:
            continue
        if isinstance(told, dict):
            return told, sender
