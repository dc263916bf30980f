"""Which host a session goes to: one rule. Pure; what hosts there are is ``hosts``'s.

What the call asks for, else the setting ``host``, else what ``run_mode`` says: ``slurm`` where SLURM is configured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from cellwright.errors import UnknownHost

__all__ = ["LOCAL", "DefaultHost", "HostKind", "HostName", "parse_host"]

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


@dataclass(frozen=True, slots=True)
class DefaultHost:
    """Where sessions go that name no host: to ``host``, or as ``run_mode`` says."""

    host: str = ""
    run_mode: Literal["auto"] | HostKind = "auto"

    @property
    def relies_on_slurm(self) -> bool:
        """Whether it matters to such sessions if SLURM is configured."""
        return not self.host and self.run_mode == "auto"

    def wanted(self, asked: str | None, *, has_slurm: bool) -> HostName:
        """The host of a session for which ``asked`` was asked for.

        Raises:
            UnknownHost: it is none that there can be.
        """
        if name := asked or self.host:
            return parse_host(name)
        if self.run_mode != "auto":
            return HostName(self.run_mode)
        return HostName("slurm" if has_slurm else "local")
