"""Which host a session goes to: one rule. Pure; what hosts there are is ``hosts``'s.

What the call asks for, else the setting ``host``, else what ``run_mode`` says: ``slurm`` where SLURM is configured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from cellwright.errors import UnknownHost
from cellwright.settings import Settings

__all__ = ["LOCAL", "HostKind", "HostName", "parse_host", "relies_on_slurm", "run_mode", "wanted_host"]

HostKind: TypeAlias = Literal["local", "slurm", "jupyter"]
LOCAL: Literal["local"] = "local"


@dataclass(frozen=True, slots=True)
class HostName:
    """A host as people write it: a kind, and which of that kind where there are several."""

    kind: HostKind
    which: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.which}" if self.which is not None else self.kind


def parse_host(name: str) -> HostName:
    """A host by its name.

    Raises:
        UnknownHost: it is none that there can be.
    """
    kind, _, which = name.strip().partition(":")
    if kind not in get_args(HostKind) or (kind == LOCAL and which):
        raise UnknownHost(
            f"There is no host {name!r}",
            hint="Hosts are `local`, `slurm`, `slurm:NAME`, `jupyter` and `jupyter:NAME`; `cellwright hosts` lists them",
        )
    return HostName(cast("HostKind", kind), which or None)


def run_mode(settings: Settings, *, has_slurm: bool) -> HostKind:
    """Where sessions go that say nothing: as configured, else to SLURM where that is configured."""
    if settings.run_mode != "auto":
        return settings.run_mode
    return "slurm" if has_slurm else "local"


def relies_on_slurm(settings: Settings) -> bool:
    """Whether it matters to sessions that say nothing if SLURM is configured."""
    return not settings.host and settings.run_mode == "auto"


def wanted_host(asked: str | None, settings: Settings, *, has_slurm: bool) -> HostName:
    """The host of a session for which ``asked`` was asked for.

    Raises:
        UnknownHost: it is none that there can be.
    """
    name = asked or settings.host
    return parse_host(name) if name else HostName(run_mode(settings, has_slurm=has_slurm))
