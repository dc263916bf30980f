"""What a session's code may do, as one value, and how a session asks for less. Where the numbers come from is the
settings' business, and how they are kept is ``plans``', ``places``' and the kernel package's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from cellwright.errors import LimitReached

__all__ = [
    "SETTINGS",
    "Mode",
    "Narrowing",
    "NetworkAccess",
    "Policy",
    "narrowed",
    "refuse_wider",
    "told_value",
]

Mode: TypeAlias = Literal["overlay", "private", "direct"]
"""Where a session works: on a view of the project, in a folder of its own, or in the notebook's own folder."""

NetworkAccess: TypeAlias = Literal["off", "proxy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of one session. None is no limit."""

    memory_bytes: int | None = 512 << 20
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
    "read": "read_paths",
    "write": "write_paths",
}
"""The operator's setting behind each limit that a session can narrow."""

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
        if name == "network":
            changes[name] = asked
        elif isinstance(given, tuple):
            changes[name] = tuple(path for path in given if path in asked)
        else:
            changes[name] = asked if given is None else min(given, asked)
    if narrowing.disk_bytes is not None:
        changes["temporary_bytes"] = min(policy.temporary_bytes, narrowing.disk_bytes)
    return replace(policy, **changes)


def refuse_wider(policy: Policy, narrowing: Narrowing) -> None:
    """Raise where more is asked for than the policy allows, or less than a kernel needs.

    Raises:
        LimitReached: it names the setting and its value.
    """
    for name, asked in _asked(narrowing):
        setting, given = SETTINGS[name], getattr(policy, name)
        if isinstance(given, tuple):
            _refuse_new_paths(setting, given, asked)
        elif name != "network" and given is not None and asked > given:
            raise LimitReached(
                f"{told_value(name, asked)} was asked for, and the setting {setting} allows "
                f"{told_value(name, given)}",
                setting=setting,
                hint=f"Ask for no more, or let the operator raise CELLWRIGHT_{setting.upper()}",
            )
        if name in _LEAST and asked < (least := _LEAST[name]):
            raise LimitReached(
                f"{told_value(name, asked)} was asked for ({setting}), and no session runs with less than "
                f"{told_value(name, least)}",
                setting=setting,
                hint=f"Ask for at least {told_value(name, least)}",
            )


def told_value(name: str, value: Any) -> Any:
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
