"""Whether an outline, whoever made it, is one that can be carried out; and how it is tidied before it is.

Pure. How outlines are read from files stands in ``plan_files``, how they are made by rule in ``drafts``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec.structs import replace

from cellwright.errors import PlanError
from cellwright.notebook.languages import find_language
from cellwright.plans.checks import check_source, told
from cellwright.plans.model import MAX_TIMEOUT_S, MAX_TODOS, Outline, TodoOutline

__all__ = ["DEFAULT_VALIDATION", "Fault", "checked_outline", "fault_of"]

DEFAULT_VALIDATION = "Validation"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an outline cannot be carried out."""

    number: int
    """The step it is in, from 1; 0 for the plan as a whole, one after the last step for the validation."""
    message: str
    hint: str


def checked_outline(outline: Outline, *, max_todos: int = MAX_TODOS, language: str = "python") -> Outline:
    """The same outline, tidied: no white space around texts, none but real code, each dependency once.

    A validation without code gets code that asserts its expressions.

    Raises:
        PlanError: it has no steps or too many, an empty description, a dependency on itself, a later step or none, a
            time that is none, or a validation that checks nothing.
    """
    fault = fault_of(outline, max_todos=max_todos)
    if fault is not None:
        raise PlanError(fault.message, hint=fault.hint)
    tidy = _tidy(outline)
    if tidy.validation is None:
        return tidy
    return replace(tidy, validation=_with_code(tidy.validation, language))


def fault_of(outline: Outline, *, max_todos: int = MAX_TODOS) -> Fault | None:
    """The first thing that is wrong with an outline, if anything is."""
    outline = _tidy(outline)
    if not outline.problem:
        return Fault(0, "the plan has no problem", "Say in a line what is to be solved")
    if not outline.todos:
        return Fault(0, "the plan has no steps", "Give it at least one, with a description")
    if len(outline.todos) > max_todos:
        return Fault(
            max_todos + 1,
            f"the plan has {len(outline.todos)} steps, and {max_todos} are allowed",
            "Join steps, or make several plans",
        )
    for number, todo in enumerate(outline.todos, 1):
        fault = _step_fault(number, todo, len(outline.todos))
        if fault is not None:
            return fault
    if outline.validation is not None:
        return _validation_fault(len(outline.todos) + 1, outline.validation)
    return None


def _step_fault(number: int, todo: TodoOutline, count: int) -> Fault | None:
    if not todo.description:
        return Fault(number, f"step {number} has no description", "Say in a line what it does")
    for other in todo.depends_on:
        if other == number:
            return Fault(number, f"step {number} depends on itself", "Leave it out")
        if not 1 <= other <= count:
            return Fault(
                number,
                f"step {number} depends on step {other}, which is not there",
                f"There are steps 1 to {count}",
            )
        if other > number:
            return Fault(
                number,
                f"step {number} depends on step {other}, which comes after it",
                "Steps run in their order: move one of them",
            )
    return _time_fault(number, f"step {number}", todo)


def _validation_fault(number: int, validation: TodoOutline) -> Fault | None:
    if validation.depends_on:
        return Fault(number, "the validation has dependencies", "Leave them out: it comes after every step")
    if validation.code is None and not any(check.kind != "output" for check in validation.checks):
        return Fault(
            number,
            "the validation checks nothing",
            "Give it code that fails where the result is wrong, or an expression or file to check",
        )
    if validation.code is None and any(check.kind == "output" for check in validation.checks):
        return Fault(
            number, "the validation checks an output and has no code", "Give it code that puts it out"
        )
    return _time_fault(number, "the validation", validation)


def _time_fault(number: int, name: str, todo: TodoOutline) -> Fault | None:
    time_s = todo.timeout_s
    if time_s is None or (math.isfinite(time_s) and 0 < time_s <= MAX_TIMEOUT_S):
        return None
    return Fault(
        number,
        f"the time-out of {name} is {time_s:g} seconds",
        f"Give it more than 0 and at most {MAX_TIMEOUT_S:,} seconds, or leave it out",
    )


def _tidy(outline: Outline) -> Outline:
    validation = outline.validation
    if validation is not None:
        validation = _tidy_todo(validation)
        validation = replace(validation, description=validation.description or DEFAULT_VALIDATION)
    return replace(
        outline,
        problem=outline.problem.strip(),
        description=outline.description.strip(),
        todos=tuple(map(_tidy_todo, outline.todos)),
        validation=validation,
    )


def _tidy_todo(todo: TodoOutline) -> TodoOutline:
    code = todo.code.strip("\n") if todo.code is not None and todo.code.strip() else None
    return replace(
        todo,
        description=" ".join(todo.description.split()),
        code=code,
        depends_on=tuple(dict.fromkeys(todo.depends_on)),
        explanation=todo.explanation.strip(),
    )


def _with_code(validation: TodoOutline, language: str) -> TodoOutline:
    if validation.code is not None:
        return validation
    known = find_language(language)
    mark = known.comment if known is not None else "#"
    lines = [
        check_source(check, language) if check.kind == "expression" else f"{mark} {told(check)}"
        for check in validation.checks
    ]
    rest = tuple(check for check in validation.checks if check.kind != "expression")
    return replace(validation, code="\n".join(lines), checks=rest)
