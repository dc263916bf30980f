"""How a plan goes on: every rule of it, as one pure function from a plan and an event to a plan and what is to be done.

It runs nothing and knows neither sessions nor kernels; ``runner`` does what it says and tells it what came of it. What
is to be done is done in order, and the next event is what the last of it led to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from msgspec.structs import replace

from cellwright.errors import PlanError
from cellwright.plans.model import (
    MAX_EARLIER,
    MAX_RETRIES,
    VALIDATION_ID,
    Attempt,
    Plan,
    Report,
    Todo,
)

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
    "Next",
    "Passed",
    "Propose",
    "Proposed",
    "Ran",
    "RunCell",
    "Skipped",
    "WriteCell",
    "advance",
]

CALLER = "caller"

_MAX_DEATHS = 1


@dataclass(frozen=True, slots=True)
class Next:
    """The plan as it is now, and what is to be done; nothing where it has come to a halt."""

    plan: Plan
    effects: tuple[Effect, ...] = ()


def advance(plan: Plan, event: Event, *, max_attempts: int = 3) -> Next:  # noqa: PLR0911  # one for each event
    """The one way in which a plan changes.

    Raises:
        PlanError: the event does not fit the plan as it is.
    """
    match event:
        case Begun():
            return _begin(plan, event)
        case Coded():
            return _take_code(plan, event)
        case Asked():
            return _ask(plan)
        case Skipped():
            return _skip(plan, event)
        case Ran():
            return _check(plan, event)
        case Passed():
            return _done(plan, event)
        case Failed():
            return _fail(plan, event)
        case Proposed():
            return _take_proposal(plan, event, max_attempts)
        case Interrupted():
            return _pause(plan, event)
        case _:
            assert_never(event)


# What people and agents decide ---------------------------------------------------------------------------------------


def _begin(plan: Plan, event: Begun) -> Next:
    _refuse_running(plan)
    if plan.phase == "succeeded":
        return Next(plan)
    plan = replace(plan, started_at=plan.started_at or event.at)
    todo = plan.current
    if plan.phase == "stopped" and todo is not None and todo.status == "failed":
        plan = _with(plan, _new_round(todo))
    return _go_on(plan, event.at, event.count, event.missing)


def _take_code(plan: Plan, event: Coded) -> Next:
    _refuse_running(plan)
    todo = _current(plan)
    plan = replace(plan, started_at=plan.started_at or event.at)
    # Code for a step that never ran is its first attempt; any other is somebody's fix.
    repaired = CALLER if todo.cell_id is not None and (todo.attempts or todo.tries) else None
    todo = _new_round(todo)
    attempt = Attempt(fixer=repaired, diff=event.diff if repaired else None)
    started = replace(todo, status="running", cell_id=todo.id, code=None, attempts=(attempt,))
    return Next(
        _at_work(_with(plan, started), event.count), (WriteCell(todo.id, event.code), RunCell(todo.id))
    )


def _ask(plan: Plan) -> Next:
    _refuse_running(plan)
    todo = _current(plan)
    if todo.status != "failed":
        raise PlanError(
            "Nothing has failed that could be fixed", hint="Give code for the step, or run the plan"
        )
    # What failed last is the first of the new round: it is what the fixers look at.
    last = todo.attempts[-1:]
    fresh = replace(_put_by(todo, todo.attempts[:-1]), attempts=last, status="running", retries=0)
    # The report is kept for another stop, as where a cell fails: the fixers may have nothing to say.
    return Next(replace(_with(plan, fresh), phase="running", stage="fixing"), (Propose(todo.id),))


def _skip(plan: Plan, event: Skipped) -> Next:
    _refuse_running(plan)
    todo = _current(plan)
    if todo.id == VALIDATION_ID:
        raise PlanError(
            "The validation decides whether the plan succeeded, and cannot be skipped",
            hint="Give it other code, or fix the steps before it",
        )
    plan = replace(plan, started_at=plan.started_at or event.at)
    skipped = replace(_with(plan, replace(todo, status="skipped", reason=event.reason)), report=None)
    warned = skipped
    for other in _dependents(skipped, todo.id):
        warning = f"It depends on step {plan.number(todo.id)} ({todo.description}), which was skipped"
        warned = _with(warned, replace(other, warnings=(*other.warnings, warning)))
    return _go_on(warned, event.at, event.count, event.missing)


def _dependents(plan: Plan, todo_id: str) -> list[Todo]:
    """Later steps that need this one, also by way of others."""
    needed, found = {todo_id}, []
    for todo in plan.steps:
        if needed.intersection(todo.depends_on):
            needed.add(todo.id)
            found.append(todo)
    return found


def _pause(plan: Plan, event: Interrupted) -> Next:
    todo = plan.current
    if plan.phase != "running" or todo is None:
        return Next(plan)
    *before, last = todo.attempts or (Attempt(),)
    stopped = replace(last, state="interrupted", note=event.note or last.note)
    paused = replace(_put_by(todo, (stopped,)), status="pending", attempts=tuple(before), retries=0)
    return Next(replace(_with(plan, paused), phase="paused", stage=None))


# What comes of a cell ------------------------------------------------------------------------------------------------


def _check(plan: Plan, event: Ran) -> Next:
    todo = _running(plan, "running")
    ran = replace(_ended(todo, event.attempt), files=event.files, seconds=_seconds(todo, event.attempt))
    return Next(replace(_with(plan, ran), stage="checking"), (CheckResults(todo.id),))


def _done(plan: Plan, event: Passed) -> Next:
    todo = _running(plan, "checking")
    last = replace(todo.attempts[-1], state="ok")
    done = replace(todo, status="done", attempts=(*todo.attempts[:-1], last))
    return _go_on(_with(plan, done), event.at, event.count, event.missing)


def _fail(plan: Plan, event: Failed) -> Next:
    todo = _running(plan, "running", "checking")
    spent_s = todo.seconds if plan.stage == "checking" else _seconds(todo, event.attempt)
    todo = replace(_ended(todo, event.attempt), seconds=spent_s)
    again = _MAX_DEATHS if event.kind == "died" else MAX_RETRIES
    if event.kind in ("network", "died") and todo.retries < again:
        retried = replace(todo, retries=todo.retries + 1)
        delay = retried.retries if event.kind == "network" else 0
        return Next(_at_work(_with(plan, retried), event.count), (RunCell(todo.id, delay=delay),))
    plan = _with(plan, todo)
    if event.kind == "recoverable":
        # Kept for a stop: the fixers may have nothing to say.
        plan = replace(plan, stage="fixing", report=_report(plan, todo, event.suggestion, recoverable=True))
        return Next(plan, (Propose(todo.id),))
    return _stop(plan, todo, event.at, event.suggestion, recoverable=False)


def _take_proposal(plan: Plan, event: Proposed, max_attempts: int) -> Next:
    todo = _running(plan, "fixing")
    proposes = event.source is not None or bool(event.packages)
    if not proposes or len(todo.attempts) >= max_attempts:
        known = plan.report.suggestion if plan.report is not None else "Give other code for the step"
        suggestion = event.reason or known
        if proposes:
            suggestion = (
                f"{suggestion} Its attempts are used up: `fix` without code has that done in another round"
            )
        recoverable = plan.report is None or plan.report.recoverable
        return _stop(plan, todo, event.at, suggestion, recoverable=recoverable)
    attempt = Attempt(fixer=event.fixer, reason=event.reason, diff=event.diff)
    repaired = replace(todo, attempts=(*todo.attempts, attempt), retries=0)
    writes = (WriteCell(todo.id, event.source),) if event.source is not None else ()
    plan = replace(_at_work(_with(plan, repaired), event.count), report=None)
    return Next(plan, (*writes, RunCell(todo.id, packages=event.packages)))


# Going on and stopping -----------------------------------------------------------------------------------------------


def _go_on(plan: Plan, at: float, count: int, missing: frozenset[str]) -> Next:
    """To the next step that is open, if there is one."""
    todo = plan.current
    if todo is None:
        return Next(replace(plan, phase="succeeded", stage=None, report=None, ended_at=at))
    if todo.id in missing:
        todo = replace(todo, cell_id=None)
        plan = _with(plan, todo)
    if todo.cell_id is None and todo.code is None:
        return Next(replace(plan, phase="waiting", stage=None, report=None))
    writes = (WriteCell(todo.id, todo.code or ""),) if todo.cell_id is None else ()
    started = replace(
        todo, status="running", cell_id=todo.id, code=None, attempts=(*todo.attempts, Attempt()), retries=0
    )
    plan = replace(_at_work(_with(plan, started), count), report=None)
    return Next(plan, (*writes, RunCell(todo.id)))


def _stop(plan: Plan, todo: Todo, at: float, suggestion: str, *, recoverable: bool) -> Next:
    stopped = _with(plan, replace(todo, status="failed"))
    report = _report(stopped, todo, suggestion, recoverable=recoverable)
    return Next(replace(stopped, phase="stopped", stage=None, report=report, ended_at=at))


def _report(plan: Plan, todo: Todo, suggestion: str, *, recoverable: bool) -> Report:
    last = todo.attempts[-1]
    return Report(
        cell=plan.number(todo.id),
        todo=todo.description,
        error_type=last.error_type or last.state,
        message=last.error or "",
        fixes=todo.fixes,
        suggestion=suggestion,
        recoverable=recoverable,
        todo_id=todo.id,
        cell_id=todo.cell_id,
    )


def _new_round(todo: Todo) -> Todo:
    return replace(_put_by(todo, todo.attempts), status="pending", attempts=(), retries=0, reason=None)


def _put_by(todo: Todo, ended: tuple[Attempt, ...]) -> Todo:
    """The step with these among its earlier attempts, of which it keeps the last."""
    every = (*todo.earlier, *ended)
    gone, kept = every[:-MAX_EARLIER], every[-MAX_EARLIER:]
    fixes = sum(attempt.fixer is not None for attempt in gone)
    return replace(
        todo,
        earlier=kept,
        forgotten=todo.forgotten + len(gone),
        forgotten_fixes=todo.forgotten_fixes + fixes,
    )


def _at_work(plan: Plan, count: int) -> Plan:
    return replace(plan, phase="running", stage="running", since=count, report=None, ended_at=None)


def _ended(todo: Todo, attempt: Attempt) -> Todo:
    """The step whose attempt ended like this; where its source came from is known from its beginning."""
    *before, begun = todo.attempts
    told = replace(attempt, fixer=begun.fixer, reason=begun.reason, diff=begun.diff)
    return replace(todo, attempts=(*before, told))


def _seconds(todo: Todo, attempt: Attempt) -> float:
    return round(todo.seconds + attempt.seconds, 3)


def _with(plan: Plan, todo: Todo) -> Plan:
    """The plan with one of its steps as it is now."""
    if todo.id == VALIDATION_ID:
        return replace(plan, validation=todo)
    return replace(plan, todos=tuple(todo if other.id == todo.id else other for other in plan.todos))


def _current(plan: Plan) -> Todo:
    if plan.current is None:
        raise PlanError("Every step of the plan is done or skipped", hint="Verify it, or make another plan")
    return plan.current


def _running(plan: Plan, *stages: str) -> Todo:
    todo = plan.current
    if plan.phase != "running" or todo is None or plan.stage not in stages:
        raise PlanError(f"The plan is {plan.phase} ({plan.stage}), and not where this belongs")
    return todo


def _refuse_running(plan: Plan) -> None:
    if plan.phase == "running":
        raise PlanError("The plan is running", hint="Wait for it, or interrupt it")


# Events of a plan and the effects that follow: the messages between ``machine`` and ``runner``. Only data.

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
