"""Turns SLURM's report of a job into the state of an allocation, and that state into a sentence. Pure; asks nobody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

import msgspec

__all__ = [
    "AllocationState",
    "Ended",
    "Ending",
    "JobRow",
    "Pending",
    "Running",
    "StateText",
    "Submitting",
    "Waiting",
    "duration",
    "position_of",
    "state_of",
    "state_text",
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


# What stands with an allocation, in sentences for people and with the next step. Pure.

_TODAY_S: Final = 20 * 3_600

_MINUTE_S: Final = 60

_HOUR_S: Final = 3_600

_DAY_S: Final = 86_400

_AGAIN: Final = "`{start}` asks for another"

_END_SENTENCES: Final[dict[Cause, tuple[str, str]]] = {
    "cancelled": ("it was cancelled", _AGAIN),
    "preempted": ("it was preempted by a job of higher priority", _AGAIN),
    "time_limit": ("it reached its time limit", _AGAIN + ", with a longer --time if need be"),
    "node_failed": ("its node failed", _AGAIN),
    "out_of_memory": ("it ran out of memory", _AGAIN + ", with more --mem"),
    "failed": (
        "its program failed",
        "Its job.log says why; `cellwright host status --json` has its directory",
    ),
    "completed": ("its program ended", _AGAIN),
    "unknown": ("it ended, and SLURM no longer says why", _AGAIN),
    "never_submitted": ("SLURM never took it", _AGAIN),
}

# By the beginning of SLURM's word: what it means, and what to do where waiting does not help.
_REASONS: Final[tuple[tuple[str, str, str | None], ...]] = (
    ("Priority", "jobs of higher priority go first", None),
    ("Resources", "it waits for a free node", None),
    ("None", "SLURM has not looked at it yet", None),
    ("BeginTime", "it may not begin yet", None),
    ("Cleaning", "it was requeued and what was there before is cleared away", None),
    ("Requeue", "it was requeued", None),
    ("Dependency", "it waits for another job", None),
    ("Licenses", "it waits for a licence", None),
    ("Reservation", "it waits for its reservation", None),
    ("JobHeldUser", "it is held", "Release it with `scontrol release`"),
    ("JobHeldAdmin", "an administrator holds it", "Ask your site's support"),
    (
        "PartitionTimeLimit",
        "its time limit is longer than the partition allows",
        "Start with a shorter --time",
    ),
    ("PartitionNodeLimit", "the partition allows fewer nodes", "Choose another --partition"),
    (
        "PartitionConfig",
        "no node of the partition has that much",
        "Start with fewer --cpus, less --mem or --gres",
    ),
    ("PartitionDown", "the partition is down", "Choose another --partition, or wait"),
    ("PartitionInactive", "the partition takes no jobs", "Choose another --partition"),
    ("BadConstraints", "no node has all that was asked for", "Start with another --constraint or less"),
    ("InvalidAccount", "the account is not valid", "Start with another --account"),
    ("InvalidQOS", "the quality of service is not valid", "Start with another --qos"),
    ("ReqNodeNotAvail", "the nodes it needs are down or reserved", None),
    ("Nodes required", "the nodes it needs are down or reserved", None),
    ("NodeDown", "a node that it needs is down", None),
    ("QOSMax", "it, or all of your jobs, would exceed a limit of the quality of service", "Ask for less"),
    ("QOSMin", "it is below the least that the quality of service takes", "Ask for more"),
    ("QOS", "a limit of the quality of service is used up; it starts when others end", None),
    ("AssocMax", "it, or all of your jobs, would exceed a limit of your account", "Ask for less"),
    ("Assoc", "a limit of your account is used up; it starts when others end", None),
    ("launch failed", "its node could not start it", "Stop it and start another"),
    ("job requeued in held", "it was requeued and is held", "Stop it and start another"),
)


@dataclass(frozen=True, slots=True)
class StateText:
    """One state for people: a line, and the next step where there is one."""

    text: str
    hint: str | None = None


def state_text(state: AllocationState, *, now: float, name: str | None = None) -> StateText:
    """Where an allocation stands; ``name`` is its own, where it has one that must be said to have it again."""
    match state:
        case Submitting():
            return StateText("given to SLURM, which has not answered")
        case Pending():
            return _pending_text(state, now)
        case Running(suspended=True):
            return StateText(f"suspended by SLURM on {state.node}; it goes on by itself")
        case Running():
            left = f", {duration(state.ends_at - now)} left" if state.ends_at is not None else ""
            return StateText(f"running on {state.node}{left}")
        case Ending():
            return StateText("ending")
        case Ended():
            text, hint = _END_SENTENCES[state.cause]
            code = f" (exit code {state.exit_code})" if state.cause == "failed" and state.exit_code else ""
            where = f" ({state.node})" if state.cause == "node_failed" and state.node else ""
            start = "cellwright host start" if name is None else f"cellwright host start --name {name}"
            return StateText(f"ended: {text}{code}{where}", hint.replace("{start}", start))


def reason_text(reason: str) -> tuple[str, str | None]:
    """What SLURM's reason for waiting means, and what to do where waiting does not help."""
    for beginning, words, hint in _REASONS:
        if reason.startswith(beginning):
            return words, hint
    return reason, None


def duration(seconds: float) -> str:
    """A time span as a person says it."""
    whole = max(0, math.floor(seconds))
    if whole < 2 * _MINUTE_S:
        return f"{whole} s"
    if whole < 2 * _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def _pending_text(state: Pending, now: float) -> StateText:
    words, hint = reason_text(state.reason)
    parts = ["pending"]
    if state.restarts:
        parts.append(f"requeued {state.restarts} time{'s' if state.restarts > 1 else ''}")
    if state.position is not None and hint is None:
        parts.append(f"place {state.position} in the queue")
    parts.append(words if words == state.reason else f"{words} ({state.reason})")
    if state.estimated_start is not None:
        parts.append(f"expected to start {_when(state.estimated_start, now)}")
    return StateText(", ".join(parts), hint)


def _when(at: float, now: float) -> str:
    if at <= now:
        return "now"
    time = datetime.fromtimestamp(at).astimezone()
    clock = f"{time:%H:%M}" if at - now < _TODAY_S else f"{time:%Y-%m-%d %H:%M}"
    return f"in {duration(at - now)}, at {clock}"
