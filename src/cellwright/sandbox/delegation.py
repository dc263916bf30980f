"""Decides about cgroups: which one was given to us, what a kernel's group is told, what its counters mean. Pure.

Reading and writing them is ``groups``'.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cellwright.sandbox.exits import LimitHit, out_of_memory, out_of_processes
from cellwright.sandbox.policy import Policy

__all__ = [
    "HOME",
    "REQUIRED",
    "Facts",
    "Owner",
    "Refusal",
    "count_of",
    "given_to",
    "group_files",
    "group_name",
    "limit_behind",
    "own_group",
    "owner_of",
    "processors",
    "refusal",
]

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
        files["memory.oom.group"] = "1"
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
