"""The processes that stay beside a kernel, and do nothing but wait.

The reaper is the first process of a sandbox's pid namespace: it buries what ends there and tells each end to the monitor
outside. Where there is no namespace, a supervisor does both. Monitor and supervisor keep one rule (``watch``): they
end as the kernel ended, and everything with them, so that whoever waits for them learns the truth; once the host
*holds* the sandbox they go on instead, and tell it every end. They also do what the host asks for over its line. Where the
network is open, a relay carries what code sends to its proxy.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from cellwright_kernel import _namespaces, bridge
from cellwright_kernel._syscalls import close_all_but, libc, prctl

__all__ = [
    "FAILED",
    "Lifelines",
    "Outcome",
    "Ward",
    "become",
    "offer",
    "sandbox_ward",
    "start_relay",
    "tree_ward",
    "watch",
]

PACKET_BYTES = 1 << 18
END = struct.Struct("ii?")
# Whole ends only: a pipe hands them out in the portions in which they were written.
ENDS_BYTES = 256 * END.size
FAILED = 70
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME = 1, 4, 15
RELAY = b"cw-relay"
FDS_PER_REQUEST = 2


@dataclass(frozen=True)
class Lifelines:
    """The descriptors that stay with the monitor: the host's line, and what ends with the host."""

    control_fd: int
    lifeline_fd: int


class Outcome(NamedTuple):
    """What came of a request: descriptors for the host, and a child that is to be buried when it ends."""

    fds: tuple[int, ...] = ()
    child: int | None = None


Change = Callable[[dict[str, Any], list[int]], Outcome]


class End(NamedTuple):
    """One process that was buried."""

    pid: int
    code: int
    is_kernel: bool


@dataclass(frozen=True)
class Ward:
    """The processes that are watched."""

    fd: int
    """Readable when there is news of them."""
    ends: Callable[[], Sequence[End] | None]
    """What ended since; None where nothing is left that could tell."""
    finish: Callable[[], int]
    """End all of them; returns how the first one ended."""


def become(kernel: int | None, report_fd: int, owner: tuple[int, int]) -> NoReturn:
    """Bury whatever ends in this pid namespace and tell it, until killed; the kernel's end is marked."""
    close_all_but([report_fd])
    _namespaces.drop_powers(*owner)
    # The kernel may not look into the one process here that is not confined as it is.
    prctl(PR_SET_DUMPABLE, 0, what="dumpable")
    _namespaces.no_new_privileges()
    _ignore(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
    # Becoming another user undid it, and a monitor that is killed cannot end this process itself.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
    if _nobody_reads(report_fd):
        os._exit(FAILED)
    # Blocked it is kept until it is waited for, so none is missed in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        for pid, code in _buried():
            os.write(report_fd, END.pack(pid, code, pid == kernel))
        signal.sigwait({signal.SIGCHLD})


def _nobody_reads(pipe: int) -> bool:
    poller = select.poll()
    poller.register(pipe, 0)
    return any(happened & select.POLLERR for _, happened in poller.poll(0))


def start_relay(port: int, proxy_socket: int, owner: tuple[int, int]) -> None:
    """Carry what code sends to its proxy's port to the proxy's socket, of which ``proxy_socket`` is a descriptor to be closed."""
    listener = bridge.open_listener(port)
    if os.fork():
        listener.close()
        os.close(proxy_socket)
        return
    try:
        _ignore(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        close_all_but([listener.fileno(), proxy_socket])
        _namespaces.drop_powers(*owner)
        # Like the reaper: not confined as the kernel is, so the kernel may not look into it.
        prctl(PR_SET_DUMPABLE, 0, what="dumpable")
        _namespaces.no_new_privileges()
        # By this name the host spares it when it ends a kernel whose sandbox goes on.
        libc.prctl(PR_SET_NAME, RELAY, 0, 0, 0)
        bridge.relay(listener, f"/proc/self/fd/{proxy_socket}")
    finally:
        os._exit(0)


def sandbox_ward(child: int, report_fd: int, first: int | None = None) -> Ward:
    """Everything in a pid namespace: ``first`` is a pidfd of its first process where that is not the child itself."""
    pidfd = os.pidfd_open(child) if first is None else first

    def ends() -> list[End] | None:
        told = os.read(report_fd, ENDS_BYTES)
        return [End(*end) for end in END.iter_unpack(told)] if told else None

    def finish() -> int:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        while True:
            # The first process only goes when all others were buried, and monitors of sandboxes below are among them.
            pid, status = os.waitpid(-1, 0)
            if pid == child:
                return os.waitstatus_to_exitcode(status)

    return Ward(report_fd, ends, finish)


def tree_ward(kernel: int, end_tree: Callable[[], None]) -> Ward:
    """A kernel and everything below this process, which must be the parent of all orphans among them."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    # For what ended before.
    os.write(wake_write, b"\0")

    def ends() -> list[End]:
        with contextlib.suppress(BlockingIOError):
            os.read(wake_read, 4096)
        return [End(pid, code, pid == kernel) for pid, code in _buried()]

    def finish() -> int:
        end_tree()
        return -signal.SIGKILL

    return Ward(wake_read, ends, finish)


def watch(ward: Ward, lines: Lifelines, change: Change, *, held: bool = False) -> NoReturn:
    """Stay until the kernel has ended, or as long as the host holds or wants it; ``change`` does what else it asks."""
    _ignore(signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
    poller = select.poll()
    for fd in (ward.fd, lines.control_fd, lines.lifeline_fd):
        poller.register(fd, select.POLLIN)
    post = _Post(socket.socket(fileno=lines.control_fd), change, held=held)
    below: dict[int, int] = {}
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if ward.fd in ready:
            _hear(ward, post)
        if lines.lifeline_fd in ready:
            ward.finish()
            _end_like(-signal.SIGKILL)
        if lines.control_fd in ready and not post.serve():
            poller.unregister(lines.control_fd)
        if post.is_over:
            ward.finish()
            os._exit(0)
        for pidfd in ready & below.keys():
            poller.unregister(pidfd)
            os.close(pidfd)
            os.waitpid(below.pop(pidfd), 0)
        while post.born:
            child = post.born.pop()
            below[pidfd := os.pidfd_open(child)] = child
            poller.register(pidfd, select.POLLIN)


def offer(control_fd: int, directory: int) -> None:
    """Show the host a directory, and wait until it has put in what belongs there."""
    control = socket.socket(fileno=control_fd)
    try:
        socket.send_fds(control, [json.dumps({"offer": True}).encode()], [directory])
        if not control.recv(PACKET_BYTES):
            raise ConnectionError("the host went away, or could not fill the working directory")
    finally:
        control.detach()


class _Post:
    """The host's line, and what it has said so far."""

    def __init__(self, control: socket.socket, change: Change, *, held: bool) -> None:
        self.is_held = held
        self.is_over = False
        self.born: list[int] = []
        """Children that came of requests, for the watcher to take over."""
        self._control = control
        self._change = change

    def serve(self) -> bool:
        """Do the next thing the host asks for; False where it asks for nothing more."""
        data, fds, _, _ = socket.recv_fds(self._control, PACKET_BYTES, FDS_PER_REQUEST)
        if not data:
            return False
        outcome = Outcome()
        try:
            outcome = self._obey(json.loads(data), fds)
            answer: dict[str, Any] = {"ok": True}
        except Exception as error:  # noqa: BLE001  # boundary: the host is told, and decides
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        if not self.is_over:  # of which the end itself is the answer
            self.tell(answer, outcome.fds)
        for fd in (*fds, *outcome.fds):
            os.close(fd)
        return True

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one packet; that the host is gone is noticed elsewhere."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(message).encode()], fds)

    def _obey(self, request: dict[str, Any], fds: list[int]) -> Outcome:
        if request.get("hold"):
            self.is_held = True
        elif request.get("end"):
            self.is_over = True
        else:
            outcome = self._change(request, fds)
            if outcome.child is not None:
                self.born.append(outcome.child)
            return outcome
        return Outcome()


def _hear(ward: Ward, post: _Post) -> None:
    ends = ward.ends()
    if ends is None:
        _end_like(ward.finish())
    for end in ends:
        if post.is_held:
            post.tell({"ended": [end.pid, end.code]})
        elif end.is_kernel:
            ward.finish()
            _end_like(end.code)


def _buried() -> Iterator[tuple[int, int]]:
    """Bury the children that have ended, one by one."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, os.waitstatus_to_exitcode(status)


def _ignore(*numbers: signal.Signals) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def _end_like(code: int) -> NoReturn:
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else FAILED)
