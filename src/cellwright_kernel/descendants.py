"""Processes below a process: finding them and ending them, whatever they did to hide.

A daemon that forked twice leaves its parent's group and session, but stays below the nearest subreaper. Every
kernel is one, so its tree is whole as long as it lives. Reads ``/proc``; needs no library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Collection

__all__ = [
    "become_subreaper",
    "children_of",
    "is_ending",
    "kill_tree",
    "threads_of",
    "threads_of_user",
    "tree_of",
]

PR_SET_CHILD_SUBREAPER = 36
# Of a process's flags in /proc/PID/stat.
PF_EXITING = 4
MOST_LOOKS = 20


def become_subreaper() -> None:
    """Adopt orphans among our descendants, where they would otherwise be given to init."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def children_of(pid: int) -> list[int]:
    """The direct children of a process; none where it is gone."""
    # Linux may leave out a child that lives while one before it ends (proc_pid_task_children): so it is asked until it
    # says the same twice, or, of a process whose children come and go all the time, often enough.
    found = _listed_children(pid)
    for _ in range(MOST_LOOKS):
        before, found = found, _listed_children(pid)
        if found == before:
            break
    return found


def _listed_children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # names only; Path objects cost more
    except OSError:
        return found
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found.extend(int(child) for child in file.read().split())
    return found


def threads_of(pid: int) -> int:
    """How many threads a process has; none where it is gone."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2  # as above
    except OSError:
        return 0


def is_ending(pid: int) -> bool:
    """Whether a process is on its way out: none of its memory is shown any more, and not all of it is given back."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # as above
            state, _, _, _, _, _, flags = file.read().rpartition(b")")[2].split()[:7]
    except (OSError, ValueError):
        return False
    # Only the last of its threads to go takes the memory with it.
    is_over = state == b"Z" and threads_of(pid) <= 1
    return bool(int(flags) & PF_EXITING) and not is_over


def threads_of_user(uid: int) -> int:
    """How many threads all processes of a user have."""
    found = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                found += threads_of(int(name))
    return found


def tree_of(pid: int, but: Collection[int] = ()) -> list[int]:
    """The process and everything below it, parents before children, without the trees of those left out."""
    found = [pid]
    for parent in found:  # grows while it is walked
        found.extend(child for child in children_of(parent) if child not in but)
    return found


def kill_tree(pid: int, but: Collection[int] = (), spared: Callable[[int], bool] = lambda _: False) -> None:
    """End the process and everything below it, without the trees of those left out, and without those spared alone.

    All are stopped before any is killed: a stopped process neither forks nor reaps, so the list is complete and
    no number on it can meanwhile belong to somebody else.
    """
    stopped: set[int] = set()
    while fresh := [member for member in tree_of(pid, but) if member not in stopped and not spared(member)]:
        for member in fresh:
            _send(member, signal.SIGSTOP)
        stopped.update(fresh)
    for member in stopped:
        _send(member, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
