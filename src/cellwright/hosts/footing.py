"""What a host stands on: the machine itself, or a part of one that was lent to it for a while. Decides nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from cellwright.hosts.memory import memory_fraction
from cellwright.hosts.options import HostOptions
from cellwright.kernels import Exit, Steps

__all__ = ["Ending", "Footing", "idle_here"]

# Before anybody has said how long.
_IDLE_S = 60.0
# How long after a kernel its host may be told of the same end.
_SAME_END_S = 3.0


def idle_here(options: HostOptions | None) -> float | None:
    """How long a host on this machine stays when nobody needs it."""
    return options.idle_s if options is not None else _IDLE_S


class Ending:
    """That the host itself is being ended, and why: who ends a job may end its kernels first."""

    def __init__(self, *, doubtful: bool = False) -> None:
        """``doubtful`` is an end of a kernel that may be the host's, where others end both at once."""
        self._doubtful = doubtful
        self._told = anyio.Event()
        self.why: str | None = None

    def tell(self, why: str) -> None:
        self.why = why
        self._told.set()

    async def explain(self, end: Exit) -> tuple[Exit, bool]:
        """A kernel's end as the host's, if that is what it is; and whether it is."""
        if self._doubtful and end.cause in ("signal", "unknown"):
            with anyio.move_on_after(_SAME_END_S):
                await self._told.wait()
            if self.why is not None:
                return replace(end, cause="killed", message=self.why), True
        return end, False


@dataclass(frozen=True, slots=True)
class Footing:
    """By default all of this machine."""

    idle_s: Callable[[HostOptions | None], float | None] = idle_here
    """How long the host stays when nobody needs it; None is for good."""
    memory_fraction: Callable[[], float] = memory_fraction
    """The used part of the memory that it has."""
    steps: Steps | None = None
    """How each kernel gets a job step of its own, where there are such."""
    ending: Ending = field(default_factory=Ending)
