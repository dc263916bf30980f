"""One cgroup for each kernel, below the one that was given to the host: made, entered, read, ended. Blocking.

What is written and what a counter means stands in ``cgroups``. A process enters a group itself, through a
descriptor that the host opened, before it does anything else (``cellwright_kernel._lockdown``).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from cellwright.sandbox.exit_reasons import LimitHit, out_of_memory, out_of_processes
from cellwright.sandbox.policy import Policy

__all__ = [
    "HOME",
    "Facts",
    "Group",
    "Groups",
    "Owner",
    "Refusal",
    "count_of",
    "given_to",
    "group_files",
    "group_name",
    "limit_behind",
    "open_groups",
    "own_group",
    "owner_of",
    "processors",
    "refusal",
]
# Decides about cgroups: which one was given to us, what a kernel's group is told, what its counters mean.
# Pure.


HOME = "cellwright-host"
"""The group that the host, and whatever was started with it, moves to: only leaves may hold processes."""

REQUIRED = ("memory", "pids")

OPTIONAL = ("cpu",)

_PERIOD_US = 100_000

_NAME = re.compile(r"cellwright-(\d+)-(\d+)-(\d+)-\d+")

_ESCAPE = re.compile(r"\\([0-7]{3})")

_CRASHES = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS})

_BOOT = "boot with cgroup v2 alone: systemd.unified_cgroup_hierarchy=1 on the kernel's command line"

_CONTROLLERS = (
    "sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids\\n' | "
    "sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, then log in again; "
    'where there is no systemd, write "+memory +pids +cpu" to the cgroup.subtree_control above it'
)

_SCOPE = "systemd-run --user --scope -p Delegate=yes cellwright …"

_ROOT_SCOPE = "systemd-run --scope -p Delegate=yes cellwright …"

_BY_HAND = (
    "where there is no systemd: sudo mkdir {new} && sudo chown -R $(id -u) {new} && "
    "echo $$ | sudo tee {new}/cgroup.procs"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why kernels get no groups of their own, and the command that would change it."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to know about the group that this process was started in."""

    directory: str
    is_root: bool
    """Whether it is the whole machine's."""
    controllers: frozenset[str]
    writable: bool
    marked: bool
    """Whether its manager says that it gave it away."""
    boundary: bool
    """Whether it is ours and what is above it is not, or cannot be seen."""
    managed: bool
    """Whether systemd runs here: it takes back what it did not give away."""
    user: int


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that made a group; told from a later one of the same number by when it started."""

    namespace: int
    pid: int
    started: int


def own_group(cgroup: str, mountinfo: str) -> tuple[str, str] | None:
    """The directory of a process's group, and the top of what is mounted, by what ``/proc`` says of the process."""
    path = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::")), None)
    if path is None:
        return None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if after.split(" ")[0] != "cgroup2":
            continue
        root, mounted_at = (_ESCAPE.sub(lambda match: chr(int(match[1], 8)), part) for part in fields[3:5])
        top = root.rstrip("/")
        if path == root or path.startswith(f"{top}/"):
            return (f"{mounted_at}{path[len(top) :]}".rstrip("/"), mounted_at)
    return None


def given_to(directory: str) -> str:
    """The group that was given to us: above our own leaf, once we have moved to it."""
    return directory.removesuffix(f"/{HOME}")


def refusal(facts: Facts | None, required: Collection[str] = REQUIRED) -> Refusal | None:
    """Why this group cannot hold kernels; None where it can be tried."""
    if facts is None:
        return Refusal("no cgroup v2 hierarchy is mounted here", _BOOT)
    missing = [name for name in required if name not in facts.controllers]
    if missing and facts.is_root:
        return Refusal(f"cgroup v2 lacks {' and '.join(missing)} here, which cgroup v1 has taken", _BOOT)
    refused = _not_ours(facts)
    if refused is None and missing:
        return Refusal(f"the cgroup {facts.directory} was not given {' and '.join(missing)}", _CONTROLLERS)
    return refused


def _not_ours(facts: Facts) -> Refusal | None:
    scope = _SCOPE if facts.user else _ROOT_SCOPE
    by_hand = _BY_HAND.format(new=f"{facts.directory}/cellwright")
    if facts.is_root:
        return Refusal(
            "this process is in the root cgroup, which is the whole machine's", f"{scope}; {by_hand}"
        )
    if not facts.writable:
        return Refusal(f"the cgroup {facts.directory} may not be changed by this user", f"{scope}; {by_hand}")
    if not (facts.marked or facts.boundary or not facts.managed):
        return Refusal(f"the cgroup {facts.directory} is systemd's: it was not delegated", scope)
    return None


def group_files(policy: Policy, controllers: Collection[str]) -> dict[str, str]:
    """What is written to the files of a kernel's group, in this order."""
    files: dict[str, str] = {}
    if "memory" in controllers:
        files["memory.max"] = _or_max(policy.memory_bytes)
        files["memory.swap.max"] = "max" if policy.memory_bytes is None else "0"
        # Not as one: its checkpoints are in it. Who looks after the kernel ends the rest of what is its own.
        files["memory.oom.group"] = "0"
    if "pids" in controllers:
        files["pids.max"] = _or_max(policy.processes)
    if "cpu" in controllers and policy.cpus is not None:
        files["cpu.max"] = f"{round(policy.cpus * _PERIOD_US)} {_PERIOD_US}"
    return files


def processors(cpus: float | None, available: Sequence[int], turn: int) -> list[int]:
    """The processors of the next kernel where no group can hold it to a share; none is no limit.

    Turns go round, so that kernels do not all crowd onto the same ones.
    """
    count = math.ceil(cpus) if cpus is not None else 0
    if not 0 < count < len(available):
        return []
    return sorted(available[(turn * count + place) % len(available)] for place in range(count))


def group_name(owner: Owner, number: int) -> str:
    return f"cellwright-{owner.namespace}-{owner.pid}-{owner.started}-{number}"


def owner_of(name: str) -> Owner | None:
    """Who made a group, if it is a kernel's."""
    match = _NAME.fullmatch(name)
    return Owner(*map(int, match.groups())) if match is not None else None


def count_of(key: str, text: str) -> int:
    """One number of a file such as ``memory.events``; 0 where it is not there."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdecimal():
            return int(value)
    return 0


def limit_behind(policy: Policy, counts: Mapping[str, int], status: int | None) -> LimitHit | None:
    """The limit behind a kernel's end, by its group's counters ``oom_kill`` and ``refused``."""
    if counts["oom_kill"]:
        return out_of_memory(policy)
    # A refusal is an error that code can catch: only an end that nobody asked for can have come of it.
    by_itself = status is not None and (status > 0 or -status in _CRASHES)
    return out_of_processes(policy, counts["refused"]) if by_itself and counts["refused"] else None


def _or_max(limit: int | None) -> str:
    return "max" if limit is None else str(limit)


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
    refused = refusal(facts, required)
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
            owner = owner_of(path.name)
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
            for name, value in group_files(policy, self.controllers).items():
                _write_limit(path / name, value)
        except BaseException:
            group.remove()
            raise
        return group

    def _new_directory(self) -> Path:
        while True:
            path = self.directory / group_name(self._owner, next(self._numbers))
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

    def oom_kills(self) -> int:
        """How many of its processes the system has ended for their memory."""
        return count_of("oom_kill", _read(self.path / "memory.events"))

    def limit_behind(self, status: int | None, oom_kills_before: int) -> LimitHit | None:
        """The limit that ended one of its kernels, or something that it started, if one did."""
        counts = {
            "oom_kill": self.oom_kills() - oom_kills_before,
            "refused": count_of("max", _read(self.path / "pids.events")),
        }
        return limit_behind(self._policy, counts, status)

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
    found = own_group(_read(proc / "cgroup"), _read(proc / "mountinfo"))
    if found is None:
        return None
    directory, at_top = Path(given_to(found[0])), given_to(found[0]) == found[1]
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
