"""What an engine asks of its host as a whole: limits, and how code is confined. Part of the ``protocol``."""

from __future__ import annotations

import msgspec

from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import Opening

__all__ = ["HostOptions"]


class HostOptions(msgspec.Struct, frozen=True):
    """The limits that a host keeps for the engine that attached last."""

    standby_kernels: int
    preload: tuple[str, ...]
    max_concurrent_starts: int
    start_timeout_s: float
    interrupt_grace_s: float
    max_output_bytes: int
    max_output_messages: int
    max_memory_fraction: float
    idle_s: float
    policy: Policy | None = None
    """What code may do; None, which only an explicit setting gives, is everything."""
    secret: tuple[str, ...] = ()
    """Directories that code never sees as a whole."""
    passed_environment: tuple[str, ...] = ()
    namespaces: bool = True
    packages: str = ""
    """The directory of all layers of packages, which every kernel may read."""
    opening: Opening | None = None
    """How far the network is open; None where it is closed."""
    max_checkpoints: int = 8
    """How many of one kernel are kept."""
    max_checkpoint_memory: int = 1 << 30
    """How much memory those of one kernel take together, beyond what they share with it."""
    allocation_idle_s: float | None = None
    """How long a host in an allocation stays, and the job with it, when nobody needs it; None is until its time is over."""
