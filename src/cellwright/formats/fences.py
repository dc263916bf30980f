"""Fenced blocks of Markdown: written so that nothing in them can end them, and found again line by line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Block", "blocks_in", "closing_line", "fence_word", "fenced", "opening_fence"]

_opening = re.compile(r"(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\r\n]*)")
_tildes = re.compile(r"(?P<mark>~{3,})[ \t]*(?P<info>[^\r\n]*)")
_word = re.compile(r"[A-Za-z0-9][\w+#.-]*")


@dataclass(frozen=True, slots=True)
class Block:
    """A line of text, or a whole fence."""

    line: int
    """The first one's number, from 1."""
    raw: str
    info: str | None = None
    """What follows a fence's opening marks; none for a line of text."""
    inside: str = ""


def fenced(source: str, info: str = "") -> str:
    """A fence around a source, with marks that are longer than any within."""
    longest = max((len(run) for run in re.findall(r"`{3,}", source)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{info}\n{source}\n{mark}" if source else f"{mark}{info}\n{mark}"


def fence_word(language: str) -> str:
    """A language's name where it can stand on a fence, else nothing."""
    return language if _word.fullmatch(language) else ""


def opening_fence(line: str) -> tuple[str, str] | None:
    """The marks and the info of a line that opens a fence."""
    found = _opening.fullmatch(line.rstrip("\r")) or _tildes.fullmatch(line.rstrip("\r"))
    return (found["mark"], found["info"].strip()) if found else None


def closing_line(lines: Sequence[str], start: int, mark: str) -> int | None:
    """Which line from ``start`` on closes a fence that these marks opened."""
    for place in range(start, len(lines)):
        line = lines[place].rstrip()
        if len(line) >= len(mark) and set(line) == {mark[0]}:
            return place
    return None


def blocks_in(lines: Sequence[str], *, first: int = 1) -> list[Block]:
    """Lines and fences, in order; ``first`` is the number of the first line."""
    found: list[Block] = []
    place = 0
    hopeless: set[tuple[str, int]] = set()
    while place < len(lines):
        opening = opening_fence(lines[place])
        end = None
        if opening is not None and (opening[0][0], len(opening[0])) not in hopeless:
            end = closing_line(lines, place + 1, opening[0])
            if end is None:
                # Nothing below closes such marks: looking again for each of a million of them takes for ever.
                hopeless.add((opening[0][0], len(opening[0])))
        if opening is None or end is None:
            found.append(Block(first + place, lines[place]))
            place += 1
            continue
        raw = "\n".join(lines[place : end + 1])
        found.append(Block(first + place, raw, opening[1], "\n".join(lines[place + 1 : end])))
        place = end + 1
    return found
