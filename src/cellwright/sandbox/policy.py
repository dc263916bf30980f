"""What a session's code may do, as one value. Where the numbers come from is the settings' business, and how they
are kept is ``plans``', ``places``' and the kernel package's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

__all__ = ["Mode", "NetworkAccess", "Policy", "narrowed"]

Mode: TypeAlias = Literal["overlay", "private", "direct"]
"""Where a session works: on a view of the project, in a folder of its own, or in the notebook's own folder."""

NetworkAccess: TypeAlias = Literal["off", "proxy", "open"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of one session. None is no limit."""

    memory_bytes: int | None = 512 << 20
    processes: int | None = 128
    open_files: int | None = 1024
    cpu_seconds: int | None = None
    cpus: float | None = None
    """How many processors' worth of time it may use at once."""
    disk_bytes: int = 100 << 20
    disk_files: int = 20_000
    temporary_bytes: int = 64 << 20
    shared_memory_bytes: int = 64 << 20
    network: NetworkAccess = "off"
    read: tuple[str, ...] = ()
    """Paths beyond the project that may be read."""
    write: tuple[str, ...] = ()
    """Paths beyond the working directory that may be written."""


_OPENNESS: tuple[NetworkAccess, ...] = ("off", "proxy", "open")


def narrowed(policy: Policy, wanted: Policy) -> Policy:
    """The wanted policy where it is narrower, and the given one where it is not."""
    changes: dict[str, Any] = {}
    for field in fields(Policy):
        given, asked = getattr(policy, field.name), getattr(wanted, field.name)
        if field.name == "network":
            changes[field.name] = min(given, asked, key=_OPENNESS.index)
        elif isinstance(given, tuple):
            changes[field.name] = tuple(path for path in asked if path in given)
        else:
            limits = [limit for limit in (given, asked) if limit is not None]
            changes[field.name] = min(limits) if limits else None
    return replace(policy, **changes)
