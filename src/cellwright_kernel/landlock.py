"""Landlock: which files a process may touch, in rules that it can never loosen again."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence

from cellwright_kernel._syscalls import invoke

__all__ = [
    "DEVICE",
    "LIST",
    "OWN_PROCESS",
    "READ",
    "READ_FILE",
    "REWRITE",
    "SOCKETS",
    "WRITE",
    "WRITE_FILE",
    "abi",
    "restrict",
    "set_apart",
]

EXECUTE, WRITE_FILE_BIT, READ_FILE_BIT, READ_DIR = 1, 2, 4, 8
MAKE_CHAR, MAKE_SOCK, MAKE_BLOCK = 64, 512, 2048
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
# The bits that each ABI added: moving between directories, truncating, ioctl on devices.
FILE_BITS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
ON_A_FILE = EXECUTE | WRITE_FILE_BIT | READ_FILE_BIT | TRUNCATE | IOCTL_DEV
TCP = 3
SCOPE_SIGNAL = 2
SCOPES = 1 | SCOPE_SIGNAL  # abstract unix sockets and signals

LIST = READ_DIR
READ = EXECUTE | READ_FILE_BIT | READ_DIR
READ_FILE = READ_FILE_BIT
WRITE_FILE = READ_FILE_BIT | WRITE_FILE_BIT
REWRITE = WRITE_FILE_BIT | TRUNCATE
"""A file that is there can be written anew, and by this rule not be read."""
DEVICE = WRITE_FILE | IOCTL_DEV
"""A device that is driven by requests, such as a GPU. Other devices take none."""
WRITE = 0xFFFF & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
SOCKETS = READ_FILE_BIT | READ_DIR | MAKE_SOCK
"""A directory in which sockets can be made, and nothing else: no file to fill it, no link to lead elsewhere."""

OWN_PROCESS = (
    *(
        f"/proc/self/{name}"
        for name in (
            *(
                "auxv",
                "cgroup",
                "cmdline",
                "comm",
                "environ",
                "fdinfo",
                "io",
                "limits",
                "loginuid",
                "maps",
                "mountinfo",
            ),
            *(
                "mounts",
                "mountstats",
                "numa_maps",
                "oom_adj",
                "oom_score",
                "oom_score_adj",
                "pagemap",
                "personality",
            ),
            *(
                "schedstat",
                "sessionid",
                "smaps",
                "smaps_rollup",
                "stat",
                "statm",
                "status",
                "timers",
                "wchan",
            ),
        )
    ),
    *(f"/proc/thread-self/{name}" for name in ("children", "comm", "schedstat", "stat", "statm", "status")),
)
"""What a process may read about itself: all but ``net``, which is the machine's where there is no network namespace."""

_NET_ABI, _SCOPE_ABI = 4, 6


def abi() -> int:
    """The version of Landlock here; 0 where there is none."""
    try:
        return invoke("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def restrict(rules: Sequence[tuple[str, int]], *, tcp: bool) -> None:
    """Allow what the rules name, by path and rights, and nothing else; paths that are missing are left out.

    With ``tcp`` connections stay possible, because a network namespace already keeps them inside.
    """
    version = abi()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    handled = FILE_BITS[min(version, max(FILE_BITS))]
    net = TCP if not tcp and version >= _NET_ABI else 0
    scopes = SCOPES if version >= _SCOPE_ABI else 0
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NET_ABI else 8
    attributes = ctypes.create_string_buffer(struct.pack("QQQ", handled, net, scopes), 24)
    ruleset = invoke("landlock_create_ruleset", attributes, size, 0)
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & handled)
        invoke("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def set_apart(roots: Sequence[str]) -> bool:
    """Part from all processes that are confined as this one is: neither signals nor sees the other any more.

    Each of two that did so is hidden from the other, and what a process started before is out of its own reach too.
    ``roots`` are those in which it, and whoever is forked from it, moves files. False where it cannot be done: an older kernel, or too many layers.
    """
    if abi() < _SCOPE_ABI:
        return False
    try:
        attributes = ctypes.create_string_buffer(struct.pack("QQQ", REFER, 0, SCOPE_SIGNAL), 24)
        ruleset = invoke("landlock_create_ruleset", attributes, 24, 0)
    except OSError:
        return False
    try:
        # Moving between directories is refused by every layer that does not allow it, also by one about signals.
        for root in roots:
            _allow(ruleset, root, REFER)
        invoke("landlock_restrict_self", ruleset, 0)
    except OSError:
        return False
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= ON_A_FILE
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, fd), 12)
        invoke("landlock_add_rule", ruleset, 1, rule, 0)
    finally:
        os.close(fd)
