"""What a session's code may do, as one value, and how a session asks for less. Where the numbers come from is the
settings' business, and how they are kept is ``policy``', ``workspace``' and the kernel package's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

from cellwright.errors import LimitReached
from cellwright_kernel.landlock import OWN_PROCESS

__all__ = [
    "CACHES",
    "HOME",
    "LEAST_SHARE",
    "PACKAGES",
    "SETTINGS",
    "SOCKETS",
    "Mode",
    "Narrowing",
    "Policy",
    "allowed_environment",
    "limit_text",
    "memory_lost",
    "memory_share",
    "narrowed",
    "readable_paths",
    "refuse_wider",
    "sandbox_plan",
    "thread_counts",
    "watched_plan",
    "with_memory",
]
Mode: TypeAlias = Literal["overlay", "private", "direct"]
"""Where a session works: on a view of the project, in a folder of its own, or in the notebook's own folder."""

NetworkAccess: TypeAlias = Literal["off", "proxy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of one session. None is no limit."""

    memory_bytes: int | None = 512 << 20
    memory_auto: bool = False
    """Whether the session's host knows how much memory there is, of which ``memory_bytes`` is then the most."""
    processes: int | None = 128
    open_files: int | None = 1024
    cpu_seconds: int | None = None
    cpus: float | None = None
    """How many processors' worth of time it may use at once."""
    cell_seconds: float = 30
    """Wall time of a cell whose run names no other; where a session narrowed it, of every cell."""
    disk_bytes: int = 100 << 20
    disk_files: int = 20_000
    temporary_bytes: int = 64 << 20
    shared_memory_bytes: int = 64 << 20
    network: NetworkAccess = "off"
    gpus: str = "off"
    """``auto``, ``off`` or the numbers of GPUs, such as ``0,2``."""
    read: tuple[str, ...] = ()
    """Paths beyond the project that may be read."""
    write: tuple[str, ...] = ()
    """Paths beyond the working directory that may be written."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a session asks for below the operator's policy. None leaves a limit as it is."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpu_seconds: int | None = None
    cpus: float | None = None
    cell_seconds: float | None = None
    disk_bytes: int | None = None
    network: Literal["off"] | None = None
    gpus: Literal["off"] | None = None
    read: tuple[str, ...] | None = None
    """Which of the operator's paths to keep."""
    write: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))


SETTINGS = {
    "memory_bytes": "max_session_memory",
    "processes": "max_session_processes",
    "cpu_seconds": "max_session_cpu_s",
    "cpus": "max_session_cpus",
    "cell_seconds": "cell_timeout_s",
    "disk_bytes": "max_session_disk",
    "network": "network",
    "gpus": "gpus",
    "read": "read_paths",
    "write": "write_paths",
}
"""The operator's setting behind each limit that a session can narrow."""

# What a session can only do without.
_SWITCHES = ("network", "gpus")

_MEGABYTE = 1 << 20

# Below these no kernel starts.
_LEAST = {
    "memory_bytes": 64 * _MEGABYTE,
    "processes": 32,
    "cpu_seconds": 1,
    "cpus": 0.05,
    "disk_bytes": _MEGABYTE,
    "cell_seconds": 0.001,
}


def narrowed(policy: Policy, narrowing: Narrowing) -> Policy:
    """The policy with what was asked for where that is narrower; a policy that became narrower since stays."""
    changes: dict[str, Any] = {}
    for name, asked in _asked(narrowing):
        given = getattr(policy, name)
        if name in _SWITCHES:
            changes[name] = asked
        elif isinstance(given, tuple):
            changes[name] = tuple(path for path in given if path in asked)
        else:
            changes[name] = asked if given is None else min(given, asked)
    if narrowing.disk_bytes is not None:
        changes["temporary_bytes"] = min(policy.temporary_bytes, narrowing.disk_bytes)
    return replace(policy, **changes)


LEAST_SHARE = 512 << 20
"""What a session may have however full its machine is: as a limit, not as a promise."""


def memory_share(total: int, used: int) -> int:
    """What one session may have where no setting says: half of what nothing uses, and no less than ``LEAST_SHARE``.

    It is a ceiling that any number of sessions have at once, and no reservation: sessions that together come near to
    what there is meet ``max_memory_fraction``.
    """
    free = max(0, total - used)
    return max(free // 2, min(LEAST_SHARE, total)) // _MEGABYTE * _MEGABYTE


def with_memory(policy: Policy, share: int) -> Policy:
    """A policy that leaves memory to its host, with that host's share of it."""
    asked = policy.memory_bytes
    return replace(policy, memory_bytes=share if asked is None else min(share, asked), memory_auto=False)


def memory_lost(asked: Policy | None, given: Policy | None) -> tuple[str, ...]:
    """What to tell a session that asked for more memory than its host has to give; nothing where it has all of it.

    It is told and not refused: one that was made on an emptier machine could not be resumed otherwise.
    """
    wanted = asked.memory_bytes if asked is not None else None
    had = given.memory_bytes if given is not None else None
    if wanted is None or had is None or had >= wanted:
        return ()
    less, more = limit_text("memory_bytes", had), limit_text("memory_bytes", wanted)
    share = "a session's share of this machine (max_session_memory is auto)"
    return (f"{less} of memory instead of the {more} asked for: no more is {share}",)


def refuse_wider(policy: Policy, narrowing: Narrowing) -> None:
    """Raise where more is asked for than the policy allows, or less than a kernel needs.

    Raises:
        LimitReached: it names the setting and its value.
    """
    for name, asked in _asked(narrowing):
        setting, given = SETTINGS[name], getattr(policy, name)
        if isinstance(given, tuple):
            _refuse_new_paths(setting, given, asked)
        elif name not in _SWITCHES and given is not None and asked > given:
            raise LimitReached(
                f"{limit_text(name, asked)} was asked for, and the setting {setting} allows "
                f"{limit_text(name, given)}",
                setting=setting,
                hint=f"Ask for no more, or let the operator raise CELLWRIGHT_{setting.upper()}",
            )
        if name in _LEAST and asked < (least := _LEAST[name]):
            raise LimitReached(
                f"{limit_text(name, asked)} was asked for ({setting}), and no session runs with less than "
                f"{limit_text(name, least)}",
                setting=setting,
                hint=f"Ask for at least {limit_text(name, least)}",
            )


def limit_text(name: str, value: Any) -> Any:
    """A limit's value as people write it."""
    if name.endswith("_bytes"):
        return f"{value / _MEGABYTE:g}MB"
    return f"{value:g} s" if name.endswith("_seconds") else list(value) if isinstance(value, tuple) else value


def _refuse_new_paths(setting: str, given: tuple[str, ...], asked: tuple[str, ...]) -> None:
    for path in asked:
        if path not in given:
            raise LimitReached(
                f"{path} was asked for, and the setting {setting} has {', '.join(given) or 'nothing'}",
                setting=setting,
                hint=f"Name paths that it has, as it has them, or let the operator set "
                f"CELLWRIGHT_{setting.upper()}",
            )


def _asked(narrowing: Narrowing) -> list[tuple[str, Any]]:
    return [
        (field.name, value)
        for field in fields(narrowing)
        if (value := getattr(narrowing, field.name)) is not None
    ]


# Turns a policy into a plan: plain data that goes with a fork and that the child obeys
# (``cellwright_kernel``).

SOCKETS = "/ipc"
"""Where a confined kernel makes its sockets; taken out of its sight before any of the session's code runs."""

PACKAGES = "/packages"
"""Where a kernel with a view of its own finds layers of packages."""

CACHES = "/caches"
"""Where it finds the prepared caches of libraries."""

HOME = "/tmp"  # private: a file system in memory of the session's own

_GATE, _BELOW = "/.gate", "/.below"

# The directories of the sandbox itself in which sandboxes below it mount what is theirs: read as everything there is, written
# where they are meant to. What each mounts is as read-only as it was.
_READ_BELOW, _WRITTEN_BELOW = (_BELOW,), (f"{_BELOW}/.w", "/dev")

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")

_CONFIGURATION = tuple(
    f"/etc/{name}"
    for name in [
        "alternatives",
        "ca-certificates",
        "fonts",
        "ld.so.cache",
        "localtime",
        "mime.types",
        "nsswitch.conf",
        "pki",
        "ssl/certs",
        "ssl/openssl.cnf",
        "timezone",
        "R",
    ]
)

# Without /dev/zero, which can be mapped only by who may write to it: see ``cellwright_kernel._sandbox_root``.
_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")

_FILES = {
    "/etc/passwd": f"user:x:{{uid}}:{{gid}}:user:{HOME}:/bin/sh\n",
    "/etc/group": "user:x:{gid}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
}

_TEMPORARY_INODES = 20_000

# A session's branches count against the limit of its processes too, which is then watched for each of them.
_FAMILY = 16

# Thread stacks and the heaps of ipykernel's own threads count against the same limit as the user's data.
_OWN_MEMORY = 192 << 20

_ENVIRONMENT_NAMES = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "VIRTUAL_ENV", "MPLBACKEND"}
)

_ENVIRONMENT_PREFIXES = ("LC_", "OMP_", "OPENBLAS_", "MKL_", "NUMEXPR_", "GOMP_", "MALLOC_")

# The part of a session's processes that may be the threads of one numeric library.
_THREADS_PART = 16

_PYTHON_NAMES = frozenset({"PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONWARNINGS"})


def allowed_environment(environment: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The part of an environment that code may see: nothing that could hold a secret, unless it is named."""
    names = {*_ENVIRONMENT_NAMES, *_PYTHON_NAMES, *passed}
    kept = {
        name: value
        for name, value in environment.items()
        if name in names or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    return kept | {"HOME": HOME, "TMPDIR": HOME, "USER": "user", "LOGNAME": "user"}


def thread_counts(policy: Policy, processors: int, environment: Mapping[str, str]) -> dict[str, str]:
    """How many threads numeric libraries start, where that is fewer than processors and ``environment`` names no number.

    Each starts one for every processor as it is imported: beyond the session's share they only take turns, and several
    such libraries reach the limit on processes, at which the import fails.
    """
    share = processors if policy.cpus is None else math.ceil(policy.cpus)
    if policy.processes is not None:
        share = min(share, max(policy.processes // _THREADS_PART, 1))
    # OpenBLAS, MKL, NumExpr and torch take this where their own variable is not set.
    name = "OMP_NUM_THREADS"
    return {name: str(share)} if share < processors and name not in environment else {}


def readable_paths(paths: Iterable[str], *, never: Sequence[str]) -> list[str]:
    """The paths that an interpreter needs, less those that would open what ``never`` names, and none inside another.

    A relative path, such as the "" that stands for wherever an interpreter happens to be, is not a path that it needs.
    """
    kept: list[str] = []
    for path in sorted(filter(os.path.isabs, set(paths)), key=len):
        opens = any(_is_within(secret, path) for secret in never)
        if not opens and not any(_is_within(path, other) for other in (*kept, *_SYSTEM)):
            kept.append(path)
    return kept


def sandbox_plan(policy: Policy, readable: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The plan of a kernel with namespaces of its own."""
    readable = [*readable, *policy.read]
    system = [path for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    configuration = [path for path in _CONFIGURATION if os.path.exists(path)]
    seen = [*system, *configuration, *readable]
    mounts: list[dict[str, Any]] = [
        {"kind": "bind", "from": os.path.realpath(path), "at": path, "write": False} for path in seen
    ]
    mounts += [
        {"kind": "bind", "from": path, "at": path, "write": True, "own": True} for path in policy.write
    ]
    memory = [
        _memory(HOME, policy.temporary_bytes),
        _memory("/dev/shm", policy.shared_memory_bytes),
    ]
    return {
        "namespaces": True,
        "counted": False,
        "hostname": "cellwright",
        "sockets": SOCKETS,
        "links": [[os.readlink(path), path] for path in _SYSTEM if os.path.islink(path)],
        "files": _FILES,
        # Memory first: what is readable may lie below /tmp.
        "mounts": [*memory, *mounts],
        "private": [*memory, *(mount for mount in mounts if _is_within(mount["at"], HOME))],
        "environment": dict(environment),
        "limits": _limits(policy) | {"family_processes": _FAMILY * (policy.processes or 0) or None},
        "rules": {
            "READ": [*seen, *_SYSTEM, "/etc", "/proc", "/dev", *_READ_BELOW],
            "WRITE_FILE": list(_DEVICES),
            "WRITE": [HOME, "/dev/shm", _GATE, *_WRITTEN_BELOW, *policy.write],
            "SOCKETS": [SOCKETS],
        },
    }


def watched_plan(
    policy: Policy,
    readable: Sequence[str],
    environment: Mapping[str, str],
    *,
    directories: Mapping[str, str],
    writable: Sequence[str],
    owned: Sequence[str] = (),
) -> dict[str, Any]:
    """The plan of a kernel without namespaces (tier C), which sees the machine's own paths.

    ``directories`` holds the session's own: ``sockets`` and ``temporary``. Where root starts it, those and ``owned``
    are given to the session's user, who must be able to get there.
    """
    seen = [*_SYSTEM, *_CONFIGURATION, *readable, *policy.read]
    return {
        "namespaces": False,
        "counted": False,
        "environment": {
            **environment,
            "HOME": directories["temporary"],
            "TMPDIR": directories["temporary"],
        },
        "limits": _limits(policy),
        "owned": [directories["sockets"], directories["temporary"], *owned],
        "rules": {
            "LIST": ["/proc/self"],
            "READ": [
                *seen,
                *OWN_PROCESS,
                "/dev/zero",
                "/proc/meminfo",
                "/proc/cpuinfo",
                "/proc/stat",
                "/etc/passwd",
            ],
            "WRITE_FILE": list(_DEVICES),
            "WRITE": [directories["temporary"], *writable, *policy.write],
            "SOCKETS": [directories["sockets"]],
        },
    }


def _memory(at: str, size: int) -> dict[str, Any]:
    return {"kind": "tmpfs", "at": at, "bytes": size, "inodes": _TEMPORARY_INODES, "write": True}


def _limits(policy: Policy) -> dict[str, int | None]:
    return {
        "memory": policy.memory_bytes,
        "own_memory": _OWN_MEMORY,
        "processes": policy.processes,
        "files": policy.open_files,
        "file_bytes": policy.disk_bytes,
        "cpu_seconds": policy.cpu_seconds,
    }


def _is_within(path: str, directory: str) -> bool:
    return PurePath(path).is_relative_to(directory)
