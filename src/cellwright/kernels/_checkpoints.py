"""The host's ends of a kernel's checkpoints: the line over which one is asked for, and the socket of each.

What happens at the other ends is ``cellwright_kernel._checkpoints``. Which checkpoints are kept is the host's to decide.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec

from cellwright.errors import CheckpointRefused, KernelStartError

__all__ = ["Frozen", "KernelChannel", "private_bytes"]

PACKET_BYTES = 1 << 16
FREEZE_TIMEOUT_S = 60.0
# Where memory runs out, the system ends kernels and what they started before their checkpoints and the host, which count
# as if they had this many thousandths of it less. More, and it would end idle kernels before who took the memory.
_KERNEL_OOM_MORE = 100
_MOST_OOM_SCORE = 1000
_CREDENTIALS = struct.Struct("3i")
# No room for descriptors: a kernel has none to give, and what it sends anyway the system closes.
_ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size)


class KernelChannel:
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
            _set_oom_score(self.pid, _KERNEL_OOM_MORE)
        except KernelStartError:
            # Its end is noticed and explained by whoever watches the process.
            await anyio.sleep_forever()

    def set_apart(self) -> None:
        """Let the kernel lose sight of a branch of it that comes to be."""
        with contextlib.suppress(OSError):
            self._mine.send(b'{"apart": true}')

    async def freeze(
        self, ended: Sequence[int], processes: Callable[[], list[int]], *, at_once: bool
    ) -> Frozen:
        """A checkpoint of the kernel, which must be idle. One at a time.

        ``ended`` are checkpoints of it that were dropped, of which it has yet to take note; ``processes`` lists those
        of its sandbox. ``at_once``: it is to tell what cannot come back without delay.

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
                if told.words.taken:
                    await frozen.meet(told.words.pid, processes)
        except BaseException as error:
            frozen.close()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise CheckpointRefused(f"the kernel cannot be asked: {error.strerror}") from error
            raise
        if not told.words.taken:
            frozen.close()
            raise CheckpointRefused(told.words.reason)
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

    async def meet(self, number: int, processes: Callable[[], list[int]]) -> None:
        """Wait for its first word, by which the system tells which process it is; one of the checkpoint group's.

        Raises:
            KernelStartError: it ended instead.
        """
        self.number, self.pid = number, (await _receive(self._socket)).sender
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(self.pid)
            # Should it have ended, its number may be that of somebody who must not be ended with it.
            if self.pid in processes():
                self._pidfd = pidfd
                _set_oom_score(self.pid, 0)
                return
            os.close(pidfd)
        raise KernelStartError("The kernel's checkpoint has ended")

    async def describe(self) -> tuple[str, ...]:
        """What will not come back with it, once it knows.

        Raises:
            KernelStartError: it ended instead.
        """
        with self._listening:
            async with self._asking:
                while self.cannot_return is None:
                    self._hear((await _receive(self._socket)).words)
        return self.cannot_return or ()

    def _hear(self, words: _Report) -> None:
        if words.cannot_return is not None:
            self.cannot_return = words.cannot_return

    async def spawn(
        self, job: dict[str, Any], fds: Sequence[int], admit: Callable[[int], Awaitable[None]] | None = None
    ) -> tuple[int, int, tuple[str, ...]]:
        """A new kernel's process: its number as its own keeper sees it, its number here, and what did not come back.

        ``admit`` lets a process with that number into the sandbox whose namespaces are among the descriptors.

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
            try:
                with anyio.fail_after(FREEZE_TIMEOUT_S):
                    return await self._follow(admit)
            except TimeoutError:
                raise KernelStartError(
                    f"The checkpoint did not come back within {FREEZE_TIMEOUT_S:g} s",
                    hint="Go back to another checkpoint, or restart the kernel",
                ) from None

    async def _follow(
        self, admit: Callable[[int], Awaitable[None]] | None
    ) -> tuple[int, int, tuple[str, ...]]:
        """Hear of a new kernel's process until it is there."""
        born = sender = 0
        lost: tuple[str, ...] | None = None
        # Two processes speak here, and the second may be first.
        while lost is None or not born:
            told = await _receive(self._socket)
            self._hear(told.words)
            if told.words.failed is not None:
                raise KernelStartError(f"The checkpoint could not come back: {told.words.failed}")
            if told.words.joining and admit is not None:
                await admit(told.words.joining)
                with contextlib.suppress(OSError):  # that it has ended is heard next
                    self._socket.send(b"{}")
            born = told.words.born or born
            if told.words.ready is not None:
                sender, lost = told.sender, told.words.ready
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


def _set_oom_score(pid: int, more: int) -> None:
    """Say how much sooner than this process another is ended where memory runs out; sooner is never refused, later is."""
    with contextlib.suppress(OSError):  # it has ended, or the system keeps that to itself
        own = int(Path("/proc/self/oom_score_adj").read_text())
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(min(own + more, _MOST_OOM_SCORE)))


def _pair() -> tuple[socket.socket, socket.socket]:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.setblocking(False)
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return mine, theirs


_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _Report(msgspec.Struct):
    """All that a kernel or a checkpoint may say. Code can say it too, so nothing else is let in."""

    taken: bool = False
    pid: _Number = 0
    reason: str = "the kernel does not say why"
    cannot_return: tuple[str, ...] | None = None
    joining: _Number = 0
    born: _Number = 0
    ready: tuple[str, ...] | None = None
    failed: str | None = None


_decode = msgspec.json.Decoder(_Report).decode


@dataclass(frozen=True, slots=True)
class _Received:
    words: _Report
    sender: int
    """The process that said it, as the system tells it."""


async def _receive(end: socket.socket) -> _Received:
    """The next words that can be understood."""
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
            (_CREDENTIALS.unpack(told)[0] for _, kind, told in ancillary if kind == socket.SCM_CREDENTIALS), 0
        )
        with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
            return _Received(_decode(data), sender)
