"""Turns a policy into a plan: plain data that goes with a fork and that the child obeys (``cellwright_kernel``).

Pure but for looking at which system directories there are. A plan holds no session: where a session works is mounted
later (see ``places``), so that a kernel can be confined and stand by before anybody asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from cellwright.sandbox.policy import Policy
from cellwright_kernel.landlock import OWN_PROCESS

__all__ = [
    "CACHES",
    "HOME",
    "PACKAGES",
    "SOCKETS",
    "allowed_environment",
    "box_plan",
    "readable_paths",
    "watched_plan",
]

SOCKETS = "/ipc"
"""Where a confined kernel makes its sockets; taken out of its sight before any of the session's code runs."""

PACKAGES = "/packages"
"""Where a kernel with a view of its own finds layers of packages."""

CACHES = "/caches"
"""Where it finds the prepared caches of libraries."""

HOME = "/tmp"  # noqa: S108  # private: a file system in memory of the session's own
_GATE, _BELOW = "/.gate", "/.below"
# The directories of the box itself in which boxes below it mount what is theirs: read as everything there is, written
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
# Without /dev/zero, which can be mapped only by who may write to it: see ``cellwright_kernel.box``.
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


def box_plan(policy: Policy, readable: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The plan of a kernel with namespaces of its own."""
    readable = [*readable, *policy.read]
    system = [path for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)]  # noqa: PTH112, PTH114
    configuration = [path for path in _CONFIGURATION if os.path.exists(path)]  # noqa: PTH110
    seen = [*system, *configuration, *readable]
    mounts: list[dict[str, Any]] = [
        {"kind": "bind", "from": os.path.realpath(path), "at": path, "write": False} for path in seen
    ]
    mounts += [
        {"kind": "bind", "from": path, "at": path, "write": True, "own": True} for path in policy.write
    ]
    memory = [
        _memory(HOME, policy.temporary_bytes),
        _memory("/dev/shm", policy.shared_memory_bytes),  # noqa: S108
    ]
    return {
        "namespaces": True,
        "counted": False,
        "hostname": "cellwright",
        "sockets": SOCKETS,
        "links": [
            [os.readlink(path), path]  # noqa: PTH115
            for path in _SYSTEM
            if os.path.islink(path)  # noqa: PTH114
        ],
        "files": _FILES,
        # Memory first: what is readable may lie below /tmp.
        "mounts": [*memory, *mounts],
        "private": [*memory, *(mount for mount in mounts if _is_within(mount["at"], HOME))],
        "environment": dict(environment),
        "limits": _limits(policy) | {"family_processes": _FAMILY * (policy.processes or 0) or None},
        "rules": {
            "READ": [*seen, *_SYSTEM, "/etc", "/proc", "/dev", *_READ_BELOW],
            "WRITE_FILE": list(_DEVICES),
            "WRITE": [HOME, "/dev/shm", _GATE, *_WRITTEN_BELOW, *policy.write],  # noqa: S108
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
