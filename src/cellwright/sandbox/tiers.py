"""How strong the isolation is on this machine, in words that a person can act on. Pure (``probe`` finds it out)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from cellwright.sandbox.cgroups import Groups

__all__ = ["LOSSES", "NO_DOOR", "SOFT_CPUS", "UNSAFE_BANNER", "Finding", "Tier", "tier_of"]

Tier: TypeAlias = Literal["A", "B", "C", "remote", "none"]

LOSSES: dict[Tier, tuple[str, ...]] = {
    "A": (),
    "B": (
        "the memory limit is per process, and watched for the whole tree",
        "no memory that processes share without a file",
    ),
    "C": (
        "no private network stack: sockets are refused altogether",
        "the memory limit is per process, and watched for the whole tree",
        "the disk quota is watched, not hard, and so is the number of processes unless root starts them",
        "no multiprocessing queues or shared memory, no Deno, no checkpoints",
        "changing a file's mode, owner or time by its path has no effect",
        "no overlay: sessions of agents get a folder of their own, with the project to read",
    ),
    "remote": (
        "no sandbox of ours: code can do whatever its Jupyter server lets it, and no limit of ours holds there",
        "after a cut only what the server kept is replayed; output that comes too fast it drops, and says so",
        "no checkpoints, no packages, and no working directory of ours: only code sees the files there",
    ),
    "none": ("nothing confines the code: it can do whatever this user can",),
}

NO_DOOR = (
    "the network stays closed, though the setting network opens it: its proxy needs a private network stack"
)

SOFT_CPUS = "max_session_cpus is rounded up to whole processors, and code can undo it"

UNSAFE_BANNER = (
    "UNSAFE: this session runs without a sandbox (unsafe_no_sandbox); its code can do whatever this user can"
)
SMALLEST_LANDLOCK = 6


@dataclass(frozen=True, slots=True)
class Finding:
    """What a trial found: the tier, what it loses, and the commands that would lift it."""

    tier: Tier
    losses: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """Why it is not a higher tier."""
    remedies: tuple[str, ...] = ()
    groups: Groups | None = None
    """The groups that kernels of tier A are put in."""

    @property
    def shares_processors(self) -> bool:
        """Whether a share of the processors is kept to exactly."""
        return self.groups is not None and "cpu" in self.groups.controllers


def tier_of(*, namespaces: bool, landlock: int, seccomp: bool, cgroup: bool) -> Tier:
    """The tier that these parts make."""
    if not seccomp or landlock == 0:
        return "none"
    if namespaces:
        return "A" if cgroup else "B"
    # Below ABI 6 code without a pid namespace could signal the user's other processes.
    return "C" if landlock >= SMALLEST_LANDLOCK else "none"
