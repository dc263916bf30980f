"""How a host is reached: found or started, and told from one that is only out of reach. What is said is ``protocol``.

``local`` has the way to this machine's host, ``slurm`` those to hosts in allocations.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cellwright.errors import HostUnreachable
from cellwright.hosts.connection import HostConnection
from cellwright.hosts.local import HostPaths

__all__ = ["HostTransport", "NoTransport"]


class HostTransport(Protocol):
    """Connects to one host's process, wherever it runs."""

    @property
    def paths(self) -> HostPaths:
        """Where its journals lie; read when it is gone."""
        ...

    @property
    def beat_s(self) -> float | None:
        """How often it is asked for a sign of life; None where the system tells of its end."""
        ...

    async def connect(self) -> HostConnection:
        """A connection to the living host, starting one where that is possible.

        Raises:
            HostStartError: it cannot be started.
            HostPending: it will be there later.
            HostUnreachable: it lives, as far as anybody knows, but cannot be reached now.
            HostLost: it is gone and does not come back.
        """
        ...

    async def end(self) -> str | None:
        """Why the host is gone, in words, once that is certain; None if only the connection broke."""
        ...


@dataclass(frozen=True, slots=True)
class NoTransport:
    """A host that may well live, and that nobody here knows how to reach: SLURM's commands are not at hand."""

    name: str
    beat_s: float | None = 60.0

    @property
    def paths(self) -> HostPaths:
        return HostPaths(Path("/nonexistent"))

    async def connect(self) -> HostConnection:
        raise HostUnreachable(
            f"{self.name} is in a SLURM allocation, and `sbatch` is not on the PATH here",
            hint="Start the daemon where SLURM's commands are; the kernels there go on",
        )

    async def end(self) -> str | None:
        return None
