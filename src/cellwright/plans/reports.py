"""How a plan is told: as data for programs, in lines for people and agents. Pure; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import to_builtins

from cellwright.errors import PlanError
from cellwright.plans.checks import told
from cellwright.plans.model import Attempt, Plan, Todo, TodoStatus, plan_of

__all__ = [
    "MARKS",
    "done_text",
    "notes",
    "plan_brief",
    "plan_in",
    "plan_json",
    "status_text",
    "summary_text",
    "todo_line",
]

MARKS = {"pending": "·", "running": "▶", "done": "✓", "failed": "✗", "skipped": "↷"}
Json: TypeAlias = dict[str, Any]


def plan_json(plan: Plan, *, interrupted: bool = False) -> Json:
    """A plan as one object. ``interrupted``: it says that it is running, and nobody runs it."""
    found: Json = {
        "problem": plan.problem,
        "phase": "interrupted" if interrupted else plan.phase,
        "successful": plan.phase == "succeeded",
        "draft": plan.draft,
        "done": _count(plan, "done"),
        "skipped": _count(plan, "skipped"),
        "total": len(plan.todos),
        "seconds": _seconds(plan),
        "todos": [_todo_json(plan, todo) for todo in plan.todos],
    }
    if plan.validation is not None:
        found["validation"] = _todo_json(plan, plan.validation)
    if plan.report is not None and plan.phase == "stopped":
        found["report"] = {**to_builtins(plan.report), "text": plan.report.text}
    if plan.notices:
        found["notices"] = list(plan.notices)
    if plan.current is not None and plan.phase != "running":
        found["next"] = {
            "number": plan.number(plan.current.id),
            "description": plan.current.description,
            "needs_code": plan.current.cell_id is None and plan.current.code is None,
        }
    return found


def _todo_json(plan: Plan, todo: Todo) -> Json:
    about: Json = {
        "number": plan.number(todo.id),
        "description": todo.description,
        "status": todo.status,
        "attempts": len(todo.attempts),
        "seconds": todo.seconds,
        "cell_id": todo.cell_id,
        "accept": [told(check) for check in todo.checks],
        "depends_on": [plan.number(other) for other in todo.depends_on],
        "fixes": [_fix_json(attempt) for attempt in (*todo.earlier, *todo.attempts) if attempt.fixer],
        "attempts_before": todo.tries,
        "retries": todo.retries,
        "files": list(todo.files),
        "warnings": list(todo.warnings),
        "reason": todo.reason,
        "needs_code": todo.cell_id is None and todo.code is None,
    }
    last = todo.attempts[-1] if todo.attempts else None
    if last is not None and last.error_type is not None and todo.status in ("failed", "running"):
        about["error"] = f"{last.error_type}: {last.error}"
    always = ("number", "description", "status", "attempts", "seconds")
    return {key: value for key, value in about.items() if value or key in always}


def _fix_json(attempt: Attempt) -> Json:
    return {
        key: value
        for key in ("fixer", "reason", "diff", "state")
        if (value := getattr(attempt, key)) is not None
    }


def todo_line(plan: Plan, todo: Todo) -> str:
    """One step in one line."""
    tried = len(todo.attempts)
    facts = [
        f"{tried} attempt{'s' if tried != 1 else ''}" if tried > 1 else "",
        f"{todo.retries} retries" if todo.retries else "",
        f"{todo.seconds:.2f} s" if tried or todo.tries else "",
        f"skipped: {todo.reason}" if todo.status == "skipped" and todo.reason else "",
        "needs code" if todo.cell_id is None and todo.code is None and todo.status == "pending" else "",
    ]
    about = f"  ({', '.join(fact for fact in facts if fact)})" if any(facts) else ""
    return f"{MARKS[todo.status]} {plan.number(todo.id)}. {todo.description}{about}"


def status_text(plan: Plan) -> str:
    """Every step in a line, with its warnings, and what else is to be known."""
    return "\n".join([*(todo_line(plan, todo) for todo in plan.steps), *notes(plan)])


def notes(plan: Plan) -> list[str]:
    """What else is to be known of a plan, beside its steps."""
    lines = [f"warning: step {plan.number(todo.id)}: {text}" for todo in plan.steps for text in todo.warnings]
    lines += [f"notice: {text}" for text in plan.notices]
    return [*lines, "This plan is a draft, made by rule: look it over"] if plan.draft else lines


def plan_brief(plan: Plan) -> str:
    """A plan in a few words."""
    todo = plan.current
    at = f", at {plan.number(todo.id)}. {todo.description}" if todo is not None else ""
    tried = f", attempt {len(todo.attempts)}" if todo is not None and len(todo.attempts) > 1 else ""
    return f"{plan.phase}, {done_text(plan)}{at}{tried}"


def done_text(plan: Plan) -> str:
    """How many TODOs are done, and how many were skipped."""
    skipped = _count(plan, "skipped")
    told = f"{_count(plan, 'done')} of {len(plan.todos)} TODOs"
    return f"{told}, {skipped} skipped" if skipped else told


def _count(plan: Plan, status: TodoStatus) -> int:
    return sum(todo.status == status for todo in plan.todos)


def plan_in(metadata: Mapping[str, Any]) -> str | None:
    """The plan in a notebook's metadata in a few words, also where it cannot be read; None where there is none."""
    try:
        plan = plan_of(metadata)
    except PlanError as error:
        return str(error)
    return plan_brief(plan) if plan is not None else None


def summary_text(plan: Plan) -> str:
    """What came of a plan that succeeded: times, attempts, files, and the validation's result."""
    done = [todo for todo in plan.todos if todo.status == "done"]
    skipped = [todo for todo in plan.todos if todo.status == "skipped"]
    attempts = sum(len(todo.attempts) + todo.tries for todo in plan.steps)
    fixes = sum(todo.fixes for todo in plan.steps)
    lines = [
        f"✅ Plan succeeded: {len(done)} of {len(plan.todos)} TODOs done"
        + (f", {len(skipped)} skipped by decision" if skipped else ""),
        f"Time: {_seconds(plan):.2f} s in cells",
        f"Attempts: {attempts}, of which fixes: {fixes}",
    ]
    files = list(dict.fromkeys(path for todo in plan.steps for path in todo.files))
    if files:
        lines.append(f"Files: {', '.join(files)}")
    lines.append(f"Validation: {'passed' if plan.validation is not None else 'none defined'}")
    return "\n".join(lines)


def _seconds(plan: Plan) -> float:
    return round(sum(todo.seconds for todo in plan.steps), 3)
