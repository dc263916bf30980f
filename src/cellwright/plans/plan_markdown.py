"""Plan files in Markdown: a heading for the problem, one for each step, a fenced block of code in each.

Finds the parts and writes them; what they mean, and whether they fit together, is for ``plan_files``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cellwright.plans.checks import check_text
from cellwright.plans.model import Check, Outline, TodoOutline
from cellwright.plans.outlines import DEFAULT_VALIDATION
from cellwright.plans.plan_parts import Found, FoundPlan, FoundStep, Unreadable

__all__ = ["find_in_markdown", "written_as_markdown"]

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
        validation = _step(rest.pop(), named[1] or DEFAULT_VALIDATION)
    steps = tuple(_step(section, _title(section.head, number)) for number, section in enumerate(rest, 1))
    codes = [piece for section in sections[1:] for piece in section.all("code") if piece.language]
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


def _step(section: _Section, description: str) -> FoundStep:
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
