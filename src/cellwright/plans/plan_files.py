"""Plan files: an outline in Markdown (``*.plan.md``) or TOML, read with errors that name the line, and written.

How each format is laid out stands in ``plan_markdown`` and ``plan_toml``. Nothing here knows sessions: whoever reads a
plan file makes a session in its language and gives the outline to it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from cellwright.errors import PlanError, PlanFileError
from cellwright.notebook.languages import canonical_language
from cellwright.plans.checks import parse_check
from cellwright.plans.model import MAX_TODOS, Check, Outline, TodoOutline
from cellwright.plans.outlines import checked_outline, fault_of
from cellwright.plans.plan_markdown import find_in_markdown, written_as_markdown
from cellwright.plans.plan_parts import Found, FoundPlan, FoundStep, Unreadable
from cellwright.plans.plan_toml import find_in_toml, written_as_toml

__all__ = ["MAX_PLAN_BYTES", "PlanFile", "PlanFileKind", "parse_plan", "read_plan", "write_plan"]

MAX_PLAN_BYTES = 1_000_000

PlanFileKind: TypeAlias = Literal["markdown", "toml"]

_KINDS: Mapping[str, PlanFileKind] = {".md": "markdown", ".markdown": "markdown", ".toml": "toml"}
_number = re.compile(r"(?:(?:step|todo)\s*|#)?(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What a plan file says."""

    outline: Outline
    language: str = "python"
    """That of its code, for the session that is to carry it out."""


def read_plan(path: Path, *, max_todos: int = MAX_TODOS) -> PlanFile:
    """Read a plan file; its name's end says in which format it is.

    Raises:
        PlanFileError: it cannot be read, or what it says is no plan; the message has the line.
    """
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise PlanFileError(
            f"{path.name} is no plan file by its name", hint="Name it something.plan.md, or something.toml"
        )
    content = _content(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PlanFileError(
            f"{path.name}, line {line}: it is not UTF-8", hint="Save the file as UTF-8"
        ) from error
    return parse_plan(text, kind=kind, name=path.name, max_todos=max_todos)


def parse_plan(text: str, *, kind: PlanFileKind, name: str, max_todos: int = MAX_TODOS) -> PlanFile:
    """Read a plan from a text; ``name`` is what errors call it.

    Raises:
        PlanFileError: what it says is no plan; the message has the line.
    """
    if len(text.encode(errors="replace")) > MAX_PLAN_BYTES:
        raise _too_large(name)
    text = text.replace("\r\n", "\n")
    try:
        found = find_in_markdown(text) if kind == "markdown" else find_in_toml(text)
        return _understood(found, max_todos)
    except Unreadable as error:
        raise PlanFileError(f"{name}, line {error.line}: {error.message}", hint=error.hint) from error


def write_plan(outline: Outline, kind: PlanFileKind, *, language: str = "python") -> str:
    """The text of a plan file that reads as this outline, tidied.

    Raises:
        PlanError: it is none that can be carried out, or has texts that this format would read as something else.
    """
    outline = checked_outline(outline, max_todos=max(MAX_TODOS, len(outline.todos)), language=language)
    if any(todo.language is not None for todo in outline.todos):
        raise PlanError(
            "The plan cannot be written as a file: a plan file has one language, and a TODO of it has its own",
            hint="Export the notebook instead",
        )
    text = (written_as_markdown if kind == "markdown" else written_as_toml)(outline, language)
    try:
        same = parse_plan(text, kind=kind, name="the plan", max_todos=len(outline.todos))
    except PlanFileError as error:
        raise PlanError(f"The plan cannot be written as {kind}: {error.message}", hint=error.hint) from error
    if same != PlanFile(outline, language):
        other = "toml" if kind == "markdown" else "markdown"
        raise PlanError(
            f"The plan cannot be written as {kind}: a text in it would be read as something else",
            hint=f"Write it as {other}",
        )
    return text


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PlanFileError(f"{path} is no plain file", hint="Name a file with a plan")
            content = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise PlanFileError(
            f"{path} cannot be read: {error.strerror}", hint="Name a file with a plan"
        ) from error
    if len(content) > MAX_PLAN_BYTES:
        raise _too_large(path.name)
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Does not wait for a writer, where the name is that of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _too_large(name: str) -> PlanFileError:
    return PlanFileError(
        f"{name} is larger than {MAX_PLAN_BYTES:,} bytes",
        hint="Keep data in files of its own, and read it in a step",
    )


def _understood(found: FoundPlan, max_todos: int) -> PlanFile:
    language = _language(found.languages)
    names = _names(found.steps)
    outline = Outline(
        found.problem,
        tuple(_todo(step, names, language) for step in found.steps),
        validation=_todo(found.validation, names, language) if found.validation is not None else None,
        draft=found.draft,
        description=found.description,
    )
    fault = fault_of(outline, max_todos=max_todos)
    if fault is not None:
        raise Unreadable(_line(found, fault.number), fault.message, fault.hint)
    try:
        return PlanFile(checked_outline(outline, max_todos=max_todos, language=language), language)
    except PlanError as error:
        raise Unreadable(_line(found, len(found.steps) + 1), error.message, error.hint or "") from error


def _line(found: FoundPlan, number: int) -> int:
    """Where a step stands; 0 is the plan itself, one after the last the validation."""
    steps = [*found.steps, *([found.validation] if found.validation is not None else [])]
    return steps[number - 1].line if 0 < number <= len(steps) else found.line


def _language(places: tuple[Found, ...]) -> str:
    known = [Found(canonical_language(place.text), place.line) for place in places]
    for place in known:
        if place.text != known[0].text:
            raise Unreadable(
                place.line,
                f"this is {place.text}, and line {known[0].line} is {known[0].text}: a plan has one language",
                "Write it in the same language, or make a plan of its own",
            )
    return known[0].text if known else "python"


def _names(steps: tuple[FoundStep, ...]) -> dict[str, int]:
    names: dict[str, int] = {}
    for number, step in enumerate(steps, 1):
        name = _name(step.description)
        if name and name in names:
            raise Unreadable(
                step.line, f"steps {names[name]} and {number} have the same name", "Give one of them another"
            )
        names[name] = number
    return names


def _name(text: str) -> str:
    return " ".join(text.split()).casefold()


def _todo(step: FoundStep, names: Mapping[str, int], language: str) -> TodoOutline:
    return TodoOutline(
        step.description,
        code=step.code.text if step.code is not None else None,
        checks=tuple(check for text in step.accept if (check := _check(text, language)) is not None),
        depends_on=tuple(number for text in step.depends_on for number in _numbers(text, names)),
        explanation=step.explanation,
        timeout_s=step.timeout_s,
    )


def _check(found: Found, language: str) -> Check | None:
    try:
        return parse_check(found.text, language)
    except PlanError as error:
        raise Unreadable(found.line, error.message, error.hint or "") from error


def _numbers(found: Found, names: Mapping[str, int]) -> list[int]:
    """The steps that a text names: one by its number or name, or several with commas between."""
    text = found.text.strip().strip("\"'`")
    if number := _number.fullmatch(text):
        return [int(number[1])]
    if _name(text) in names:
        return [names[_name(text)]]
    if "," in text:
        return [
            number
            for part in text.split(",")
            if part.strip()
            for number in _numbers(Found(part, found.line), names)
        ]
    raise Unreadable(
        found.line,
        f"there is no step {text!r} to depend on",
        "Name a step by its number, or by its whole heading",
    )
