"""Between a file's bytes and its text, with the line of what is wrong. Knows no format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.errors import NotebookFormatError

__all__ = [
    "Block",
    "at_line",
    "blocks_in",
    "closing_line",
    "decoded",
    "encoded",
    "fence_word",
    "fenced",
    "opening_fence",
]
MAX_BYTES = 100_000_000

_HEAD = 8_000

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def decoded(content: bytes, name: str) -> str:
    """A text file's text, without a byte order mark.

    Raises:
        NotebookFormatError: it is too large, not text, or in another encoding.
    """
    if len(content) > MAX_BYTES:
        raise NotebookFormatError(
            f"{name} has {len(content):,} bytes, and at most {MAX_BYTES:,} are read",
            hint="Leave the outputs out, or split it",
        )
    encoding = "utf-16" if content.startswith(_UTF16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in content[:_HEAD]:
            raise NotebookFormatError(
                f"{name} is a binary file, not text",
                hint="Give a notebook in one of the formats that are read",
            ) from error
        line = content.count(b"\n", 0, error.start) + 1
        raise at_line(
            line,
            f"byte 0x{content[error.start]:02x} is not UTF-8",
            name=name,
            hint="Save the file as UTF-8",
        ) from error


def encoded(text: str) -> tuple[bytes, tuple[str, ...]]:
    """A text as UTF-8, and a notice where it holds what no encoding can."""
    try:
        return text.encode(), ()
    except UnicodeEncodeError:
        # Half of a pair, as a cut emoji leaves it; JSON has an escape for it, text has none.
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode(), ("Broken characters (halves of surrogate pairs) were replaced by \ufffd",)


def at_line(line: int, problem: str, *, name: str, hint: str | None = None) -> NotebookFormatError:
    """An error that says where in a file it is."""
    return NotebookFormatError(f"{name}, line {line}: {problem}", hint=hint)


# Fenced blocks of Markdown: written so that nothing in them can end them, and found again line by line.
# Pure.

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
