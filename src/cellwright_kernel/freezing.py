"""Checkpoints of a live kernel: a fork that waits on a socket, from which kernels are made again and again.

The frozen process has no threads, no sockets but its own, and runs nothing. Its memory is shared with the kernel until
one of them writes. Over its socket the host asks for kernels; closing it ends it. How a kernel comes back to life on
new sockets is ``kernelapp``'s, whether it may be forked is ``forksafety``'s.

::

    host → kernel, on its line   {"ended": [4711], "at_once": true} + the new process's end of its socket
                                 {"apart": true}: a branch of it comes to be
    kernel → host                {"taken": true, "pid": 4712} or {"taken": false, "reason": "why"}
    frozen → host                {"frozen": true}, by which the system tells which process it is
    frozen → host                {"cannot_return": ["the open socket 127.0.0.1:8080"]}, when it has settled
    host → frozen                {"spawn": {…}} + stderr, ready, line, five listening sockets, namespaces to join
    frozen → host                {"joining": 4711}, where there are some, answered when it is watched
    frozen → host                {"born": 4711}, {"ready": […what did not come back]} or {"failed": "why"}
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import json
import os
import random
import resource
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from cellwright_kernel import descendants, descriptors, forksafety, landlock, mappings, nesting
from cellwright_kernel.box import BELOW

__all__ = ["Carried", "Freezer", "NewKernel", "Reborn"]

PACKET_BYTES = 1 << 16
MOST_FDS = 32
LISTENERS = 5
OWN_FDS = 3
MOST_CHILDREN = 10
COMMAND_CHARACTERS = 80
FAILED = 70
NOBODY = -1
# This box's, and that of boxes below it.
ROOTS = ("/", BELOW)
SETTLE_S = 1.0
APART = b'{"apart": true}'


@dataclass(frozen=True)
class NewKernel:
    """What a process that was frozen needs to be a kernel again; the descriptors are its own."""

    prefix: str
    key: str
    max_bytes: int
    max_messages: int
    stderr_fd: int
    ready_fd: int
    line_fd: int
    listeners: tuple[int, ...]
    """For shell, iopub, stdin, control and heartbeat; bound and listening."""


@dataclass(frozen=True)
class Carried:
    """What a fork would not have by itself, of the kernel's state when it was frozen."""

    numbers: Any
    """The state of Python's random numbers, to be set last: Python gives a fork some of its own."""
    context: contextvars.Context
    """The context variables that cells share; decimal's settings are among them."""


class Reborn(SystemExit):
    """Unwinds a copy of the kernel to the top of its program, from where it starts again.

    An exit, so that event loops and handlers let it pass.
    """

    def __init__(self, kernel: NewKernel, carried: Carried) -> None:
        super().__init__(0)
        self.kernel = kernel
        self.carried = carried


class Freezer:
    """Takes checkpoints of this kernel. Made before any code of the session's runs."""

    def __init__(self, line_fd: int, own_path: str) -> None:
        self._line = socket.socket(fileno=line_fd)
        self._line.send(b'{"kernel": true}')
        self._own_path = own_path
        self._threads = forksafety.OwnThreads.now()
        self._descriptors = descriptors.open_now()
        self._frozen: set[int] = set()
        self._ended: set[int] = set()

    def note_own(self) -> None:
        """From now on whatever is new is code's: somebody has connected, and nothing has run."""
        self._threads = forksafety.OwnThreads.now()
        self._descriptors = descriptors.open_now()

    def answer(self, why_not: str | None, context: contextvars.Context) -> None:
        """Take the checkpoint that the line asks for, unless there is a reason not to. A fork leaves by ``Reborn`` or ends.

        Called by the event loop of the thread that runs code, between two cells; ``context`` is what those share.
        """
        data, fds, _, _ = socket.recv_fds(self._line, PACKET_BYTES, MOST_FDS)
        if data == APART:
            self._set_apart()
            return
        if not data or len(fds) != 1:
            asyncio.get_running_loop().remove_reader(self._line)  # the host is gone, and this kernel will be
            return
        request = json.loads(data)
        self._ended.update(request["ended"])
        self._bury(os.WNOHANG)
        with socket.socket(fileno=fds[0]) as end:
            try:
                pid = self._freeze(end, request, why_not, context)
            except Refused as refused:
                self._line.send(json.dumps({"taken": False, "reason": str(refused)}).encode())
                return
        # No descriptor goes with it: of those on their way Linux counts all of a user's together, other sessions' too.
        self._line.send(json.dumps({"taken": True, "pid": pid}).encode())

    def _set_apart(self) -> None:
        """Lose sight of what branches of this kernel start. It would lose sight of its own children as well."""
        _lift_process_limit()
        if not self._children_in_words():
            landlock.set_apart(ROOTS)

    def _children_in_words(self) -> list[str]:
        """The processes that code has started: a copy is not their parent."""
        started = [pid for pid in descendants.children_of(os.getpid()) if pid not in self._frozen]
        told = [f"the child process {pid} ({command})" for pid in started if (command := _command_of(pid))]
        return told[:MOST_CHILDREN]

    def _freeze(
        self, end: socket.socket, request: dict[str, Any], why_not: str | None, context: contextvars.Context
    ) -> int:
        reason = why_not or forksafety.why_unsafe(self._threads)
        if reason is not None:
            raise Refused(reason)
        carried = Carried(random.getstate(), context)
        lost = [*forksafety.timers_in_words(), *self._children_in_words()]
        strange = descriptors.has_strange(self._descriptors)
        flush()
        try:
            pid = os.fork()
        except OSError as error:
            raise Refused(f"the kernel could not be forked: {error.strerror}") from error
        if pid:
            self._frozen.add(pid)
            return pid
        # Nothing but a kernel that starts anew may come out of here.
        try:
            # The kernel's own end of its line is among its descriptors, and let go of with them.
            self._line.detach()
            frozen = Frozen(end.detach(), carried, self._descriptors, self._own_path)
            frozen.stay(lost, at_once=strange or request["at_once"])
        except Exception:  # noqa: BLE001
            os._exit(FAILED)

    def bury(self, *, pids: Sequence[int]) -> dict[str, Any]:
        """Take note of the end of checkpoints that were dropped, so that nothing of them stays."""
        self._ended.update(pids)
        self._bury(0)
        return {"pids": list(pids)}

    def _bury(self, options: int) -> None:
        for pid in list(self._ended):
            try:
                gone, _ = os.waitpid(pid, options)
            except ChildProcessError:
                gone = pid
            if gone:
                self._ended.discard(pid)
                self._frozen.discard(pid)


class Refused(Exception):
    """Why there is no checkpoint."""


class Frozen:
    """The fork. Whatever happens here must not reach the session's code, nor the kernel that goes on."""

    def __init__(self, line_fd: int, carried: Carried, own: descriptors.Own, own_path: str) -> None:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._collects_garbage = gc.isenabled()
        gc.disable()
        self._carried = carried
        self._line = socket.socket(fileno=line_fd)
        self._own, self._own_path = own, own_path
        self._settled = False

    def stay(self, lost: list[str], *, at_once: bool) -> NoReturn:
        """Wait and make kernels, until the socket is closed. Raises Reborn in a kernel that was made.

        Settling takes time that the kernel could use. Unless it is wanted ``at_once``, many a checkpoint is dropped
        before.
        """
        self._tell({"frozen": True})
        if at_once or not select.select([self._line], [], [], SETTLE_S)[0]:
            self._settle(lost)
        while True:
            data, fds, _, _ = socket.recv_fds(self._line, PACKET_BYTES, MOST_FDS)
            if not data:
                os._exit(0)
            self._settle(lost)
            self._spawn(json.loads(data)["spawn"], fds)

    def _settle(self, lost: list[str]) -> None:
        """Let go of what is shared with the kernel, and tell what will not come back."""
        if self._settled:
            return
        self._settled = True
        self._maps = mappings.shared_maps()
        self._inventory = descriptors.take_inventory(self._own, self._own_path, but=(self._line.fileno(),))
        descriptors.let_go(self._own, self._inventory.blind, keep=(self._line.fileno(),))
        self._cwd = _current_directory()
        # What is mounted there may be replaced, and would stay for whoever is still in it.
        os.chdir("/")
        shared = mappings.other_maps_in_words(self._maps)
        self._tell({"cannot_return": [*self._inventory.told, *shared, *lost]})

    def _spawn(self, job: dict[str, Any], fds: list[int]) -> None:
        """Make a kernel whose parent is whoever looks after the box, not this process."""
        try:
            limits = _lift_process_limit()
            between = os.fork()
        except OSError as error:
            self._tell({"failed": f"it could not be forked ({error.strerror})"})
            between = NOBODY
        if between:
            for fd in fds:
                os.close(fd)
            if between != NOBODY and os.WIFSIGNALED(os.waitpid(between, 0)[1]):
                self._tell({"failed": "it was ended on its way"})
            return
        try:
            namespaces = fds[OWN_FDS + LISTENERS :]
            if namespaces:
                nesting.join(self._line, namespaces)
                # Neither a branch nor its origin is to meddle with the other's processes by mistake. Only once it is
                # in its own root, within which it may move files.
                landlock.set_apart(ROOTS)
            child = os.fork()
            if child:
                self._tell({"born": child})
                os._exit(0)
            self._revive(elsewhere=bool(namespaces))
            resource.setrlimit(resource.RLIMIT_NPROC, limits)
        except Exception as error:  # noqa: BLE001  # boundary: the host is told, and this process ends
            os.write(fds[0], traceback.format_exc().encode())
            self._tell({"failed": f"{type(error).__name__}: {error}"})
            os._exit(FAILED)
        raise Reborn(_new_kernel(job, fds), self._carried)

    def _revive(self, *, elsewhere: bool) -> None:
        lost = descriptors.open_anew(self._inventory.files, elsewhere=elsewhere)
        lost += mappings.map_anew(mappings.file_maps(self._maps))
        try:
            os.chdir(self._cwd)
        except OSError:
            lost.append(f"the working directory {self._cwd}")
        self._tell({"ready": lost})
        self._line.close()
        if self._collects_garbage:
            gc.enable()

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._line.send(json.dumps(message).encode())


forgotten: list[Any] = []
"""What belonged to a kernel that this process no longer is: never collected, since it shares things with others."""


def _new_kernel(job: dict[str, Any], fds: list[int]) -> NewKernel:
    stderr_fd, ready_fd, line_fd, *rest = fds
    return NewKernel(
        prefix=job["prefix"],
        key=job["key"],
        max_bytes=job["max_bytes"],
        max_messages=job["max_messages"],
        stderr_fd=stderr_fd,
        ready_fd=ready_fd,
        line_fd=line_fd,
        listeners=tuple(rest[:LISTENERS]),
    )


def _lift_process_limit() -> tuple[int, int]:
    """Where there are branches the system counts their processes too: the host counts each one's. Tells what it was."""
    limits = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (limits[1], limits[1]))
    return limits


def flush() -> None:
    """What waits in a buffer would be written twice."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]  # what is None is suppressed with the rest


def _current_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it was deleted
        return "/"


def _command_of(pid: int) -> str:
    """What a process runs; nothing where it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:COMMAND_CHARACTERS]
    except OSError:
        return ""
