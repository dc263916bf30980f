"""Plan files: an outline in Markdown (``*.plan.md``) or TOML, read with errors that name the line, and written.

Nothing here knows sessions: whoever reads a
plan file makes a session in its language and gives the outline to it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cellwright.errors import PlanError, PlanFileError
from cellwright.notebook.languages import canonical_language
from cellwright.plans.checks import check_text, parse_check
from cellwright.plans.model import MAX_TODOS, Check, Outline, TodoOutline
from cellwright.plans.outlines import DEFAULT_VALIDATION, checked_outline, fault_of

__all__ = ["PlanFile", "PlanFileKind", "parse_plan", "read_plan", "write_plan"]

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
    language = _one_language(found.languages)
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


def _one_language(places: tuple[Found, ...]) -> str:
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


# Plan files in Markdown: a heading for the problem, one for each step, a fenced block of code in each.

_Kind: TypeAlias = Literal["problem", "step", "code", "accept", "depends", "timeout", "text"]

# Each is matched against a stripped line, and says at one place only where white space may stand: what can be split up in
# two ways takes long on a line made for it.
_heading = re.compile(r"##?(?!#)(?=\s|$)")

_fence = re.compile(r"([ ]{0,3})(`{3,}|~{3,})([^`]*)")

_language = re.compile(r"\{?\.?([\w+#-]*)")

_word = re.compile(
    r"(?:[-*+]\s+)?(?:\*\*|__)?(?:(?P<accept>accept(?:s|ance(?:[ ]checks?)?)?)|(?P<depends>depends?(?:[ _-]on)?)"
    r"|(?P<timeout>time[ _-]?out))(?::(?:\*\*|__)?|(?:\*\*|__):)(?P<value>.*)",
    re.IGNORECASE,
)

_draft = re.compile(r"[*_]*this (?:plan )?is a draft\.?[*_]*", re.IGNORECASE)

_numbered = re.compile(
    r"(?:(?:step|todo)\s+)?(\d{1,6})[.):](?:\s(.*))?|(?:step|todo)\s+(\d{1,6})", re.IGNORECASE
)

_validation = re.compile(rf"{DEFAULT_VALIDATION}(?::(.*))?", re.IGNORECASE)

_time = re.compile(
    r"(\d{1,12}(?:\.\d{1,30})?(?:e[+-]?\d{1,3})?)\s*(?:(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?|(h)(?:ours?)?)?",
    re.IGNORECASE,
)

_SECONDS = {"s": 1, "m": 60, "h": 3600}

_DRAFT = "*This is a draft.*"


@dataclass(frozen=True, slots=True)
class _Piece:
    line: int
    kind: _Kind
    text: str
    raw: str
    """As it stands in the file."""
    language: str = ""


@dataclass(slots=True)
class _Section:
    head: _Piece
    pieces: list[_Piece] = field(default_factory=list)

    def all(self, kind: _Kind) -> list[_Piece]:
        return [piece for piece in self.pieces if piece.kind == kind]

    def prose(self, *, left_out: tuple[_Kind, ...]) -> str:
        """The text, in one block for each run of it between what is left out."""
        blocks: list[list[str]] = [[]]
        for piece in self.pieces:
            if piece.kind in left_out:
                blocks.append([])
            else:
                blocks[-1].append(piece.raw)
        texts = ("\n".join(block).strip() for block in blocks)
        return "\n\n".join(filter(None, texts))


def find_in_markdown(text: str) -> FoundPlan:
    """Find the parts of a plan.

    Raises:
        Unreadable: it is not laid out as a plan is.
    """
    sections = _sections(text)
    first, *rest = sections
    for piece in first.pieces:
        if piece.kind in ("accept", "depends", "timeout"):
            raise Unreadable(
                piece.line,
                f"{piece.raw.strip()!r} stands before the first step",
                "Put it below a '## ' heading",
            )
    draft = any(_is_draft(piece) for piece in first.pieces)
    first.pieces = [piece for piece in first.pieces if not _is_draft(piece)]
    validation = None
    if rest and (named := _validation.fullmatch(rest[-1].head.text)):
        validation = _step_of_section(rest.pop(), named[1] or DEFAULT_VALIDATION)
    steps = tuple(
        _step_of_section(section, _title(section.head, number)) for number, section in enumerate(rest, 1)
    )
    codes = [piece for section in sections[1:] for piece in section.all("code") if piece.language]
    if not steps:
        raise Unreadable(
            first.head.line,
            "the plan has no steps",
            "Give each a heading of its own, '## 1. Load the orders', and its code in a fence below it",
        )
    return FoundPlan(
        line=first.head.line,
        problem=first.head.text,
        description=first.prose(left_out=()),
        steps=steps,
        validation=validation,
        draft=draft,
        languages=tuple(Found(piece.language, piece.line) for piece in codes),
    )


def _sections(text: str) -> list[_Section]:
    sections: list[_Section] = []
    for piece in _pieces(text.split("\n")):
        if piece.kind == "problem" and sections:
            raise Unreadable(
                piece.line, "a second '# ' heading", "A plan has one problem: use '## ' for its steps"
            )
        if piece.kind == "problem" or (piece.kind == "step" and sections):
            sections.append(_Section(piece))
        elif sections:
            sections[-1].pieces.append(piece)
        elif piece.raw.strip():
            raise Unreadable(
                piece.line, "the plan does not begin with its problem", "Begin with '# ' and the problem"
            )
    if not sections:
        raise Unreadable(
            1, "the file is empty", "Begin with '# ' and the problem, then a '## ' heading for each step"
        )
    return sections


def _pieces(lines: list[str]) -> Iterator[_Piece]:
    place = 0
    while place < len(lines):
        line = lines[place]
        fence = _fence.fullmatch(line)
        if fence:
            piece, place = _fenced(lines, place, fence)
            yield piece
            continue
        place += 1
        if heading := _heading.match(line):
            yield _Piece(
                place, "problem" if heading[0] == "#" else "step", line[heading.end() :].strip(), line
            )
        elif word := _word.fullmatch(line.strip()):
            kind: _Kind = "accept" if word["accept"] else "depends" if word["depends"] else "timeout"
            yield _Piece(place, kind, word["value"].strip(), line)
        else:
            yield _Piece(place, "text", line, line)


def _fenced(lines: list[str], place: int, fence: re.Match[str]) -> tuple[_Piece, int]:
    """The block that this fence opens, and the number of the line after it."""
    indent, marks, info = fence.groups()
    closing = re.compile(rf"[ ]{{0,3}}{re.escape(marks[0])}{{{len(marks)},}}[ \t]*")
    end = next((index for index in range(place + 1, len(lines)) if closing.fullmatch(lines[index])), None)
    if end is None:
        raise Unreadable(place + 1, "this code block is never closed", f"Close it with a line of {marks}")
    inner = (re.sub(rf"^[ ]{{0,{len(indent)}}}", "", line) for line in lines[place + 1 : end])
    named = _language.match(info.strip())
    language = named[1].lower() if named else ""
    raw = "\n".join(lines[place : end + 1])
    return _Piece(place + 1, "code", "\n".join(inner), raw, language), end + 1


def _is_draft(piece: _Piece) -> bool:
    return piece.kind == "text" and _draft.fullmatch(piece.raw.strip()) is not None


def _title(head: _Piece, number: int) -> str:
    if _validation.fullmatch(head.text):
        raise Unreadable(
            head.line, "the validation is not the last heading", "Move it to the end of the plan"
        )
    numbered = _numbered.fullmatch(head.text)
    if numbered is None:
        return head.text
    if int(numbered[1] or numbered[3]) != number:
        raise Unreadable(
            head.line,
            f"step {number} has the number {numbered[1] or numbered[3]}",
            "Number the steps 1, 2, 3 in their order, or not at all",
        )
    return numbered[2] or ""


def _step_of_section(section: _Section, description: str) -> FoundStep:
    line = section.head.line
    codes = section.all("code")
    if len(codes) > 1:
        places = " and ".join(str(piece.line) for piece in codes)
        raise Unreadable(
            codes[1].line,
            f"a step has {len(codes)} code blocks (lines {places}), and a step is one cell",
            "Make a step of each, or indent by four spaces what is only to be shown",
        )
    times = section.all("timeout")
    if len(times) > 1:
        raise Unreadable(times[1].line, "a step has two time-outs", "Leave one of them out")
    for piece in [*section.all("accept"), *section.all("depends")]:
        if not piece.text:
            raise Unreadable(
                piece.line,
                f"{piece.raw.strip()!r} says nothing",
                "Write it on the same line, or leave it out",
            )
    return FoundStep(
        line=line,
        description=description,
        explanation=section.prose(left_out=("code", "accept", "depends", "timeout")),
        code=Found(codes[0].text, codes[0].line) if codes else None,
        accept=tuple(Found(piece.text, piece.line) for piece in section.all("accept")),
        depends_on=tuple(Found(piece.text, piece.line) for piece in section.all("depends")),
        timeout_s=_seconds(times[0]) if times else None,
    )


def _seconds(piece: _Piece) -> float:
    time = _time.fullmatch(piece.text)
    if time is None:
        raise Unreadable(piece.line, f"{piece.text!r} is no time", "Write it as '60 s', '5 min' or '1 h'")
    unit = time[2] or time[3] or time[4] or "s"
    return float(time[1]) * _SECONDS[unit.lower()]


def written_as_markdown(outline: Outline, language: str) -> str:
    """The outline as a plan file; a few texts cannot be told apart from its marks, which the caller must see to."""
    blocks = [f"# {outline.problem}", outline.description, _DRAFT if outline.draft else ""]
    for number, todo in enumerate(outline.todos, 1):
        blocks += _blocks(f"## {number}. {todo.description}", todo, language)
    validation = outline.validation
    if validation is not None:
        named = "" if validation.description == DEFAULT_VALIDATION else f": {validation.description}"
        blocks += _blocks(f"## {DEFAULT_VALIDATION}{named}", validation, language)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _blocks(heading: str, todo: TodoOutline, language: str) -> list[str]:
    blocks = [heading, todo.explanation]
    if todo.code is not None:
        longest = max(map(len, re.findall(r"`+", todo.code)), default=0)
        fence = "`" * max(3, longest + 1)
        blocks.append(f"{fence}{language}\n{todo.code}\n{fence}")
    words = [f"- Accept: {_ticked(check)}" for check in todo.checks]
    if todo.depends_on:
        words.append(f"- Depends on: {', '.join(map(str, todo.depends_on))}")
    if todo.timeout_s is not None:
        words.append(f"- Timeout: {float(todo.timeout_s)!r} s".replace(".0 s", " s"))
    return [*blocks, "\n".join(words)]


def _ticked(check: Check) -> str:
    text = check_text(check)
    return f"`{text}`" if check.kind == "expression" and text == check.value and "`" not in text else text


# Plan files in TOML: ``problem``, a ``[[todo]]`` for each step, and a ``[validation]``.

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
        steps=tuple(
            _step_of_table(_Table(todo, lines, "todo", number)) for number, todo in enumerate(todos, 1)
        ),
        validation=_step_of_table(_Table(validation, lines, "validation", 1))
        if validation is not None
        else None,
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


def _step_of_table(table: _Table) -> FoundStep:
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


# The parts of a plan file as they were found, each with its line, before anybody asked what they mean.


class Unreadable(Exception):
    """Something in a plan file cannot be read; whoever knows the file's name turns it into a ``PlanFileError``."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Found:
    """A text and the line where it stands, from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class FoundStep:
    line: int
    description: str
    explanation: str = ""
    code: Found | None = None
    accept: tuple[Found, ...] = ()
    depends_on: tuple[Found, ...] = ()
    """Each a number, a name, or several of them with commas."""
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class FoundPlan:
    line: int
    problem: str
    steps: tuple[FoundStep, ...]
    description: str = ""
    validation: FoundStep | None = None
    draft: bool = False
    languages: tuple[Found, ...] = ()
    """Every place that says in which language the code is."""
