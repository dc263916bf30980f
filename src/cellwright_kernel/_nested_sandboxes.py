"""Sandboxes below sandboxes: namespaces of their own into which a process of the sandbox above can go, and only down.

Three processes come with each, beside those that run code: its monitor, which sees the machine's files as the one above
does, but is born among the first sandbox's processes; a keeper in the sandbox above, which only waits; and the reaper, the first
process inside. None of them can be looked into from a sandbox. ``join`` is what a process of the sandbox above calls to be
inside; it may, because the new user namespace is one below its own and belongs to its own user, and because the sandbox's
monitor, whom the host asks, has it watched .
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from cellwright_kernel import _namespaces, _reaper, _sandbox_root
from cellwright_kernel._sandbox_root import SandboxRoot
from cellwright_kernel._syscalls import ARCHITECTURE, close_all_but, libc, prctl

__all__ = ["SandboxMonitor", "join"]
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
"""In the order in which they are joined: the first gives the power to join the others."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

PACKET_BYTES = 1 << 12

NETLINK_SOCK_DIAG = 4

ARRIVED, GO = b"arrived", b"go"


@dataclass(frozen=True)
class SandboxMonitor:
    """One sandbox, as its monitor knows it, in which and below which more can be made."""

    sandbox: SandboxRoot
    hostname: str
    private: list[dict[str, Any]]
    """What every sandbox of the checkpoint group mounts for itself."""
    proxy_port: int | None
    """Where code finds its proxy, if the network is open."""
    mount_ns: int
    pid_ns: int
    user_ns: int = -1
    """Only where it is not the monitor's own."""

    def change(self, request: dict[str, Any], fds: list[int]) -> _reaper.Outcome:
        """Do what the host asks of the monitor: mount and unmount, hand out a mount, make a sandbox below, let somebody in.

        It also lends a socket that tells what the sandbox's sockets hold.
        """
        if "share" in request:
            return _reaper.Outcome((self.sandbox.share(self.mount_ns, request["share"]),))
        if "sockets" in request:
            return _reaper.Outcome((_open_diagnostics(),))
        if "admit" in request:
            return _reaper.Outcome(child=_start_attending(request["admit"]))
        if "grow" not in request:
            self.sandbox.refurnish(
                self.mount_ns, request["mounts"], request["drop"], request.get("first", ())
            )
            return _reaper.Outcome()
        child = self.grow(request["grow"], request["door"], _reaper.Lifelines(*fds))
        return _reaper.Outcome((os.pidfd_open(child),), child)

    def grow(self, entries: list[dict[str, Any]], proxy_socket: str | None, lines: _reaper.Lifelines) -> int:
        """Start the monitor of a sandbox below this one; it tells over its own line how that went.

        ``proxy_socket`` is the socket of the sandbox's own proxy.
        """
        child = os.fork()
        if child == 0:
            try:
                self._become_monitor(entries, proxy_socket, lines)
            except BaseException as error:  # noqa: BLE001  # boundary: the host is told, and this child ends
                with socket.socket(fileno=lines.control_fd) as control:
                    control.send(
                        json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"}).encode()
                    )
            finally:
                os._exit(_reaper.FAILED)
        return child

    def _become_monitor(
        self, entries: list[dict[str, Any]], proxy_socket: str | None, lines: _reaper.Lifelines
    ) -> NoReturn:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
        prctl(PR_SET_DUMPABLE, 0, what="dumpable")
        own = [fd for fd in (self.mount_ns, self.pid_ns, self.user_ns) if fd >= 0]
        close_all_but([lines.control_fd, lines.lifeline_fd, *own])
        # The monitor above may be mounting at the same places meanwhile.
        _namespaces.unshare_mounts()
        proxy_fd = _open_proxy_socket(proxy_socket, self.sandbox.owner) if proxy_socket is not None else -1
        told_read, told_write = os.pipe2(os.O_CLOEXEC)
        outside, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _namespaces.enter(self.pid_ns)
        keeper = os.fork()
        if keeper == 0:
            outside.close()
            self._keep(inside, told_write, proxy_fd)
        inside.close()
        for fd in (told_write, *((proxy_fd,) if proxy_fd >= 0 else ())):
            os.close(fd)
        joined, proc, first = _arrived(outside)
        sandbox = replace(self.sandbox, offer=partial(_reaper.offer, lines.control_fd))
        sandbox.furnish_below(joined[1], proc, self.private, entries)
        outside.send(GO)
        outside.close()
        for fd in own:
            os.close(fd)
        with socket.socket(fileno=os.dup(lines.control_fd)) as control:
            socket.send_fds(control, [json.dumps({"ok": True}).encode()], joined)
        # As the monitor of the first sandbox is in that one's network: of it alone the system tells.
        _namespaces.enter(joined[3])
        monitor = replace(self, sandbox=sandbox, user_ns=joined[0], mount_ns=joined[1], pid_ns=joined[2])
        for fd in joined[3:]:
            os.close(fd)
        # There is no kernel yet whose end could end it: the host says when.
        _reaper.watch(_reaper.sandbox_ward(keeper, told_read, first), lines, monitor.change, held=True)

    def _keep(self, line: socket.socket, report_fd: int, proxy_fd: int) -> NoReturn:
        """In the sandbox above: make the namespaces, and wait for the first process in them."""
        try:
            if self.user_ns < 0:
                _namespaces.enter(self.mount_ns)
            _namespaces.become(*self.sandbox.owner)
            if self.user_ns >= 0:
                _namespaces.enter(self.user_ns)
                _namespaces.enter(self.mount_ns)
            _namespaces.leave_sandbox()
            first = os.fork()
            if first == 0:
                self._become_reaper(line, report_fd, proxy_fd)
        except BaseException as error:  # noqa: BLE001  # boundary: the monitor is told, and this child ends
            line.send(f"{type(error).__name__}: {error}".encode())
            os._exit(_reaper.FAILED)
        close_all_but([])
        _namespaces.drop_powers(*self.sandbox.owner)
        prctl(PR_SET_DUMPABLE, 0, what="dumpable")
        # Last: a change of user or powers would undo it. Should the monitor have ended before, the reaper notices.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
        os.waitpid(first, 0)
        os._exit(0)

    def _become_reaper(self, line: socket.socket, report_fd: int, proxy_fd: int) -> NoReturn:
        """The first process inside: finish the namespaces, show them to the monitor, and bury."""
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
        _namespaces.bring_up_loopback()
        socket.sethostname(self.hostname)
        proc = _sandbox_root.make_proc()
        joined = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES]
        socket.send_fds(line, [ARRIVED], [*joined, proc, os.pidfd_open(os.getpid())])
        if line.recv(PACKET_BYTES) != GO:
            os._exit(_reaper.FAILED)
        if proxy_fd >= 0 and self.proxy_port is not None:
            _reaper.start_relay(self.proxy_port, proxy_fd, self.sandbox.owner)
        _reaper.become(None, report_fd, self.sandbox.owner)


def join(line: socket.socket, descriptors: Sequence[int]) -> None:
    """Go into a sandbox below, by its namespaces in their order, and close them; returns in a child, which is inside.

    Over the line the host is asked to have it watched. The caller itself waits for that child and ends as it ends, so that
    what the child leaves behind is the sandbox's.

    Raises:
        OSError: it is no sandbox below, nobody watches, or more than one thread runs here.
    """
    owner = os.getuid(), os.getgid()
    line.send(json.dumps({"joining": os.getpid()}).encode())
    if not line.recv(PACKET_BYTES):
        raise ConnectionError("the host went away")
    for descriptor in descriptors:
        _namespaces.enter(descriptor)
        os.close(descriptor)
    # Entering a user namespace gave every power in it.
    _namespaces.drop_powers(*owner)
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else _reaper.FAILED)


def _start_attending(pid: int) -> int:
    """Start whoever traces a process of the sandbox above into this one; returns its own number once it does.

    It is born among the processes of the sandbox above, so that it can mean none but those.
    """
    told_read, told_write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
            close_all_but([told_write])
            attend(pid, told_write)
        finally:
            os._exit(0)
    os.close(told_write)
    with open(told_read, "rb") as told:  # a descriptor
        said = told.read()
    if said != ATTENDED:
        os.waitpid(child, 0)
        raise OSError(said.decode("utf-8", "replace") or "whoever was to trace it ended")
    return child


def _open_diagnostics() -> int:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG).detach()


def _open_proxy_socket(path: str, owner: tuple[int, int]) -> int:
    """The socket of a proxy, for whoever will be its only user."""
    if os.getuid() != owner[0]:
        os.chown(path, *owner, follow_symlinks=False)
    return os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)


def _arrived(line: socket.socket) -> tuple[list[int], int, int]:
    """The namespaces, a file system of their processes, and the first of these."""
    data, fds, _, _ = socket.recv_fds(line, PACKET_BYTES, len(NAMESPACES) + 2)
    if data != ARRIVED:
        raise OSError(data.decode("utf-8", "replace") or "whoever makes the namespaces ended")
    return fds[:-2], fds[-2], fds[-1]


# Lets a process into a sandbox below its own, and lets go of it once it has no powers there.

ATTENDED = b"attended"
"""What the tracer says when the process may go."""

SEIZE, LISTEN, GET_SYSCALL_INFO, CONT, SYSCALL, DETACH = 0x4206, 0x4208, 0x420E, 7, 24, 17

SYSCALLS_MARKED, SECCOMP_TOLD, KILLED_WITH_TRACER = 0x1, 0x80, 0x100000

AT_SYSCALL = signal.SIGTRAP | 0x80

SECCOMP_EVENT, STOP_EVENT = 7, 128

STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

ENTRY, EXIT = 1, 2

WAIT_FOR_ALL = 0x40000000

CAPABILITIES_VERSION, CAPABILITIES_BYTES = 0x20080522, 24

# What `join` does until it has no powers, and what an interpreter does meanwhile: memory, locks, its end.
PASSING = """
setns 308 268|close 3 57|prctl 157 167|capset 126 91|setresuid 117 147|setresgid 119 149|setgroups 116 159
getuid 102 174|geteuid 107 175|getgid 104 176|getegid 108 177|brk 12 214|mmap 9 222|munmap 11 215|mremap 25 216
madvise 28 233|futex 202 98|rt_sigprocmask 14 135|rt_sigreturn 15 139|exit_group 231 94
"""


def attend(pid: int, report_fd: int) -> None:
    """Trace a process of this pid namespace until it has come to powers and let go of them, or has ended.

    Tells over the descriptor, which is closed, that the process may go, or why it may not.
    """
    try:
        _trace(SEIZE, pid, SYSCALLS_MARKED | SECCOMP_TOLD | KILLED_WITH_TRACER)
    except OSError as error:
        os.write(report_fd, f"{error}: a branch needs a kernel that lets its monitor trace it".encode())
        return
    os.write(report_fd, ATTENDED)
    os.close(report_fd)
    passing = _passing()
    had_powers, onward = False, CONT
    while True:
        status = os.waitpid(pid, WAIT_FOR_ALL)[1]
        if not os.WIFSTOPPED(status):
            return
        number, event = os.WSTOPSIG(status), status >> 16
        if event == SECCOMP_EVENT:
            onward = SYSCALL  # it enters now: from here on every call is looked at
        if number == AT_SYSCALL:
            kind, call = _call_of(pid)
            powers = _has_powers(pid)
            if had_powers and not powers:
                _trace(DETACH, pid)
                return
            had_powers = powers
            if powers and kind == ENTRY and call not in passing:
                os.kill(pid, signal.SIGKILL)
                return
        if event == STOP_EVENT and number in STOPPING:
            _trace(LISTEN, pid)
        else:
            _trace(onward, pid, 0 if event or number == AT_SYSCALL else number)


def _passing() -> set[int]:
    column = ("x86_64", "aarch64").index(ARCHITECTURE)
    return {int(line.split()[1 + column]) for line in PASSING.strip().replace("\n", "|").split("|")}


def _call_of(pid: int) -> tuple[int, int]:
    """Whether a traced process enters or leaves a system call, and on entering which."""
    told = ctypes.create_string_buffer(88)
    _trace(GET_SYSCALL_INFO, pid, ctypes.addressof(told), len(told))
    kind, call = struct.unpack_from("B23xQ", told)
    return kind, call if kind == ENTRY else -1


def _has_powers(pid: int) -> bool:
    header = ctypes.create_string_buffer(struct.pack("II", CAPABILITIES_VERSION, pid), 8)
    held = ctypes.create_string_buffer(CAPABILITIES_BYTES)
    if libc.capget(header, held) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    return any(held.raw)


def _trace(request: int, pid: int, data: int = 0, address: int = 0) -> None:
    if (
        libc.ptrace(
            ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address), ctypes.c_void_p(data)
        )
        < 0
    ):
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")
