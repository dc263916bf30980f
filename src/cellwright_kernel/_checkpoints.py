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
import fcntl
import gc
import json
import os
import random
import resource
import select
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from cellwright_kernel import _forksafety, _nested_sandboxes, descendants, landlock
from cellwright_kernel._sandbox_root import BELOW

__all__ = ["Freezer", "NewKernel", "Reborn"]
PACKET_BYTES = 1 << 16

MOST_FDS = 32

LISTENERS = 5

OWN_FDS = 3

MOST_CHILDREN = 10

COMMAND_CHARACTERS = 80

FAILED = 70

NOBODY = -1

# This sandbox's, and that of sandboxes below it.
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
        self._threads = _forksafety.OwnThreads.now()
        self._descriptors = open_now()
        self._frozen: set[int] = set()
        self._ended: set[int] = set()

    def note_own(self) -> None:
        """From now on whatever is new is code's: somebody has connected, and nothing has run."""
        self._threads = _forksafety.OwnThreads.now()
        self._descriptors = open_now()

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
        reason = why_not or _forksafety.why_unsafe(self._threads)
        if reason is not None:
            raise Refused(reason)
        carried = Carried(random.getstate(), context)
        lost = [*_forksafety.timers_in_words(), *self._children_in_words()]
        strange = has_strange(self._descriptors)
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

    def __init__(self, line_fd: int, carried: Carried, own: Own, own_path: str) -> None:
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
        self._maps = _forksafety.shared_maps()
        self._inventory = take_inventory(self._own, self._own_path, but=(self._line.fileno(),))
        let_go(self._own, self._inventory.blind, keep=(self._line.fileno(),))
        self._cwd = _current_directory()
        # What is mounted there may be replaced, and would stay for whoever is still in it.
        os.chdir("/")
        shared = _forksafety.other_maps_in_words(self._maps)
        self._tell({"cannot_return": [*self._inventory.told, *shared, *lost]})

    def _spawn(self, job: dict[str, Any], fds: list[int]) -> None:
        """Make a kernel whose parent is whoever looks after the sandbox, not this process."""
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
                _nested_sandboxes.join(self._line, namespaces)
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
        lost = open_anew(self._inventory.files, elsewhere=elsewhere)
        lost += _forksafety.map_anew(_forksafety.file_maps(self._maps))
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
        return os.getcwd()
    except OSError:  # it was deleted
        return "/"


def _command_of(pid: int) -> str:
    """What a process runs; nothing where it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:COMMAND_CHARACTERS]
    except OSError:
        return ""


# What a forked kernel does with the descriptors it was born with: keeps files, lets go of everything shared.

Own = dict[int, tuple[int, int]]
"""Descriptors, each with what it leads to: a number may be given to something else later."""

STANDARD = 3

# Flags that would change the file, not the way of using it.
CHANGING = os.O_CREAT | os.O_EXCL | os.O_TRUNC

DELETED = " (deleted)"

ANONYMOUS = "anon_inode:"

# Event counters are missing here: whatever talks to the kernel's own sockets has some.
NAMED_KINDS = {
    f"{ANONYMOUS}[eventpoll]": "an open selector (epoll)",
    f"{ANONYMOUS}[io_uring]": "an open queue of the system's (io_uring)",
    f"{ANONYMOUS}[pidfd]": "an open handle of a process",
    f"{ANONYMOUS}[signalfd]": "an open queue of signals",
    f"{ANONYMOUS}[timerfd]": "an open timer",
    f"{ANONYMOUS}inotify": "an open watch on files (inotify)",
}

DATABASE = b"SQLite format 3\0"


@dataclass(frozen=True)
class OpenFile:
    """A plain file that was open, and how far it was read or written."""

    fd: int
    path: str
    flags: int
    position: int
    identity: tuple[int, int]
    is_database: bool
    """SQLite's, which refuses to write once there is another file under the name."""


@dataclass(frozen=True)
class Inventory:
    """What a process has open: files to open anew, numbers that must lead nowhere, and in words what cannot return."""

    files: tuple[OpenFile, ...]
    blind: tuple[int, ...]
    told: tuple[str, ...]


def open_now() -> Own:
    """All descriptors of this process beyond the standard ones."""
    found: Own = {}
    for name in os.listdir("/proc/self/fd"):  # names only
        with contextlib.suppress(OSError):  # the one that listed them is closed by now
            if (fd := int(name)) >= STANDARD:
                found[fd] = _identity(fd)
    return found


def has_strange(own: Own) -> bool:
    """Whether anything is open that is not the kernel's own; quick."""
    # The one that lists them is among them.
    return len(os.listdir("/proc/self/fd")) - 1 > len(own) + STANDARD


def take_inventory(own: Own, own_path: str, but: Collection[int]) -> Inventory:
    """Look at everything open except ``own`` and ``but``; sockets at ``own_path`` are the kernel's, too."""
    files: list[OpenFile] = []
    blind: list[int] = []
    told: list[str] = []
    for fd, identity in sorted(open_now().items()):
        if own.get(fd) == identity or fd in but:
            continue
        with contextlib.suppress(OSError):
            mode = os.fstat(fd).st_mode
            path = os.readlink(f"/proc/self/fd/{fd}")
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                files.append(_open_file(fd, path))
                if _is_locked(fd):
                    # A fork that kept it would keep the lock, and nobody could take it again.
                    blind.append(fd)
                    told.append(f"the lock on the file {path}")
            elif stat.S_ISSOCK(mode):
                blind.append(fd)
                told += _socket(fd, own_path)
            elif stat.S_ISFIFO(mode):
                told.append("an open pipe" if path.startswith("pipe:") else f"the open pipe {path}")
            elif path.startswith(ANONYMOUS):
                blind.append(fd)
                told += [NAMED_KINDS[path]] if path in NAMED_KINDS else []
    return Inventory(tuple(files), tuple(blind), tuple(dict.fromkeys(told)))


def let_go(own: Own, blind: Collection[int], keep: Collection[int]) -> None:
    """Close what is the kernel's own, and let what is code's lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in blind:
        if fd not in keep:
            os.dup2(nowhere, fd, inheritable=False)
    os.close(nowhere)
    for fd, identity in own.items():
        with contextlib.suppress(OSError):
            if fd not in keep and _identity(fd) == identity:
                os.close(fd)


def open_anew(files: Collection[OpenFile], *, elsewhere: bool) -> list[str]:
    """Open files again, each with its number and position; tells those that could not be.

    ``elsewhere``: this process sees other directories now, and a file that is not there must not be shared.
    """
    failed: list[str] = []
    for file in files:
        try:
            fresh = os.open(file.path, file.flags | os.O_CLOEXEC)
        except OSError:
            failed.append(f"the open file {file.path.removesuffix(DELETED)}")
            if elsewhere:
                fresh = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            else:
                with contextlib.suppress(OSError):
                    os.lseek(file.fd, file.position, os.SEEK_SET)
                continue
        if file.is_database and _identity(fresh) != file.identity:
            failed.append(f"the connection to the SQLite database {file.path}, which may only be read now")
        inheritable = os.get_inheritable(file.fd)
        with contextlib.suppress(OSError):
            os.lseek(fresh, file.position, os.SEEK_SET)
        os.dup2(fresh, file.fd, inheritable=inheritable)
        os.close(fresh)
    return failed


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _open_file(fd: int, path: str) -> OpenFile:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL) & ~CHANGING
    is_database = False
    with contextlib.suppress(OSError):  # it is not open for reading, or a directory
        is_database = os.pread(fd, len(DATABASE), 0) == DATABASE
    return OpenFile(fd, path, flags, os.lseek(fd, 0, os.SEEK_CUR), _identity(fd), is_database)


def _is_locked(fd: int) -> bool:
    with open(f"/proc/self/fdinfo/{fd}", encoding="utf-8") as file:
        return any(line.startswith("lock:") for line in file)


def _socket(fd: int, own_path: str) -> list[str]:
    """A socket in words; nothing for those of the kernel's own."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as found:
        names = []
        for name in (found.getsockname, found.getpeername):
            with contextlib.suppress(OSError):
                names.append(name())
        if any(str(name).startswith(own_path) for name in names):
            return []
        shown = [f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name) for name in names if name]
        return [f"the open socket {' → '.join(shown)}" if shown else "an open socket without an address"]
    return []
