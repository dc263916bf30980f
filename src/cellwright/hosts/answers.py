"""What a host tells of itself, of kernels and of checkpoints when it is asked. Part of the ``protocol``."""

from __future__ import annotations

from typing import Any

import msgspec

from cellwright.sandbox.policy import Mode
from cellwright.sandbox.tiers import Tier

__all__ = ["Attached", "CheckpointStatus", "KernelReady", "KernelStatus", "Resources"]


class KernelStatus(msgspec.Struct, frozen=True):
    kernel_id: str
    pid: int
    running: str | None
    waiting: tuple[str, ...]
    memory_bytes: int


class Resources(msgspec.Struct, frozen=True):
    """What a host has, and how much of it is in use."""

    node: str
    cpus: float
    load: float
    """Processes that want a processor, over the last minute."""
    memory_bytes: int
    memory_used: int
    tier: Tier | None = None
    """How strongly kernels are confined there; None while no kernel was started."""


class Attached(msgspec.Struct, frozen=True):
    """Who the host is; ``last_seq`` is its newest event, so that an engine knows when it has caught up."""

    incarnation: str
    last_seq: int
    pid: int
    version: str
    protocol: int
    kernels: tuple[KernelStatus, ...]
    resources: Resources | None = None


class CheckpointStatus(msgspec.Struct, frozen=True):
    """A checkpoint that is kept."""

    id: str
    name: str | None
    time: float
    private_bytes: int
    """The memory that would be free without it, when it was last looked at."""
    cannot_return: tuple[str, ...] = ()
    """What will not come back with it, in words."""
    files: int = 0
    files_left_out: tuple[str, ...] = ()
    """Files that were not kept, each with the reason."""


class KernelReady(msgspec.Struct, frozen=True):
    pid: int
    started_by: str
    interpreter: str | None
    language: dict[str, Any]
    tier: Tier = "none"
    """How strongly it is confined; see the security page for what each promises."""
    losses: tuple[str, ...] = ()
    mode: Mode = "direct"
    cwd: str = ""
    python_version: str = ""
    """Such as ``3.12``; of a Python kernel."""
    search_path: tuple[str, ...] = ()
    """Where its interpreter imports from, as found before any code of the session ran."""
    lost: tuple[str, ...] = ()
    """What did not come back, where it goes on from a checkpoint."""
    remote: tuple[str, str] | None = None
    """The kernel's id on its Jupyter server and the session id of our connection, by which it can be found again."""
    remote_ours: bool = False
    """Whether it was started there for us, and ends with us."""
    remote_languages: tuple[str, ...] = ()
    """What kernels its server has besides, by language; none where it does not tell."""
