"""A plan as it is kept in a notebook's metadata: TODOs, each bound to a cell, what became of them, and what stopped it.

Only data, frozen, and how it is read and written. What happens to it is decided in ``machine`` and done in ``runner``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.errors import PlanError

__all__ = [
    "MAX_EARLIER",
    "MAX_NOTICES",
    "MAX_RETRIES",
    "MAX_TIMEOUT_S",
    "MAX_TODOS",
    "VALIDATION_ID",
    "Attempt",
    "Check",
    "CheckKind",
    "Outline",
    "Phase",
    "Plan",
    "Report",
    "Stage",
    "Todo",
    "TodoOutline",
    "TodoStatus",
    "plan_of",
    "with_plan",
]

MAX_RETRIES = 3
"""How often code that met a network error runs again as it is."""

MAX_TODOS = 100
MAX_TIMEOUT_S = 7 * 24 * 3600
MAX_EARLIER = 20
"""How many attempts of earlier rounds a TODO keeps; what came before those is only counted."""
MAX_NOTICES = 20

VALIDATION_ID = "validation"
_VERSION = 1
# As the notebook format has it for a cell.
_an_id = re.compile(r"[A-Za-z0-9_-]{1,64}")

TodoStatus: TypeAlias = Literal["pending", "running", "done", "failed", "skipped"]
Phase: TypeAlias = Literal["ready", "running", "waiting", "paused", "stopped", "succeeded"]
"""``waiting`` for code from the caller; ``paused`` by an interrupt; ``stopped`` by a failure that a report tells."""

Stage: TypeAlias = Literal["running", "checking", "fixing"]
"""What a running TODO is at."""

CheckKind: TypeAlias = Literal["expression", "output", "file"]


class Check(msgspec.Struct, frozen=True):
    """What must hold after a TODO's cell: an expression is true, an output appears, a file exists.

    An ``output`` is a text that is among what the cell put out, or a MIME type such as ``image/png``.
    """

    kind: CheckKind
    value: str


class TodoOutline(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step as it was asked for."""

    description: str
    code: str | None = None
    """None: the caller gives it when its turn comes."""
    checks: tuple[Check, ...] = ()
    depends_on: tuple[int, ...] = ()
    """Numbers of earlier steps, from 1."""
    explanation: str = ""
    """More for the Markdown cell before it."""
    timeout_s: float | None = None
    language: str | None = None
    """What its code is in, where that is not the notebook's language; checks are in the notebook's."""


class Outline(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole plan as it was asked for, read from a file, or drafted."""

    problem: str
    todos: tuple[TodoOutline, ...]
    validation: TodoOutline | None = None
    """What decides, at the end, whether all of it succeeded."""
    draft: bool = False
    """Whether it was made by rule from the problem's words, and wants to be looked at."""
    description: str = ""
    """More for the notebook's first cell."""


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a TODO's cell that ended, or the one that is going on."""

    execution_id: str | None = None
    state: str = "running"
    """As the execution's, or ``rejected`` where a check failed."""
    seconds: float = 0.0
    error_type: str | None = None
    error: str | None = None
    verdict: str | None = None
    """How the error was classed."""
    fixer: str | None = None
    """What proposed the source of this attempt, if not the plan."""
    reason: str | None = None
    """Why it proposed that."""
    diff: str | None = None
    """How the source became the one of this attempt."""
    note: str | None = None
    """What else to know: that nothing could be undone before it, say."""


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step, and what became of it."""

    id: str
    description: str
    status: TodoStatus = "pending"
    code: str | None = None
    """As it was given; none once it stands in the cell."""
    checks: tuple[Check, ...] = ()
    depends_on: tuple[str, ...] = ()
    explanation: str = ""
    timeout_s: float | None = None
    language: str | None = None
    """Of its cell, where that is not the notebook's."""
    cell_id: str | None = None
    """The cell that holds its code; none before its turn."""
    attempts: tuple[Attempt, ...] = ()
    """Those of this round, at most as many as the settings allow."""
    earlier: tuple[Attempt, ...] = ()
    """Those of earlier rounds, as far as they are kept."""
    forgotten: int = 0
    """How many more there were."""
    forgotten_fixes: int = 0
    """How many of those were repairs."""
    retries: int = 0
    """How often this attempt was repeated for the network's sake."""
    seconds: float = 0.0
    files: tuple[str, ...] = ()
    """What its cell left in the working directory."""
    reason: str | None = None
    """Why it was skipped."""
    warnings: tuple[str, ...] = ()

    @property
    def tries(self) -> int:
        """How often it was tried in earlier rounds."""
        return self.forgotten + len(self.earlier)

    @property
    def fixes(self) -> int:
        """How many of all its attempts were repairs."""
        kept = sum(attempt.fixer is not None for attempt in (*self.earlier, *self.attempts))
        return self.forgotten_fixes + kept


class Report(msgspec.Struct, frozen=True):
    """Why a plan stopped."""

    cell: int
    """Which of the plan's cells, from 1."""
    todo: str
    error_type: str
    message: str
    fixes: int
    suggestion: str
    recoverable: bool
    todo_id: str
    cell_id: str | None = None

    @property
    def text(self) -> str:
        return (
            f"❌ Execution stopped at cell {self.cell}\n"
            f"TODO: {self.todo}\n"
            f"Error Type: {self.error_type}\n"
            f"Error Message: {self.message}\n"
            f"Attempted Fixes: {self.fixes}\n"
            f"Suggestion: {self.suggestion}"
        )


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan. ``validation`` is one more TODO, which cannot be skipped."""

    problem: str
    todos: tuple[Todo, ...]
    validation: Todo | None = None
    phase: Phase = "ready"
    stage: Stage | None = None
    """What the TODO that runs is at."""
    since: int = 0
    """The number of the last execution before the attempt that goes on."""
    draft: bool = False
    report: Report | None = None
    notices: tuple[str, ...] = ()
    """What happened on the way that no TODO tells: a kernel that was lost and brought back. The last few."""
    started_at: float | None = None
    ended_at: float | None = None
    version: int = _VERSION

    @property
    def steps(self) -> tuple[Todo, ...]:
        """The TODOs, and the validation as the last."""
        return self.todos if self.validation is None else (*self.todos, self.validation)

    def step(self, todo_id: str) -> Todo:
        return next(todo for todo in self.steps if todo.id == todo_id)

    def number(self, todo_id: str) -> int:
        """Which step it is, from 1."""
        return next(place for place, todo in enumerate(self.steps, 1) if todo.id == todo_id)

    @property
    def current(self) -> Todo | None:
        """The first step that is neither done nor skipped."""
        return next((todo for todo in self.steps if todo.status not in ("done", "skipped")), None)


def plan_of(metadata: Mapping[str, Any]) -> Plan | None:
    """The plan in a notebook's metadata, if there is one.

    Raises:
        PlanError: there is one that cannot be read.
    """
    ours = metadata.get("cellwright")
    if not isinstance(ours, Mapping) or "plan" not in ours:
        return None
    try:
        plan = msgspec.convert(ours["plan"], Plan)
    except msgspec.ValidationError as error:
        raise _unreadable(str(error)) from error
    if (fault := _fault(plan)) is not None:
        raise _unreadable(fault)
    return plan


def _unreadable(why: str) -> PlanError:
    return PlanError(
        f"The plan in the notebook's metadata cannot be read: {why}",
        hint="Remove metadata.cellwright.plan from the .ipynb file, and make a plan again",
    )


def _fault(plan: Plan) -> str | None:
    """What no plan of ours can say, in a notebook that somebody else may have written."""
    if plan.version != _VERSION:
        return f"it is of version {plan.version}, and this Cellwright reads version {_VERSION}"
    if not 1 <= len(plan.todos) <= MAX_TODOS:
        return f"it has {len(plan.todos)} steps, and 1 to {MAX_TODOS} are allowed"
    validation = [plan.validation.id] if plan.validation is not None else []
    if validation not in ([], [VALIDATION_ID]) or any(todo.id == VALIDATION_ID for todo in plan.todos):
        return f"a step is called {VALIDATION_ID}, or the validation is not"
    known: set[str] = set()
    for todo in plan.steps:
        if (fault := _step_fault(todo, known)) is not None:
            return fault
        known.add(todo.id)
    if plan.phase == "running" and (plan.stage is None or plan.current is None or not plan.current.attempts):
        return "it is running, and nothing of it runs"
    return None


def _step_fault(todo: Todo, known: set[str]) -> str | None:
    if not _an_id.fullmatch(todo.id) or todo.id in known or todo.cell_id not in (None, todo.id):
        return f"{todo.id[:64]!r} is no id for a step, or that of another"
    if not known.issuperset(todo.depends_on):
        return f"step {todo.id} depends on what is no earlier step"
    if todo.timeout_s is not None and not 0 < todo.timeout_s <= MAX_TIMEOUT_S:
        return f"step {todo.id} has a time-out of {todo.timeout_s:g} seconds"
    if todo.status in ("running", "failed") and not todo.attempts:
        return f"step {todo.id} is {todo.status}, and was never tried"
    return None


def with_plan(metadata: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The same metadata with this plan."""
    ours = metadata.get("cellwright")
    kept = dict(ours) if isinstance(ours, Mapping) else {}
    return {**metadata, "cellwright": {**kept, "plan": msgspec.to_builtins(plan)}}
