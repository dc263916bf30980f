"""What can go wrong with hosts, and on the way to them."""

from __future__ import annotations

from cellwright.errors.base import CellwrightError

__all__ = [
    "HostCannot",
    "HostError",
    "HostLost",
    "HostPending",
    "HostRefused",
    "HostStartError",
    "HostUnreachable",
    "ShapeRefused",
    "SlurmFailed",
    "UnknownHost",
]


class HostError(CellwrightError):
    code = "host"


class HostStartError(HostError):
    code = "host_start"


class HostLost(HostError):
    code = "host_lost"


class HostUnreachable(HostError):
    """It lives, as far as anybody knows, and cannot be reached now; its kernels go on."""

    code = "host_unreachable"


class HostPending(HostError):
    """It waits for its turn; the message has its place in the queue, the reason and when it is expected."""

    code = "host_pending"


class UnknownHost(HostError):
    code = "unknown_host"


class HostCannot(HostError):
    """What was asked for is not to be had on this kind of host, with the reason."""

    code = "host_cannot"


class SlurmFailed(HostError):
    """A command of SLURM failed; ``refused`` where SLURM answered and said no, rather than not at all."""

    code = "slurm_failed"

    def __init__(self, message: str, *, refused: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refused = refused


class ShapeRefused(HostError):
    code = "shape_refused"


class HostRefused(HostError):
    """The host's refusal, with the code of the error that caused it there."""

    code = "host_refused"

    def __init__(self, message: str, *, cause: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.cause = cause
