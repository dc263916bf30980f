"""The line from the host to the process that stays beside a kernel: its monitor, or its supervisor.

Over it the host says what a session sees, and whether the sandbox outlives its kernel; what the session writes in memory
is held here. What is said at the other end is ``cellwright_kernel._reaper``; what is allowed is ``cellwright.sandbox``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import anyio
import msgspec

from cellwright.errors import KernelGone, KernelStartError
from cellwright.kernels.processes import pid_of
from cellwright.sandbox.policy import SOCKETS
from cellwright.sandbox.quotas import MemoryLayer

__all__ = ["MonitorChannel", "NestedSandbox"]

PACKET_BYTES = 1 << 16
MAX_FDS = 16
# One ask is under way at a time, and is answered with two packets at most.
WAITING_PACKETS = 4
_GONE = "its monitor is gone"

log = logging.getLogger(__name__)


class _Report(msgspec.Struct):
    """All that the other end may say."""

    ok: bool = False
    error: str = "its monitor does not say why"
    offer: bool = False
    ended: tuple[int, int] | None = None


_decode = msgspec.json.Decoder(_Report).decode


@dataclass(frozen=True, slots=True)
class _Packet:
    """What the other end said, with the descriptors that came along."""

    words: _Report
    fds: list[int] = field(default_factory=list)

    def taken(self) -> int:
        """The first descriptor, which is the caller's from now on."""
        return self.fds.pop(0)

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


@dataclass(frozen=True, slots=True)
class NestedSandbox:
    """A sandbox below another. It is held from the beginning; its line is the caller's to run and to close."""

    line: MonitorChannel
    pid: int
    """Of its monitor, as this process sees it."""
    pidfd: int
    """The caller's to close."""
    namespaces: tuple[int, ...]
    """What ``cellwright_kernel._nested_sandboxes.join`` takes, in its order; the caller's to close."""


class MonitorChannel:
    """Tells a kernel's monitor what its session may see, and holds what it writes. Closed with the kernel."""

    def __init__(self, saved: Path | None = None) -> None:
        self.layer: MemoryLayer | None = None
        """What the session writes, where that is in memory."""
        self.on_end: Callable[[int, int], None] = lambda _pid, _code: None
        """Called for each process that ended in a sandbox that is held: its number as seen in there, and its exit code."""
        self.diagnostics = -1
        """A socket that tells what the sockets of the sandbox hold, where its monitor has lent one."""
        self._saved = saved
        self._unsaved = ""
        self.changes = 0
        """How often files of the session were saved or brought in because they had changed."""
        self._overlaid = False
        self._saving = anyio.Lock()
        self._mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mine.setblocking(False)
        self._theirs: socket.socket | None = theirs
        self._asking = anyio.Lock()
        self._unheard = 0
        """Answers that will still come to asks whose askers gave up."""
        self._heard, self._answers = anyio.create_memory_object_stream[_Packet](WAITING_PACKETS)

    @property
    def fd(self) -> int:
        """The monitor's end, to be let go of with ``handed_over``."""
        if self._theirs is None:
            raise ValueError("the monitor's end was handed over")
        return self._theirs.fileno()

    def handed_over(self) -> None:
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    def abandon(self) -> None:
        """Let go of a line that nobody has taken up."""
        self.handed_over()
        self._mine.close()
        self._heard.close()
        if self.diagnostics >= 0:
            os.close(self.diagnostics)
            self.diagnostics = -1
        with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                self._answers.receive_nowait().close()
        self._answers.close()

    def save_in(self, saved: Path | None) -> None:
        """What the session writes is to be saved in this directory, which was not known before."""
        self._saved = saved

    async def run(self) -> None:
        """Listen until the other end is gone; by whoever owns the kernel. Cancelled, it can be run again."""
        while (packet := await self._receive()) is not None:
            if packet.words.ended is None:
                try:
                    await self._heard.send(packet)
                except BaseException as error:
                    packet.close()
                    if isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError):
                        return  # it was closed meanwhile
                    raise
            else:
                packet.close()
                self.on_end(*packet.words.ended)
        self._heard.close()

    async def hold(self) -> None:
        """Let the sandbox outlive its kernel; from here on every end in it is told to ``on_end``.

        Raises:
            KernelGone: the kernel has ended before, and its sandbox with it.
        """
        reply = (await self._ask({"hold": True})).words
        if not reply.ok:
            raise KernelGone(f"The kernel's sandbox cannot be held: {reply.error}")

    async def grow(
        self,
        mounts: list[dict[str, Any]],
        *,
        saved: Path | None,
        lifeline_fd: int,
        proxy_socket: Path | None = None,
    ) -> NestedSandbox:
        """Make a sandbox below this one: its own processes, network, temporary files and, by ``mounts``, working directory.

        ``saved`` is the directory on disk of what is written there; ``proxy_socket`` the socket of its own proxy, where the
        network is open. The new sandbox ends with this one, and with whoever holds the other end of the lifeline.

        Raises:
            KernelStartError: there are no namespaces here, the place cannot be had below, or it does not fit.
        """
        _refuse_ungrowable(mounts)
        nested = MonitorChannel(saved)
        nested._overlaid = _has_overlay(mounts)
        request = {"grow": mounts, "door": str(proxy_socket) if proxy_socket is not None else None}
        made = await self._ask(request, [nested.fd, lifeline_fd], wants_fd=True)
        nested.handed_over()
        error = made.words.error
        try:
            if made.words.ok:
                answer = await nested._first_answer()
                if answer.words.ok:
                    pid = pid_of(made.fds[0])
                    return NestedSandbox(nested, pid, made.taken(), tuple(answer.fds))
                error = answer.words.error
        except (OSError, ValueError) as failure:
            answer.close()
            error = str(failure)
        except BaseException:
            await nested._forget(made)
            raise
        await nested._forget(made)
        raise KernelStartError(f"No sandbox could be made below the kernel's: {error}")

    async def admit(self, number: int) -> None:
        """Let a process of the sandbox above, which has this number there, come into this one; it is watched on its way.

        Raises:
            KernelStartError: it cannot be watched.
        """
        admitted = await self._ask({"admit": number})
        if not admitted.words.ok:
            raise KernelStartError(f"The branch cannot enter its sandbox: {admitted.words.error}")

    async def borrow_diagnostics(self) -> None:
        """Have the monitor lend a socket that tells what the sandbox's sockets hold; it has none where there is no sandbox."""
        if self.diagnostics >= 0:
            return
        lent = await self._ask({"sockets": True}, wants_fd=True)
        if lent.words.ok:
            self.diagnostics = lent.taken()
        lent.close()

    async def share(self, path: str) -> int:
        """A descriptor of what the session sees at a path, for another sandbox to mount; the caller's to close.

        Raises:
            KernelStartError: there are no namespaces here, or nothing is mounted there.
        """
        shared = await self._ask({"share": path}, wants_fd=True)
        if not shared.words.ok:
            raise KernelStartError(f"The session's workspace cannot be shared: {shared.words.error}")
        found = shared.taken()
        shared.close()
        return found

    def end(self) -> None:
        """End everything in the sandbox; safe to call when it has ended."""
        with contextlib.suppress(OSError):
            self._mine.send(msgspec.json.encode({"end": True}))

    async def close(self) -> None:
        """Save what the session wrote last, and let go of everything."""
        self.abandon()
        with anyio.CancelScope(shield=True):
            await self.save()
            self._unsaved = self._unsaved and f"{self._unsaved}: they are lost"
            async with self._saving:
                if self.layer is not None:
                    self.layer.close()
                    self.layer = None

    @property
    def unsaved(self) -> str:
        """Which files the disk did not take when they were last saved, and what to do; empty where it took all."""
        if not self._unsaved or self.layer is None:
            return self._unsaved
        if self.is_saved:  # code deleted them meanwhile
            return ""
        return (
            f"{self._unsaved}: they are lost when the kernel ends. Free space, then run any cell to save them"
        )

    @property
    def is_saved(self) -> bool:
        """Whether there is surely nothing to save."""
        return self.layer is None or (not self._saving.locked() and self.layer.is_saved())

    @property
    def is_shown(self) -> bool:
        """Whether there is surely nothing to bring in."""
        return self.layer is None or (not self._saving.locked() and self.layer.is_shown())

    async def save(self) -> None:
        """Save what the session wrote, as far as it is in memory."""
        async with self._saving:
            if self.layer is not None:
                self._unsaved = await anyio.to_thread.run_sync(_save, self.layer)
                self.changes += 1

    async def bring_in(self) -> None:
        """Show the session what others put into its folder."""
        async with self._saving:
            if self.layer is not None:
                await anyio.to_thread.run_sync(_bring_in, self.layer)
                self.changes += 1

    async def settle(
        self, mounts: list[dict[str, Any]], saved: Path | None = None, *, again: bool = False
    ) -> None:
        """Put what a session sees into its sandbox, and take the sockets out of its sight.

        ``saved`` is the directory on disk of what it writes. ``again``: in place of what was put there before.

        Raises:
            KernelStartError: it could not be mounted, or what was saved does not fit.
        """
        self._saved = saved or self._saved
        self._overlaid = _has_overlay(mounts)
        if again and self.layer is not None:
            async with self._saving:
                self.layer.close()
                self.layer = None
        request = {
            "mounts": mounts,
            "drop": [] if again else [SOCKETS],
            "first": _uppermost(mounts) if again else [],
        }
        reply = (await self._ask(request)).words
        if not reply.ok:
            raise KernelStartError(
                f"The working directory could not be shown to the kernel: {reply.error}",
                hint="Run `cellwright doctor` to see what this machine allows",
            )

    async def furnish(self, plan: dict[str, Any]) -> None:
        """Fill the directory of a process that is started with its place, and offers it before it runs.

        Raises:
            KernelStartError: what was saved does not fit.
        """
        mounts = plan.get("mounts", ())
        self._overlaid = _has_overlay(mounts)
        if any(mount.get("offered") or mount.get("memory") for mount in mounts):
            async with self._asking:
                (await self._next()).close()

    async def _first_answer(self) -> _Packet:
        """What a new monitor says of itself."""
        async with self._asking, anyio.create_task_group() as tasks:
            tasks.start_soon(self.run)
            try:
                while (answer := await self._next()).words.offer:
                    pass
            except (KernelStartError, OSError) as error:  # what was saved does not fit, most likely
                answer = _refused(str(error))
            tasks.cancel_scope.cancel()
        return answer

    async def _forget(self, made: _Packet) -> None:
        """End a sandbox that did not come to be."""
        self.end()
        made.close()
        await self.close()

    async def _ask(
        self, request: dict[str, Any], fds: Sequence[int] = (), *, wants_fd: bool = False
    ) -> _Packet:
        """What the other end answers; a directory that it offers first is filled.

        A good answer has a descriptor where that is wanted, and none elsewhere.
        """
        async with self._asking:
            while self._unheard:
                (await self._next_packet()).close()
                self._unheard -= 1
            try:
                socket.send_fds(self._mine, [msgspec.json.encode(request)], fds)
            except OSError:
                return _refused(_GONE)
            self._unheard += 1
            while (reply := await self._next()).words.offer:
                pass
            self._unheard -= 1
        if wants_fd and reply.words.ok and not reply.fds:
            return _refused("its monitor handed nothing over")
        if not wants_fd or not reply.words.ok:
            reply.close()
        return reply

    async def _next(self) -> _Packet:
        """The next packet; a directory that it offers is filled."""
        packet = await self._next_packet()
        if not packet.words.offer:
            return packet
        if packet.fds and self._saved is not None:
            self.layer = MemoryLayer(packet.taken(), self._saved, shared=not self._overlaid)
            await anyio.to_thread.run_sync(self.layer.fill)
            self._mine.send(b"filled")
        packet.close()
        return packet

    async def _next_packet(self) -> _Packet:
        try:
            return await self._answers.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return _refused(_GONE)

    async def _receive(self) -> _Packet | None:
        """What is said next; None where that is nothing any more, or nothing that can be understood."""
        try:
            await anyio.wait_readable(self._mine)
            # It may have been closed in the moment when something arrived.
            if self._mine.fileno() < 0:
                return None
            data, fds, _, _ = socket.recv_fds(self._mine, PACKET_BYTES, MAX_FDS)
        except (ConnectionError, anyio.ClosedResourceError):
            return None
        if not data:
            return None
        try:
            return _Packet(_decode(data), fds)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            log.error("monitor_not_understood reason=%s", error)  # noqa: TRY400  # where it came from says nothing
            _Packet(_Report(), fds).close()
            return None


def _uppermost(mounts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The mount that all others are below."""
    return [str(mounts[0]["at"])] if mounts else []


def _refuse_ungrowable(mounts: Sequence[Mapping[str, Any]]) -> None:
    """Raise where a place lies directly below the root, in which no sandbox below may have anything of its own."""
    for mount in mounts:
        if PurePath(mount["at"]).parent == PurePath("/"):
            raise KernelStartError(
                f"No sandbox can be made below one that works in {mount['at']}, directly below the root",
                hint="Put the notebook into a folder below another one",
            )


def _refused(error: str) -> _Packet:
    return _Packet(_Report(error=error))


def _has_overlay(mounts: Sequence[Mapping[str, Any]]) -> bool:
    return any(mount["kind"] == "overlay" for mount in mounts)


def _bring_in(layer: MemoryLayer) -> None:
    try:
        layer.bring_in()
    except OSError as error:
        log.warning("files_not_brought_in", extra={"reason": str(error)})


def _save(layer: MemoryLayer) -> str:
    """Save, and tell in words what the disk did not take: that stays in memory, and is tried again after the next cell."""
    try:
        done = layer.save()
    except OSError as error:
        log.warning("files_not_saved", extra={"reason": str(error)})
        return f"Files could not be saved to {layer.saved} ({error.strerror or error})"
    if done.left_out:
        log.warning("files_not_saved", extra={"count": done.left_out})
    if not done.no_place:
        return ""
    count, why = len(done.no_place), "; ".join(sorted(set(done.no_place.values())))
    return f"{count} {'file' if count == 1 else 'files'} could not be saved to {layer.saved} ({why})"
