"""What is told of a kernel that is ready: how strongly it is confined, what is missing there, where it works. Pure."""

from __future__ import annotations

import msgspec

from cellwright.hosts import protocol
from cellwright.kernels import Kernel
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.tiers import LOSSES, NO_DOOR, SOFT_CPUS, Finding
from cellwright.sandbox.workspace import Place

__all__ = ["losses", "mode_of", "ready_elsewhere", "succeeding"]


def ready_elsewhere(kernel: Kernel) -> protocol.KernelReady:
    """What is told of a kernel on a Jupyter server."""
    return protocol.KernelReady(
        pid=kernel.process.pid,
        started_by=kernel.started_by,
        interpreter=None,
        language=kernel.language,
        tier="remote",
        losses=LOSSES["remote"],
        remote=kernel.remote,
        remote_ours=kernel.remote_ours,
        remote_languages=kernel.remote_languages,
    )


def succeeding(ready: protocol.KernelReady, kernel: Kernel, lost: list[str]) -> protocol.KernelReady:
    """What is told of a kernel that goes on from a checkpoint: as of the one before it, but for what is its own."""
    own = {"pid": kernel.process.pid, "started_by": kernel.started_by, "lost": (*kernel.lost, *lost)}
    return msgspec.structs.replace(ready, **own)


def losses(
    finding: Finding | None, options: protocol.HostOptions, narrowed: Policy | None, kernel: Kernel
) -> tuple[str, ...]:
    """What a session does without, beyond its tier's."""
    if finding is None:
        return LOSSES["none"]
    lost = finding.losses
    policy = narrowed or options.policy
    if (
        options.opening is not None
        and kernel.door is None
        and (narrowed is None or narrowed.network != "off")
    ):
        lost = (*lost, NO_DOOR)
    if policy is not None and policy.cpus is not None and not finding.shares_processors:
        lost = (*lost, SOFT_CPUS)
    return lost


def mode_of(request: protocol.StartKernel, place: Place | None) -> Mode:
    if place is not None:
        return place.mode
    # Nothing is confined: a folder of its own can be had, a view of the project cannot.
    return "private" if request.place is not None and request.place.mode == "private" else "direct"
