"""What stands with an allocation, in sentences for people and with the next step. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cellwright.hosts.slurm.states import (
    AllocationState,
    Cause,
    Ended,
    Ending,
    Pending,
    Running,
    Submitting,
)

__all__ = ["Told", "duration", "reason_in_words", "told_state"]

_TODAY_S: Final = 20 * 3_600
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400

_AGAIN: Final = "`{start}` asks for another"
_ENDS: Final[dict[Cause, tuple[str, str]]] = {
    "cancelled": ("it was cancelled", _AGAIN),
    "preempted": ("it was preempted by a job of higher priority", _AGAIN),
    "time_limit": ("it reached its time limit", _AGAIN + ", with a longer --time if need be"),
    "node_failed": ("its node failed", _AGAIN),
    "out_of_memory": ("it ran out of memory", _AGAIN + ", with more --mem"),
    "failed": ("its program failed", "Its job.log says why; `cellwright status --json` has its directory"),
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
class Told:
    """One state for people: a line, and the next step where there is one."""

    text: str
    hint: str | None = None


def told_state(state: AllocationState, *, now: float, name: str | None = None) -> Told:
    """Where an allocation stands; ``name`` is its own, where it has one that must be said to have it again."""
    match state:
        case Submitting():
            return Told("given to SLURM, which has not answered")
        case Pending():
            return _told_pending(state, now)
        case Running(suspended=True):
            return Told(f"suspended by SLURM on {state.node}; it goes on by itself")
        case Running():
            left = f", {duration(state.ends_at - now)} left" if state.ends_at is not None else ""
            return Told(f"running on {state.node}{left}")
        case Ending():
            return Told("ending")
        case Ended():
            text, hint = _ENDS[state.cause]
            code = f" (exit code {state.exit_code})" if state.cause == "failed" and state.exit_code else ""
            where = f" ({state.node})" if state.cause == "node_failed" and state.node else ""
            start = "cellwright start" if name is None else f"cellwright start --name {name}"
            return Told(f"ended: {text}{code}{where}", hint.replace("{start}", start))


def reason_in_words(reason: str) -> tuple[str, str | None]:
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


def _told_pending(state: Pending, now: float) -> Told:
    words, hint = reason_in_words(state.reason)
    parts = ["pending"]
    if state.restarts:
        parts.append(f"requeued {state.restarts} time{'s' if state.restarts > 1 else ''}")
    if state.position is not None and hint is None:
        parts.append(f"place {state.position} in the queue")
    parts.append(words if words == state.reason else f"{words} ({state.reason})")
    if state.estimated_start is not None:
        parts.append(f"expected to start {_when(state.estimated_start, now)}")
    return Told(", ".join(parts), hint)


def _when(at: float, now: float) -> str:
    if at <= now:
        return "now"
    time = datetime.fromtimestamp(at).astimezone()
    clock = f"{time:%H:%M}" if at - now < _TODAY_S else f"{time:%Y-%m-%d %H:%M}"
    return f"in {duration(at - now)}, at {clock}"
