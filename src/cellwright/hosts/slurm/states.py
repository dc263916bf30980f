"""What SLURM says of a job, as what it means for an allocation. Pure; asks nobody. Words for people are ``wording``'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

import msgspec

__all__ = [
    "AllocationState",
    "Cause",
    "Ended",
    "Ending",
    "JobRow",
    "Pending",
    "Running",
    "Submitting",
    "Waiting",
    "position_of",
    "state_of",
]

Cause: TypeAlias = Literal[
    "cancelled",
    "preempted",
    "time_limit",
    "node_failed",
    "out_of_memory",
    "failed",
    "completed",
    "unknown",
    "never_submitted",
]
CAUSES: Final = get_args(Cause)


class JobRow(msgspec.Struct, frozen=True):
    """One job as SLURM lists it; times in seconds since 1970."""

    job_id: int
    state: str
    """SLURM's long word, such as ``PENDING``."""
    reason: str = ""
    node: str | None = None
    start: float | None = None
    """When it began, or is expected to."""
    end: float | None = None
    submitted: float | None = None
    restarts: int = 0
    partition: str = ""
    name: str = ""
    directory: str = ""
    exit_code: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """One job, of anybody, that waits."""

    job_id: str
    partitions: frozenset[str]
    priority: int
    reason: str


class Submitting(msgspec.Struct, frozen=True, tag="submitting"):
    """It was given to SLURM, whose answer is not known."""


class Pending(msgspec.Struct, frozen=True, tag="pending", omit_defaults=True):
    """It waits for its turn."""

    reason: str
    """SLURM's own word."""
    estimated_start: float | None = None
    position: int | None = None
    """1 is next: jobs of its partitions that are ready and stand before it by priority, itself counted."""
    restarts: int = 0


class Running(msgspec.Struct, frozen=True, tag="running", omit_defaults=True):
    """It has its node."""

    node: str
    started_at: float | None = None
    ends_at: float | None = None
    restarts: int = 0
    suspended: bool = False
    """Its processes are stopped, to go on later."""


class Ending(msgspec.Struct, frozen=True, tag="ending", omit_defaults=True):
    """Its processes are being ended; what for is not told yet."""

    restarts: int = 0


class Ended(msgspec.Struct, frozen=True, tag="ended", omit_defaults=True):
    cause: Cause
    ended_at: float | None = None
    exit_code: str = ""
    node: str | None = None


AllocationState: TypeAlias = Submitting | Pending | Running | Ending | Ended

_ENDS: Final[dict[str, Cause]] = {
    "BOOT_FAIL": "node_failed",
    "CANCELLED": "cancelled",
    "COMPLETED": "completed",
    "DEADLINE": "time_limit",
    "FAILED": "failed",
    "LAUNCH_FAILED": "node_failed",
    "NODE_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "RECONFIG_FAIL": "node_failed",
    "REVOKED": "cancelled",
    "TIMEOUT": "time_limit",
}
_STOPPED: Final = frozenset({"SUSPENDED", "STOPPED"})
_IN_THE_QUEUE: Final = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "UPDATE_DB"}
)
_BEING_ENDED: Final = frozenset({"COMPLETING", "STAGE_OUT"})
# Such jobs stand in nobody's way, however high their priority.
_NOT_READY: Final = ("BeginTime", "Dependency", "DependencyNeverSatisfied", "JobHeld", "JobArrayTaskLimit")


def state_of(row: JobRow, *, position: int | None = None) -> AllocationState:
    """What a job's row means for its allocation. A state that nobody knows is taken for one that goes on."""
    # `sacct` says by whom: "CANCELLED by 1000".
    state = row.state.upper().partition(" ")[0].rstrip("+")
    if (cause := _ENDS.get(state)) is not None:
        return Ended(cause=cause, ended_at=row.end, exit_code=row.exit_code, node=row.node)
    if state in _BEING_ENDED:
        return Ending(restarts=row.restarts)
    if state in _IN_THE_QUEUE or (state not in _STOPPED and row.node is None):
        return Pending(
            reason=_reason(row.reason, state),
            estimated_start=row.start,
            position=position,
            restarts=row.restarts,
        )
    return Running(
        node=row.node or "?",
        started_at=row.start,
        ends_at=row.end,
        restarts=row.restarts,
        suspended=state in _STOPPED,
    )


def position_of(row: JobRow, waiting: Sequence[Waiting]) -> int | None:
    """How a pending job stands in the queue of its partitions; None where it is not listed or is not ready itself."""
    partitions = frozenset(row.partition.split(","))
    mine = next((one for one in waiting if one.job_id == str(row.job_id)), None)
    if mine is None or not _ready(mine):
        return None
    before = (
        one
        for one in waiting
        if one is not mine
        and one.partitions & partitions
        and _ready(one)
        and (-one.priority, _number(one.job_id)) < (-mine.priority, row.job_id)
    )
    return 1 + sum(1 for _ in before)


def _reason(reason: str, state: str) -> str:
    if reason not in ("", "None"):
        return reason
    return "None" if state == "PENDING" else state.capitalize()


def _ready(job: Waiting) -> bool:
    return job.priority > 0 and not job.reason.startswith(_NOT_READY)


def _number(job_id: str) -> int:
    """The number of a job, or of the array that it is of: ``12_[3-9]``, ``12+1``."""
    digits = job_id.partition("_")[0].partition("+")[0]
    return int(digits) if digits.isdigit() else 0
