"""Indentation that does not fit. Repairs of text that does not compile (see ``syntax``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from cellwright.plans.fixers.cells import syntax_error
from cellwright.plans.fixers.regions import brackets, line_starts
from cellwright.plans.fixers.repairs import Line, Repaired, error_line, lines_of

__all__ = ["indent_block", "level_lines", "untangle_tabs"]

_UNIT = "    "
_ENDS_BLOCK = re.compile(r"[ \t]*(?:return|raise|break|continue|pass)\b")
_GOES_ON = re.compile(r"[ \t]*(?:else|elif|except|finally)\b")
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


def indent_block(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """The block after a colon, where it is clear which lines it has."""
    if "expected an indented block" not in (error.msg or ""):
        return
    lines = lines_of(text)
    at = error_line(text, error)
    header = next((index for index in range(at - 1, -1, -1) if not lines[index].is_blank), None)
    if header is None:
        return
    statements = _statements(text, lines, at, lines[header].indent)
    if not statements:
        return
    heads = [text[lines[first].start : lines[first].end] for first, _ in statements]
    goes_on = next((number for number, head in enumerate(heads) if _GOES_ON.match(head)), None)
    ends = _ENDS_BLOCK.match(heads[0]) is not None
    body = statements[:goes_on] if goes_on else statements[:1]
    first, last = body[0][0], body[-1][1]
    mended = _shifted(text, lines, first, last, lines[first].indent, lines[header].indent + _UNIT)
    sure = bool(goes_on) or ends or len(statements) == 1
    yield Repaired(mended, f"the block after line {header + 1} was not indented", certain=sure)


def _statements(text: str, lines: Sequence[Line], start: int, indent: str) -> list[tuple[int, int]]:
    """The statements that follow on the level of what leads them, each from its first line to its last."""
    found: list[tuple[int, int]] = []
    index = start
    while index < len(lines):
        line = lines[index]
        if line.is_blank:
            index += 1
            continue
        if len(line.indent) < len(indent):
            break
        last = index
        while last + 1 < len(lines) and (
            brackets(text[line.start : lines[last].end])[0]
            or lines[last + 1].inside
            or (not lines[last + 1].is_blank and len(lines[last + 1].indent) > len(line.indent))
        ):
            last += 1
        found.append((index, last))
        index = last + 1
    return found


def _shifted(text: str, lines: Sequence[Line], first: int, last: int, old: str, new: str) -> str:
    """Lines with another indentation; what is inside of a string stays."""
    parts = [text[: lines[first].start]]
    for index in range(first, last + 1):
        end = lines[index + 1].start if index + 1 < len(lines) else len(text)
        here = text[lines[index].start : end]
        moved = not lines[index].inside and here.strip() and here.startswith(old)
        parts.append(new + here[len(old) :] if moved else here)
    rest = lines[last + 1].start if last + 1 < len(lines) else len(text)
    return "".join(parts) + text[rest:]


def level_lines(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """Lines that are indented with nothing to lead them: on the level of the line before."""
    lines = lines_of(text)
    at = error_line(text, error)
    if "unexpected indent" in (error.msg or ""):
        before = next((line for line in reversed(lines[:at]) if not line.is_blank and not line.inside), None)
        level = before.indent if before is not None else ""
        last = at
        while last + 1 < len(lines) and (
            lines[last + 1].is_blank
            or lines[last + 1].inside
            or len(lines[last + 1].indent) >= len(lines[at].indent)
        ):
            last += 1
        mended = _shifted(text, lines, at, last, lines[at].indent, level)
        # It may go on with a block above, which a line before it left too early.
        sure = all(line.indent != lines[at].indent for line in lines[:at] if not line.is_blank)
        yield Repaired(mended, f"line {at + 1} was indented with nothing to lead it", certain=sure)
    elif "unindent does not match" in (error.msg or ""):
        levels = {line.indent for line in lines[:at] if not line.is_blank}
        width = len(lines[at].indent)
        for level in sorted(levels, key=lambda each: abs(len(each) - width)):
            mended = _shifted(text, lines, at, at, lines[at].indent, level)
            yield Repaired(mended, f"line {at + 1} is on no level of the lines before", certain=False)


def untangle_tabs(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """Spaces for tabs, where however wide a tab is leads to the same program."""
    if not isinstance(error, TabError) and "\t" not in text:
        return
    inside = {line.start for line in lines_of(text) if line.inside}
    starts = set(line_starts(text)) - inside
    widths = {}
    for width in (4, 8):
        mended = _INDENT.sub(
            lambda found: found.group().expandtabs(width) if found.start() in starts else found.group(),  # noqa: B023
            text,
        )
        if mended != text and syntax_error(mended) is None:
            widths[width] = mended
    programs = {ast.dump(ast.parse(mended)) for mended in widths.values() if _parses(mended)}
    for mended in widths.values():
        yield Repaired(mended, "tabs and spaces were mixed", certain=len(programs) == 1)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
