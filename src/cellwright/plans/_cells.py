"""How a plan looks in its notebook: the problem, the list of steps, and for each step a Markdown cell before its code.

Pure: tells the changes to make. When a step's turn comes is decided in ``machine``.
"""

from __future__ import annotations

import re

from cellwright.notebook import (
    CellAdded,
    CellMetadataSet,
    Change,
    Document,
    NotebookMetadataSet,
    SourceChanged,
)
from cellwright.notebook.languages import cell_metadata
from cellwright.plans._machine import WriteCell
from cellwright.plans.checks import told
from cellwright.plans.model import VALIDATION_ID, Outline, Plan, Todo, TodoOutline, with_plan

__all__ = ["keeping_changes", "new_plan", "opening_changes", "taken_ids"]

PLAN_CELL = "plan"
SKIP_TAG = "skip-execution"
_DRAFT = (
    "*This plan is a draft, made by rule from the words of the problem and the files at hand. Look it over.*"
)


def new_plan(outline: Outline, document: Document) -> Plan:
    """A plan that nobody has run, with ids for its cells that the notebook does not have yet."""
    prefix = next(
        prefix for prefix in _prefixes() if not any(_starts(cell.id, prefix) for cell in document.cells)
    )
    ids = [f"{prefix}{number}" for number in range(1, len(outline.todos) + 1)]
    todos = tuple(_todo(todo_id, todo, ids) for todo_id, todo in zip(ids, outline.todos, strict=True))
    validation = outline.validation
    return Plan(
        outline.problem,
        todos,
        validation=_todo(VALIDATION_ID, validation, ids) if validation is not None else None,
        draft=outline.draft,
    )


def _prefixes() -> list[str]:
    return ["todo-", *(f"todo-{letter}-" for letter in "bcdefghijklmnopqrstuvwxyz")]


def _starts(cell_id: str, prefix: str) -> bool:
    return re.fullmatch(rf"{prefix}\d+(-text)?", cell_id) is not None


def _todo(todo_id: str, outline: TodoOutline, ids: list[str]) -> Todo:
    return Todo(
        todo_id,
        outline.description,
        code=outline.code,
        checks=outline.checks,
        depends_on=tuple(ids[number - 1] for number in outline.depends_on),
        explanation=outline.explanation,
        timeout_s=outline.timeout_s,
        language=outline.language,
    )


def opening_changes(document: Document, plan: Plan, *, description: str = "") -> list[Change]:
    """What a plan puts into its notebook before anything runs."""
    changes: list[Change] = []
    if "problem" in document and description:
        changes.append(SourceChanged("problem", f"# {plan.problem}\n\n{description}"))
    ids = [PLAN_CELL, *(f"{PLAN_CELL}-{number}" for number in range(2, len(document) + 3))]
    place = document.index("problem") + 1 if "problem" in document else len(document)
    changes.append(
        CellAdded(
            next(one for one in ids if one not in document),
            "markdown",
            _overview(plan),
            place,
            cell_metadata(explains=True),
        )
    )
    return [*changes, NotebookMetadataSet(with_plan(document.metadata, plan))]


def taken_ids(document: Document, plan: Plan) -> list[str]:
    """Cells of somebody else that a plan would write its own into."""
    return [todo.id for todo in plan.steps if todo.id in document or f"{todo.id}-text" in document]


def _overview(plan: Plan) -> str:
    lines = ["## Plan", "", *([_DRAFT, ""] if plan.draft else [])]
    for number, todo in enumerate(plan.todos, 1):
        needs = [str(plan.number(other)) for other in todo.depends_on]
        after = f" (after {', '.join(needs)})" if needs else ""
        lines.append(f"{number}. {todo.description}{after}")
    if plan.validation is not None:
        lines += ["", f"At the end: {plan.validation.description}"]
    return "\n".join(lines)


def keeping_changes(document: Document, plan: Plan, writes: list[WriteCell]) -> list[Change]:
    """What keeps the plan as it is now, with the cells that are written in the same step."""
    changes: list[Change] = []
    for write in writes:
        changes += _written(document, plan, plan.step(write.todo_id), write.source)
    changes += _left_out(document, plan)
    return [*changes, NotebookMetadataSet(with_plan(document.metadata, plan))]


def _left_out(document: Document, plan: Plan) -> list[Change]:
    """A cell that was skipped by decision is left out by whoever runs the whole notebook, and the text before it says so."""
    changes: list[Change] = []
    for todo in plan.todos:
        if todo.status != "skipped" or todo.id not in document or SKIP_TAG in document.cell(todo.id).tags:
            continue
        cell, text_id = document.cell(todo.id), f"{todo.id}-text"
        changes.append(CellMetadataSet(cell.id, {**cell.metadata, "tags": [*cell.tags, SKIP_TAG]}))
        if text_id in document:
            why = f": {' '.join(todo.reason.split())}" if todo.reason else ""
            changes.append(SourceChanged(text_id, f"{document.cell(text_id).source}\n\n*Skipped{why}*"))
    return changes


def _written(document: Document, plan: Plan, todo: Todo, source: str) -> list[Change]:
    if todo.id in document:
        return [SourceChanged(todo.id, source)]
    about = cell_metadata(language=todo.language)
    text_id = f"{todo.id}-text"
    if text_id in document:
        return [CellAdded(todo.id, "code", source, document.index(text_id) + 1, about)]
    place = _position(document, plan, todo)
    return [
        CellAdded(text_id, "markdown", _heading(plan, todo), place, cell_metadata(explains=True)),
        CellAdded(todo.id, "code", source, place + 1, about),
    ]


def _position(document: Document, plan: Plan, todo: Todo) -> int:
    """After the last earlier step that has a cell; at the end where none has, or it is the first."""
    earlier = plan.steps[: plan.number(todo.id) - 1]
    places = [document.index(other.id) + 1 for other in earlier if other.id in document]
    return max(places) if places else len(document)


def _heading(plan: Plan, todo: Todo) -> str:
    title = f"{plan.number(todo.id)}. {todo.description}" if todo.id != VALIDATION_ID else todo.description
    parts = [f"## {title}"]
    if todo.explanation:
        parts.append(todo.explanation)
    if todo.checks:
        parts.append(f"Done when {' and '.join(told(check) for check in todo.checks)}.")
    return "\n\n".join(parts)
