"""Lets a process into a box below its own, and lets go of it once it has no powers there.

Entering a user namespace gives every power in it, and whoever enters is a copy of a kernel: code of the session's, down to
its last function. So the filter of system calls (see ``seccomp``) leaves ``setns`` to whoever is traced, and the tracer is
a process beside the box's monitor, which no code reaches. It lets nothing pass between entering and powerlessness but the
few calls that lead there; who tries anything else is ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct

from cellwright_kernel.syscalls import ARCHITECTURE, libc

__all__ = ["ATTENDED", "attend"]

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
# What `nesting.join` does until it has no powers, and what an interpreter does meanwhile: memory, locks, its end.
PASSING = """
setns 308 268|close 3 57|prctl 157 167|capset 126 91|setresuid 117 147|setresgid 119 149|setgroups 116 159
getuid 102 174|geteuid 107 175|getgid 104 176|getegid 108 177|brk 12 214|mmap 9 222|munmap 11 215|mremap 25 216
madvise 28 233|futex 202 98|rt_sigprocmask 14 135|rt_sigreturn 15 139|exit_group 231 94
"""


def attend(pid: int, tell_fd: int) -> None:
    """Trace a process of this pid namespace until it has come to powers and let go of them, or has ended.

    Tells over the descriptor, which is closed, that the process may go, or why it may not.
    """
    try:
        _trace(SEIZE, pid, SYSCALLS_MARKED | SECCOMP_TOLD | KILLED_WITH_TRACER)
    except OSError as error:
        os.write(tell_fd, f"{error}: a branch needs a kernel that lets its monitor trace it".encode())
        return
    os.write(tell_fd, ATTENDED)
    os.close(tell_fd)
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
