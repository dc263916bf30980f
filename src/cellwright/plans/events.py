"""Events of a plan and the effects that follow: the messages between ``machine`` and ``runner``. Only data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cellwright.plans.model import Attempt

__all__ = [
    "Asked",
    "Begun",
    "CheckResults",
    "Coded",
    "Effect",
    "Event",
    "Failed",
    "FailureKind",
    "Interrupted",
    "Passed",
    "Propose",
    "Proposed",
    "Ran",
    "RunCell",
    "Skipped",
    "WriteCell",
]

FailureKind: TypeAlias = Literal["recoverable", "unrecoverable", "network", "died"]
"""``died``: the kernel ended, and a checkpoint is there to go on from."""


# What happened -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """Somebody asks for the plan to be run, or to go on where it stopped."""

    at: float
    count: int
    """The number of the last execution so far."""
    missing: frozenset[str] = frozenset()
    """TODOs whose cells were deleted."""


@dataclass(frozen=True, slots=True)
class Coded:
    """Somebody gives new code for the current TODO, and asks to go on with it."""

    code: str
    at: float
    count: int
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody asks the fixers to fix the TODO that failed."""

    at: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """Somebody decides to leave the current TODO, and to go on after it."""

    reason: str | None
    at: float
    count: int
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ran:
    """The cell ran without an error."""

    attempt: Attempt
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passed:
    """What must hold after the cell holds."""

    at: float
    count: int
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Failed:
    """The cell failed, or what must hold after it does not."""

    attempt: Attempt
    kind: FailureKind
    suggestion: str
    """What to do where nothing is proposed."""
    count: int
    at: float


@dataclass(frozen=True, slots=True)
class Proposed:
    """The fixers were asked. ``source`` and ``packages`` are set where one of them is certain."""

    at: float
    count: int
    fixer: str | None = None
    reason: str | None = None
    source: str | None = None
    packages: tuple[str, ...] = ()
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Somebody stopped it."""

    note: str | None = None


Event: TypeAlias = Begun | Coded | Asked | Skipped | Ran | Passed | Failed | Proposed | Interrupted

# What is to be done --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteCell:
    """Put this source into the TODO's cell, which is made where it is not there yet."""

    todo_id: str
    source: str


@dataclass(frozen=True, slots=True)
class RunCell:
    """Go back to before the cell, if it has run, wait, install, and run it."""

    todo_id: str
    delay: int = 0
    """How many times the pause between tries is to be doubled, from 1; 0 is no pause."""
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResults:
    todo_id: str


@dataclass(frozen=True, slots=True)
class Propose:
    todo_id: str


Effect: TypeAlias = WriteCell | RunCell | CheckResults | Propose
