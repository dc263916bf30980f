"""The two processes that stay beside a confined kernel, and do nothing but wait.

The reaper is the first process of the kernel's pid namespace: it buries orphans, and when the kernel ends it ends,
and with it everything in the namespace. The monitor is outside: it ends as the kernel ended, so that whoever waits
for it learns the truth, and it puts the session's places in when told to.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["monitor", "offer", "reap", "watch_tree"]

PACKET_BYTES = 1 << 18
STATUS = struct.Struct("i")
FAILED = 70


def reap(kernel: int, status_fd: int) -> NoReturn:
    """Bury whatever ends in this pid namespace, until the kernel does; then tell its status and end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            os.write(status_fd, STATUS.pack(os.waitstatus_to_exitcode(status)))
            os._exit(0)


def monitor(
    first: int, status_fd: int, control_fd: int, lifeline_fd: int, change: Callable[[dict[str, Any]], None]
) -> NoReturn:
    """Stay until the reaper has ended; carry out changes that the host asks for; end everything with the host."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    end = os.pidfd_open(first)
    poller = select.poll()
    for fd in (end, control_fd, lifeline_fd):
        poller.register(fd, select.POLLIN)
    with socket.socket(fileno=control_fd) as control:
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if end in ready:
                break
            if lifeline_fd in ready:
                poller.unregister(lifeline_fd)
                signal.pidfd_send_signal(end, signal.SIGKILL)
            if control_fd in ready and not _serve(control, change):
                poller.unregister(control_fd)
    _end_like(_status_of(first, status_fd))


def offer(control_fd: int, directory: int) -> None:
    """Show the host a directory, and wait until it has put in what belongs there."""
    control = socket.socket(fileno=control_fd)
    try:
        socket.send_fds(control, [json.dumps({"offer": True}).encode()], [directory])
        if not control.recv(PACKET_BYTES):
            raise ConnectionError("the host went away, or could not fill the working directory")
    finally:
        control.detach()


def watch_tree(kernel: int, lifeline_fd: int, end_tree: Callable[[], None]) -> NoReturn:
    """Without a pid namespace: stay until the kernel or the host has ended, then end all that is left below."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    end = os.pidfd_open(kernel)
    poller = select.poll()
    poller.register(end, select.POLLIN)
    poller.register(lifeline_fd, select.POLLIN)
    ended = end in {fd for fd, _ in poller.poll()}
    status = os.waitpid(kernel, 0)[1] if ended else signal.SIGKILL.value
    end_tree()
    _end_like(os.waitstatus_to_exitcode(status))


def _serve(control: socket.socket, change: Callable[[dict[str, Any]], None]) -> bool:
    data = control.recv(PACKET_BYTES)
    if not data:
        return False
    try:
        change(json.loads(data))
        answer: dict[str, Any] = {"ok": True}
    except Exception as error:  # noqa: BLE001  # boundary: the host is told, and decides
        answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    with contextlib.suppress(OSError):
        control.send(json.dumps(answer).encode())
    return True


def _status_of(first: int, status_fd: int) -> int:
    _, status = os.waitpid(first, 0)
    told = os.read(status_fd, STATUS.size)
    if len(told) == STATUS.size:
        code: int = STATUS.unpack(told)[0]
        return code
    return os.waitstatus_to_exitcode(status)


def _end_like(code: int) -> NoReturn:
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else FAILED)
