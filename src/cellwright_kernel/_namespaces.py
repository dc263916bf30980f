"""Takes a process out of the machine's namespaces and takes its powers away. Decides nothing (see ``_lockdown``).

An ordinary user gets the power to do so from a user namespace. Root has it anyway, and instead becomes a user that
nobody else is before any code of the session runs.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from cellwright_kernel._syscalls import invoke, libc, mount, prctl, unmount

__all__ = [
    "become",
    "bring_up_loopback",
    "drop_powers",
    "enter",
    "enter_root",
    "leave_machine",
    "leave_processes",
    "leave_sandbox",
    "make_private",
    "new_owner",
    "no_new_privileges",
    "unshare_mounts",
]

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECUREBITS = 4, 24, 38, 28
SECURE_NOROOT_LOCKED = 0x2F
LAST_CAPABILITY = 63
# Whom one may not look into one does not see either: the reaper, and what is set apart.
HIDING = "hidepid=invisible"
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 1, 64

FIRST_UID = 0x10000000
"""Above every user of a usual machine; a process number is added, so that no two living kernels share one."""


def leave_machine(owner: Sequence[int] | None = None) -> tuple[int, int]:
    """Enter new namespaces, but for that of processes; returns the user and group that code is to run as.

    ``owner`` is who that is where root starts a kernel beside another; without it, somebody new.
    """
    flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        _unshare(flags)
        return new_owner(owner)
    _unshare(flags | CLONE_NEWUSER)
    _stay(uid, gid)
    return uid, gid


def new_owner(owner: Sequence[int] | None = None) -> tuple[int, int]:
    """Whom root's kernel runs as: the given user and group, or those that nobody else has.

    Raises:
        PermissionError: the given ones are none of a kernel's.
    """
    if owner is None:
        return (FIRST_UID + os.getpid(),) * 2
    if min(owner) < FIRST_UID:
        raise PermissionError(f"user {owner[0]} is none that a kernel runs as")
    return owner[0], owner[1]


def leave_sandbox() -> None:
    """Enter new namespaces of every kind, as the user that one is; the next child is their first process."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET | CLONE_NEWPID
    _unshare(flags | CLONE_NEWUSER)
    _stay(uid, gid)


def enter(namespace: int) -> None:
    """Enter the namespace behind a descriptor; one of processes, with the next child."""
    if libc.setns(namespace, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


def become(uid: int, gid: int) -> None:
    """Become this user, if one is another, and be readable to oneself."""
    if os.getuid() != uid:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    prctl(PR_SET_DUMPABLE, 1, what="dumpable")


def make_private() -> None:
    """Keep our mounts to ourselves."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def leave_processes() -> None:
    """Let the next child be the first process of a new pid namespace. Forked for good: it dies with that child."""
    _unshare(CLONE_NEWPID)


def unshare_mounts() -> None:
    """A mount namespace of one's own, with a copy of everything."""
    _unshare(CLONE_NEWNS)


def bring_up_loopback() -> None:
    """Let code talk to itself: a new network namespace has a loopback device, and it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(control, SIOCSIFFLAGS, request)


def enter_root(root: str) -> None:
    """Make a directory the root of this mount namespace, and let go of the machine's."""
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, HIDING)
    os.chdir(root)
    # The old root is put on top of the new one, and taken off again: no directory is needed to put it.
    invoke("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")
    mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def drop_powers(uid: int, gid: int) -> None:
    """Become this user for good: no capabilities, no way to get any back."""
    if os.getuid() == 0:
        os.setgroups([])
    for capability in range(LAST_CAPABILITY + 1):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel knows no more
    libc.prctl(PR_SET_SECUREBITS, SECURE_NOROOT_LOCKED, 0, 0, 0)  # refused where there is nothing to lock
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    header = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0), 8)
    invoke("capset", header, ctypes.create_string_buffer(24))
    # Changing user made the process unreadable to itself: /proc/self would belong to root.
    prctl(PR_SET_DUMPABLE, 1, what="dumpable")


def no_new_privileges() -> None:
    """From here on no program that is run has more rights than its caller."""
    prctl(PR_SET_NO_NEW_PRIVS, 1, what="no_new_privs")


def _stay(uid: int, gid: int) -> None:
    """In a new user namespace: be there who one was before, and let nobody else be there."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _unshare(flags: int) -> None:
    if libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")
