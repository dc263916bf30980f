"""The system calls that Python's standard library lacks, for x86_64 and aarch64. No policy.

Numbers from 424 on are the same on every architecture; older ones are looked up by ``number``.
"""

from __future__ import annotations

import ctypes
import os
import platform

__all__ = [
    "ARCHITECTURE",
    "UnsupportedArchitecture",
    "close_all_but",
    "invoke",
    "libc",
    "mount",
    "number",
    "prctl",
    "unmount",
]

ARCHITECTURE = platform.machine()
libc = ctypes.CDLL(None, use_errno=True)

FIRST_FD, LAST_FD = 3, (1 << 32) - 1

_OLDER = {
    "x86_64": {"capset": 126, "pivot_root": 155, "seccomp": 317},
    "aarch64": {"capset": 91, "pivot_root": 41, "seccomp": 277},
}
_NEWER = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "close_range": 436,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}


class UnsupportedArchitecture(OSError):
    """This processor's system call numbers are not known here."""


def number(name: str) -> int:
    """The number of a system call on this machine."""
    if name in _NEWER:
        return _NEWER[name]
    try:
        return _OLDER[ARCHITECTURE][name]
    except KeyError:
        raise UnsupportedArchitecture(f"no number of {name} for {ARCHITECTURE}") from None


def invoke(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call; a failure is an OSError that names it."""
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc.syscall(ctypes.c_long(number(name)), *values)
    if result < 0:
        raise _failure(name)
    return result


def prctl(option: int, value: int = 0, *, what: str) -> None:
    """Set one attribute of this process; ``what`` names it in the error."""
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise _failure(what)


def close_all_but(keep: list[int]) -> None:
    """Close every descriptor but these and the standard ones."""
    start = FIRST_FD
    for fd in sorted(fd for fd in keep if fd >= start):
        if fd > start:
            invoke("close_range", start, fd - 1, 0)
        start = fd + 1
    invoke("close_range", start, LAST_FD, 0)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount in the old way, which everything that needs no descriptor still uses."""
    encoded = [None if value is None else os.fsencode(value) for value in (source, target, kind, data)]
    if libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        raise _failure(f"mount {kind or source} at {target}")


def unmount(target: str) -> None:
    """Take a mount out of sight at once; it goes when its last user does."""
    detach = 2
    if libc.umount2(os.fsencode(target), detach) != 0:
        raise _failure(f"unmount {target}")


def _failure(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")
