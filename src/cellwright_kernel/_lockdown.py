"""Confines a forked child before any of a session's code runs: the order of the steps, and nothing about what is
allowed (that is the plan, decided in ``cellwright.sandbox``).

With namespaces three processes come of one: the monitor, which is what the fork server forked; the first process of
the new pid namespace; and the kernel. Without them there are two: a supervisor and the kernel, which is locked (tier C,
``confine``) or not (``accompany``). Both return in the kernel only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from cellwright_kernel import _namespaces, _reaper, _sandbox_root, _seccomp, descendants, landlock
from cellwright_kernel._nested_sandboxes import SandboxMonitor
from cellwright_kernel._reaper import Lifelines
from cellwright_kernel._syscalls import close_all_but, prctl
from cellwright_kernel.step import task_variables

__all__ = ["Lifelines", "accompany", "confine", "join_cgroup"]

PR_SET_PDEATHSIG = 1

FAILED = 70

STDERR = 2

CPU_GRACE_S = 5

# For what the same user starts elsewhere meanwhile.
SPARE_THREADS = 1024


def confine(plan: dict[str, Any], lines: Lifelines, keep: list[int], directory: str) -> None:
    """Lock this process up as the plan says; ``keep`` are the kernel's own descriptors, ``directory`` its sockets'."""
    if plan["namespaces"]:
        _or_end(lambda: _enter_sandbox(plan, lines, keep, directory), keep)
    else:
        _or_end(lambda: _stay_outside(plan, lines, keep), keep)


def accompany(lines: Lifelines, keep: list[int]) -> None:
    """Lock nothing, but give the kernel a supervisor, as one that is confined has it; ``keep`` are its own descriptors."""
    _or_end(lambda: _supervise(lines, keep), keep)


def _or_end(steps: Callable[[], None], keep: list[int]) -> None:
    try:
        steps()
    except BaseException:  # noqa: BLE001  # boundary: this child ends here, with its reason on stderr
        # Nobody above may go on in a child that is confined only in part.
        sys.stderr = sys.__stderr__
        os.dup2(keep[0], 2)
        traceback.print_exc()
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(FAILED)


def _enter_sandbox(plan: dict[str, Any], lines: Lifelines, keep: list[int], directory: str) -> None:
    os.setsid()
    # Whoever started us may keep its own files to itself; the kernel must find its way in the sandbox.
    os.umask(0o022)
    own_root = f"{directory}/root"
    os.makedirs(own_root, exist_ok=True)  # strings throughout, as in sandbox_root
    owner = _namespaces.leave_machine(plan.get("owner"))
    _namespaces.make_private()
    _namespaces.bring_up_loopback()
    socket.sethostname(plan["hostname"])
    _give_to(owner, directory)
    sockets = {"kind": "bind", "from": directory, "at": plan["sockets"], "write": True}
    built = _sandbox_root.build(own_root, plan, owner, partial(_reaper.offer, lines.control_fd))
    built.furnish([sockets])
    told_read, told_write = os.pipe2(os.O_CLOEXEC)
    outside, inside = socket.socketpair()
    _namespaces.leave_processes()
    first = os.fork()
    if first:
        inside.close()
        for fd in (told_write, *(fd for fd in keep if fd > STDERR)):
            os.close(fd)
        _monitor(plan, built, first, told_read, outside, lines)
    outside.close()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
    for fd in (lines.control_fd, lines.lifeline_fd, told_read):
        os.close(fd)
    _namespaces.unshare_mounts()
    _namespaces.enter_root(own_root)
    _meet(inside)
    if plan.get("proxy"):
        # Out of sight before any code runs.
        proxy_socket = os.open(plan["proxy"]["socket"], os.O_PATH | os.O_CLOEXEC)
        _reaper.start_relay(plan["proxy"]["port"], proxy_socket, owner)
    kernel = os.fork()
    if kernel:
        _reaper.become(kernel, told_write, owner)
    os.close(told_write)
    lock(plan, owner, keep)


def _monitor(
    plan: dict[str, Any],
    built: _sandbox_root.SandboxRoot,
    first: int,
    report_fd: int,
    line: socket.socket,
    lines: Lifelines,
) -> NoReturn:
    if not line.recv(1):
        os._exit(FAILED)
    # While it waits for us: later it can no longer be looked into.
    mount_ns, pid_ns = (
        os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("mnt", "pid")
    )
    line.send(b"G")
    line.close()
    port = plan["proxy"]["port"] if plan.get("proxy") else None
    monitor = SandboxMonitor(built, plan["hostname"], plan["private"], port, mount_ns, pid_ns)
    _reaper.watch(_reaper.sandbox_ward(first, report_fd), lines, monitor.change)


def _meet(line: socket.socket) -> None:
    with line:
        line.send(b"E")
        if not line.recv(1):
            os._exit(FAILED)


def _stay_outside(plan: dict[str, Any], lines: Lifelines, keep: list[int]) -> None:
    owner = (os.getuid(), os.getgid())
    if owner[0] == 0:
        owner = _namespaces.new_owner(plan.get("owner"))
        for path in plan["owned"]:
            _give_to(owner, path)
    elif plan["limits"]["processes"] is not None:
        # Counted for all of the user's processes on the machine, so this can only be a last wall: the host watches.
        last_wall = plan["limits"]["processes"] + descendants.threads_of_user(owner[0]) + SPARE_THREADS
        plan = {**plan, "limits": {**plan["limits"], "processes": last_wall}}
    _supervise(lines, keep, landlock.OWN_PROCESS)
    lock(plan, owner, keep)


def _supervise(lines: Lifelines, keep: list[int], shown: Sequence[str] = ()) -> None:
    """Stay as the supervisor of a child, in which this returns; ``shown`` is what the child may read about itself."""
    os.setsid()
    descendants.become_subreaper()
    supervisor = os.getpid()
    kernel = os.fork()
    if kernel:
        for fd in keep:
            if fd > STDERR:
                os.close(fd)
        _pin(kernel, shown)
        ward = _reaper.tree_ward(kernel, lambda: _end_below(supervisor))
        _reaper.watch(ward, lines, _refuse_change)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
    for fd in (lines.control_fd, lines.lifeline_fd):
        os.close(fd)


def _pin(pid: int, shown: Sequence[str]) -> None:
    """Keep what a process reads about itself in the system's memory: a rule is about an inode, and another would follow."""
    for path in shown:
        own = path.replace("/proc/thread-self", f"/proc/{pid}/task/{pid}").replace(
            "/proc/self", f"/proc/{pid}"
        )
        with contextlib.suppress(OSError):  # not every kernel has each
            os.open(own, os.O_PATH | os.O_CLOEXEC)


def _refuse_change(request: dict[str, Any], _fds: list[int]) -> NoReturn:
    raise ValueError(f"no namespaces here to change: {', '.join(request)}")


def _end_below(pid: int) -> None:
    while below := descendants.children_of(pid):
        for child in below:
            descendants.kill_tree(child)
        for child in below:
            os.waitpid(child, 0)


def _give_to(owner: tuple[int, int], directory: str) -> None:
    """Let the kernel's user make its sockets; only root can and need do that."""
    if os.geteuid() == 0 and owner[0] != 0:
        os.chown(directory, *owner)
        for name in os.listdir(directory):  # names only
            os.chown(f"{directory}/{name}", *owner, follow_symlinks=False)


def lock(plan: dict[str, Any], owner: tuple[int, int], keep: list[int]) -> None:
    """The last steps, in the process that will run the session's code: descriptors, user, rights, limits, calls."""
    close_all_but(keep)
    task = task_variables(os.environ)
    os.environ.clear()
    os.environ.update(task | plan["environment"])
    if "tempfile" in sys.modules:
        # The fork server may have asked where temporary files go, which is elsewhere now.
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]  # a module is looked up by its name
    os.umask(0o022)
    set_limits(plan["limits"])
    _namespaces.drop_powers(*owner)
    _namespaces.no_new_privileges()
    rules = [(path, getattr(landlock, kind)) for kind, paths in plan["rules"].items() for path in paths]
    landlock.restrict(rules, tcp=plan["namespaces"])
    _seccomp.install(
        local_network=plan["namespaces"],
        listens=not plan.get("bound"),
        # Where a group counts the session's memory, nothing of it is out of sight.
        shares_memory=plan["counted"] or plan.get("shares_memory", False),
    )


def set_limits(limits: dict[str, int | None]) -> None:
    """Limits that the kernel keeps for each process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = limits["memory"]
    if memory is not None:
        data = _data_bytes() + (limits["own_memory"] or 0) + memory
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    for name, number in (
        ("processes", resource.RLIMIT_NPROC),
        ("files", resource.RLIMIT_NOFILE),
        ("file_bytes", resource.RLIMIT_FSIZE),
        ("cpu_seconds", resource.RLIMIT_CPU),
    ):
        value = limits[name]
        if value is not None:
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            # Processor time is told with a signal that says why, before one that does not.
            slack = CPU_GRACE_S if name == "cpu_seconds" and hard == resource.RLIM_INFINITY else 0
            # Code may raise its limit so far; what it then does is watched.
            most = max(value + slack, limits.get(f"family_{name}") or 0)
            resource.setrlimit(number, (value, most if hard == resource.RLIM_INFINITY else min(most, hard)))


def _data_bytes() -> int:
    """What this process already holds, most of it shared with its siblings."""
    with open("/proc/self/status", "rb") as file:  # quick
        for line in file:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) * 1024
    return 0


# Moves a new process into its cgroup and onto its processors, before it does anything else.


def join_cgroup(group_fd: int, processors: Sequence[int]) -> None:
    """Enter the group behind the descriptor, if there is one, and close it; run on these processors, if any.

    Raises:
        OSError: the group is gone, and so is whoever asked for this process.
    """
    if group_fd >= 0:
        try:
            os.write(group_fd, b"0")
        finally:
            os.close(group_fd)
    if processors:
        os.sched_setaffinity(0, processors)
