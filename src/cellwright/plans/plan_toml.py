"""Plan files in TOML: ``problem``, a ``[[todo]]`` for each step, and a ``[validation]``.

Finds the parts and writes them; what they mean, and whether they fit together, is for ``plan_files``.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from cellwright.plans.checks import check_text
from cellwright.plans.model import Outline, TodoOutline
from cellwright.plans.outlines import DEFAULT_VALIDATION
from cellwright.plans.plan_parts import Found, FoundPlan, FoundStep, Unreadable

__all__ = ["find_in_toml", "written_as_toml"]

_PLAN_KEYS = ("problem", "description", "language", "draft", "todo", "validation")
_TODO_KEYS = ("description", "code", "accept", "depends_on", "explanation", "timeout_s")
_where = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_header = re.compile(r"\s*\[{1,2}\s*[\"']?([\w-]+)[\"']?\s*\]{1,2}")
_key = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")
_uncommon = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def find_in_toml(text: str) -> FoundPlan:
    """Find the parts of a plan.

    Raises:
        Unreadable: it is no TOML, or has keys or values that a plan has not.
    """
    lines = _Lines(text)
    plan = _Table(_parsed(text), lines)
    plan.refuse_other_than(_PLAN_KEYS)
    todos = plan.values.get("todo", [])
    if not isinstance(todos, list) or not all(isinstance(todo, Mapping) for todo in todos):
        raise Unreadable(
            plan.line("todo"), "'todo' is no list of tables", "Begin each step with a line [[todo]]"
        )
    validation = plan.values.get("validation")
    if validation is not None and not isinstance(validation, Mapping):
        raise Unreadable(
            plan.line("validation"), "'validation' is no table", "Begin it with a line [validation]"
        )
    language = plan.text("language")
    return FoundPlan(
        line=plan.line("problem"),
        problem=plan.text("problem"),
        description=plan.text("description"),
        steps=tuple(_step(_Table(todo, lines, "todo", number)) for number, todo in enumerate(todos, 1)),
        validation=_step(_Table(validation, lines, "validation", 1)) if validation is not None else None,
        draft=plan.truth("draft"),
        languages=(Found(language.lower(), plan.line("language")),) if language else (),
    )


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _where.fullmatch(str(error))
        line = text.count("\n") + 1 if where is None or where[2] is None else int(where[2])
        raise Unreadable(
            line, f"it is no TOML: {where[1] if where else error}", "Correct this line"
        ) from error
    except (RecursionError, ValueError) as error:  # brackets without end; a number with thousands of digits
        raise Unreadable(1, f"it is no TOML: {error}", "A plan needs no nested lists") from error


def _step(table: _Table) -> FoundStep:
    table.refuse_other_than(_TODO_KEYS)
    code = table.text("code")
    return FoundStep(
        line=table.line("description"),
        description=table.text("description"),
        explanation=table.text("explanation"),
        code=Found(code, table.line("code")) if code else None,
        accept=table.list("accept", str),
        depends_on=table.list("depends_on", int, str),
        timeout_s=table.number("timeout_s"),
    )


class _Table:
    """One table's values, each asked for as what it must be."""

    def __init__(self, values: Mapping[str, Any], lines: _Lines, name: str = "", number: int = 0) -> None:
        self.values = values
        self._lines = lines
        self._name = name
        self._number = number

    def line(self, key: str) -> int:
        return self._lines.of(self._name, self._number, key)

    def refuse_other_than(self, known: tuple[str, ...]) -> None:
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.6)
                meant = f"Did you mean {near[0]!r}? " if near else ""
                raise Unreadable(
                    self.line(key), f"unknown key {key!r}", f"{meant}Known are {', '.join(known)}"
                )

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise Unreadable(self.line(key), f"{key!r} is no text", "Put it in quotation marks")
        return value

    def truth(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise Unreadable(self.line(key), f"{key!r} is neither true nor false", "Write true or false")
        return value

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unreadable(
                self.line(key), f"{key!r} is no number", "Write the seconds as a number, without a unit"
            )
        return float(value)

    def list(self, key: str, *types: type) -> tuple[Found, ...]:
        """One value or a list of them, as texts."""
        value = self.values.get(key, [])
        values = value if isinstance(value, list) else [value]
        if any(isinstance(one, bool) or not isinstance(one, types) for one in values):
            names = " or ".join({"str": "texts", "int": "numbers"}[kind.__name__] for kind in types)
            raise Unreadable(
                self.line(key), f"{key!r} has something else than {names}", f"Write a list of {names}"
            )
        return tuple(Found(str(one), self.line(key)) for one in values)


class _Lines:
    """Where tables and their keys stand, which the standard library's parser does not tell."""

    def __init__(self, text: str) -> None:
        self._found: dict[tuple[str, int, str], int] = {}
        counts: dict[str, int] = {}
        table = ""
        for number, line in _outside_strings(text):
            if header := _header.match(line):
                table = header[1]
                counts[table] = counts.get(table, 0) + 1
                self._found[table, counts[table], ""] = number
                self._found.setdefault(("", 0, table), number)
            elif key := _key.match(line):
                self._found.setdefault((table, counts.get(table, 0), key[1]), number)

    def of(self, table: str, number: int, key: str) -> int:
        """The line of a key; where it is not found, that of its table, or of what the table stands in."""
        places = ((table, number, key), (table, number, ""), ("", 0, table))
        return next((self._found[place] for place in places if place in self._found), 1)


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """The lines that do not begin within a string of several lines, each with its number."""
    mark = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not mark:
            yield number, line
        rest = line
        while (sought := mark or _opening(rest)) and sought in rest:
            rest = rest.split(sought, 1)[1]
            mark = "" if mark else sought


def _opening(line: str) -> str:
    """The mark that opens a string of several lines in this line, if one does."""
    found = [(line.find(mark), mark) for mark in ('"""', "'''") if mark in line]
    return min(found)[1] if found else ""


def written_as_toml(outline: Outline, language: str) -> str:
    """The outline as a plan file."""
    lines = [f"problem = {_quoted(outline.problem)}"]
    if outline.description:
        lines.append(f"description = {_quoted(outline.description)}")
    if language != "python":
        lines.append(f"language = {_quoted(language)}")
    if outline.draft:
        lines.append("draft = true")
    for todo in outline.todos:
        lines += ["", "[[todo]]", *_todo_lines(todo, todo.description)]
    validation = outline.validation
    if validation is not None:
        description = "" if validation.description == DEFAULT_VALIDATION else validation.description
        lines += ["", "[validation]", *_todo_lines(validation, description)]
    return "\n".join(lines) + "\n"


def _todo_lines(todo: TodoOutline, description: str) -> Iterator[str]:
    if description:
        yield f"description = {_quoted(description)}"
    if todo.explanation:
        yield f"explanation = {_quoted(todo.explanation)}"
    if todo.depends_on:
        yield f"depends_on = [{', '.join(map(str, todo.depends_on))}]"
    if todo.timeout_s is not None:
        yield f"timeout_s = {float(todo.timeout_s)!r}"
    if todo.code is not None:
        yield f"code = {_quoted(todo.code)}"
    if todo.checks:
        yield f"accept = [{', '.join(_quoted(check_text(check)) for check in todo.checks)}]"


def _quoted(text: str) -> str:
    """As people would write it: several lines stay several lines where nothing in them needs to be escaped."""
    if "\n" in text and "'''" not in text and not text.endswith("'") and not _uncommon.search(text):
        return f"'''\n{text}'''"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
