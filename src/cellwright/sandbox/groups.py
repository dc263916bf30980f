"""One cgroup for each kernel, below the one that was given to the host: made, entered, read, ended. Blocking.

What is written and what a counter means stands in ``delegation``. A process enters a group itself, through a
descriptor that the host opened, before it does anything else (``cellwright_kernel.joining``).
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Collection, Iterator
from itertools import count
from pathlib import Path

from cellwright.sandbox import delegation
from cellwright.sandbox.delegation import HOME, OPTIONAL, REQUIRED, Facts, Owner, Refusal
from cellwright.sandbox.exits import LimitHit
from cellwright.sandbox.policy import Policy

__all__ = ["Group", "Groups", "open_groups"]

_MARKS = ("user.delegate", "trusted.delegate")
_MOVES = 20
_END_S = 5.0
# The host must get its turn beside any number of busy kernels, which have 100 each.
_HOME_WEIGHT = "1000"


def open_groups(required: Collection[str] = REQUIRED) -> Groups | Refusal:
    """Take possession of the group that this process was started in, and show that kernels can be put below it.

    This process, and others that were started in the same group, move to a leaf of it and stay there.
    """
    facts = _look()
    refused = delegation.refusal(facts, required)
    if refused is not None or facts is None:
        return refused or Refusal("no cgroup was found", "")
    wanted = [*required, *(name for name in OPTIONAL if name in facts.controllers)]
    groups = Groups(Path(facts.directory), frozenset(wanted))
    try:
        groups.settle()
        groups.sweep()
        groups.probe()
    except (OSError, subprocess.SubprocessError) as error:
        what = f"the cgroup {facts.directory} could not be divided: {error}"
        return Refusal(what, "start Cellwright in a group of its own, on Linux 5.14 or later")
    return groups


class Groups:
    """The groups of one host's kernels."""

    def __init__(self, directory: Path, controllers: frozenset[str]) -> None:
        self.directory = directory
        self.controllers = controllers
        self._owner = _owner(os.getpid())
        self._numbers = count(1)

    def settle(self) -> None:
        """Leave the group to its children: move all that runs in it to a leaf, and let children be limited."""
        home = self.directory / HOME
        home.mkdir(exist_ok=True)
        for _ in range(_MOVES):  # what is just being started may be missed once
            pids = [pid for pid in (self.directory / "cgroup.procs").read_text().split() if pid != "0"]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (home / "cgroup.procs").write_text(pid)
            if not pids:
                break
        enabled = (self.directory / "cgroup.subtree_control").read_text().split()
        missing = [f"+{name}" for name in sorted(self.controllers) if name not in enabled]
        if missing:
            (self.directory / "cgroup.subtree_control").write_text(" ".join(missing))
        if "cpu" in self.controllers:
            (home / "cpu.weight").write_text(_HOME_WEIGHT)

    def sweep(self) -> None:
        """End and remove what a host that is gone has left."""
        for path in self.directory.iterdir():
            owner = delegation.owner_of(path.name)
            if owner is not None and owner.namespace == self._owner.namespace and not _lives(owner):
                Group(path, Policy()).remove()

    def probe(self) -> None:
        """Put a process into a group, and end it there."""
        group = self.make(Policy())
        try:
            with subprocess.Popen(["/bin/sleep", "60"], stdin=subprocess.DEVNULL) as process:
                try:
                    group.add(process.pid)
                    group.kill()
                    process.wait(_END_S)
                finally:
                    process.kill()
        finally:
            group.remove()

    def make(self, policy: Policy) -> Group:
        """A new group that holds whoever enters it to the policy."""
        path = self._new_directory()
        group = Group(path, policy)
        try:
            for name, value in delegation.group_files(policy, self.controllers).items():
                _write_limit(path / name, value)
        except BaseException:
            group.remove()
            raise
        return group

    def _new_directory(self) -> Path:
        while True:
            path = self.directory / delegation.group_name(self._owner, next(self._numbers))
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path


class Group:
    """The group of one kernel and everything it starts."""

    def __init__(self, path: Path, policy: Policy) -> None:
        self.path = path
        self._policy = policy

    def open_entrance(self) -> int:
        """A descriptor through which a process that has no other right to it can enter. The caller closes it."""
        return os.open(self.path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    @property
    def pids(self) -> list[int]:
        """What runs in it."""
        return [int(pid) for pid in _read(self.path / "cgroup.procs").split()]

    def kill(self) -> None:
        """End everything in it, all at once; one that is gone has nothing to end."""
        with contextlib.suppress(FileNotFoundError, OSError):
            (self.path / "cgroup.kill").write_text("1")

    def limit_behind(self, status: int | None) -> LimitHit | None:
        """The limit that ended its kernel, if one did."""
        counts = {
            "oom_kill": delegation.count_of("oom_kill", _read(self.path / "memory.events")),
            "refused": delegation.count_of("max", _read(self.path / "pids.events")),
        }
        return delegation.limit_behind(self._policy, counts, status)

    def remove(self) -> bool:
        """End what is left in it and remove it; False where something in it does not end. Safe to call again."""
        self.kill()
        for _ in _until_empty(self.path):
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return True
            except OSError:
                continue
            return True
        return False


def _look() -> Facts | None:
    proc = Path("/proc/self")
    found = delegation.own_group(_read(proc / "cgroup"), _read(proc / "mountinfo"))
    if found is None:
        return None
    directory, at_top = Path(delegation.given_to(found[0])), delegation.given_to(found[0]) == found[1]
    is_root = not (directory / "cgroup.type").exists()
    inside = ("", "cgroup.procs", "cgroup.subtree_control")
    return Facts(
        directory=str(directory),
        is_root=is_root,
        controllers=frozenset(_read(directory / "cgroup.controllers").split()),
        writable=all(os.access(directory / name, os.W_OK) for name in inside),
        marked=any(_attribute(directory, name) == b"1" for name in _MARKS),
        boundary=not is_root and (at_top or _is_boundary(directory)),
        managed=Path("/run/systemd/system").is_dir(),
        user=os.geteuid(),
    )


def _is_boundary(directory: Path) -> bool:
    mine = os.geteuid()
    return directory.stat().st_uid == mine != directory.parent.stat().st_uid


def _attribute(path: Path, name: str) -> bytes:
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""


def _owner(pid: int) -> Owner:
    # After the command's name, which may hold anything, the start is the twentieth field.
    started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return Owner(Path("/proc/self/ns/pid").stat().st_ino, pid, started)


def _lives(owner: Owner) -> bool:
    try:
        return _owner(owner.pid) == owner
    except (OSError, IndexError):
        return False


def _write_limit(file: Path, value: str) -> None:
    if file.name == "memory.swap.max" and not file.exists():
        if len(_read(Path("/proc/swaps")).splitlines()) > 1:
            raise OSError(f"{file}: this machine swaps and does not count it")
        return
    file.write_text(value)


def _until_empty(path: Path) -> Iterator[None]:
    """Once now, and again whenever the group may have become empty, for a while."""
    deadline = time.monotonic() + _END_S
    try:
        events = os.open(path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        poller = select.poll()
        poller.register(events, select.POLLPRI)
        while True:
            os.pread(events, 4096, 0)  # what is told from here on is new
            yield
            # Not before the look: all may have stood still for as long.
            if (left_s := deadline - time.monotonic()) <= 0:
                return
            poller.poll(min(0.1, left_s) * 1000)
    finally:
        os.close(events)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
