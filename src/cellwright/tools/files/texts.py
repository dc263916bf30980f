"""Text files by the line, in whatever encoding: some lines with their numbers, and where to go on."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["Lines", "cut_line", "encoding_of", "read_lines"]

MAX_LINE = 2_000
_CHUNK = 65_536
_COUNTED_BYTES = 512 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines, and how many there are in all; ``None`` where nobody went so far."""

    text: str
    shown: int
    total: int | None


def encoding_of(head: bytes) -> str:
    """How the text that begins like this is encoded: by its mark, else UTF-8 if it can be, else a guess."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if head.count(0) > len(head) // 4:
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    try:
        # The last character may be cut in two.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        # What Windows wrote; the few bytes that mean nothing there are letters of ISO 8859-1.
        return "cp1252" if not any(byte in head for byte in b"\x81\x8d\x8f\x90\x9d") else "latin-1"
    return "utf-8"


def read_lines(file: BinaryIO, encoding: str, *, offset: int, limit: int, max_characters: int) -> Lines:
    """At most ``limit`` lines from a line on, as many as there is room for, each with its number from 1 on."""
    reader = io.TextIOWrapper(file, encoding, errors="replace", newline=None)
    kept: list[str] = []
    number, room, full = 0, max_characters, False
    while (line := reader.readline(_CHUNK)) != "":
        rest = 0
        while not line.endswith("\n") and (more := reader.readline(_CHUNK)):
            # A line may be as long as the file: its beginning will do.
            rest += len(more.rstrip("\n"))
            line = line if not more.endswith("\n") else f"{line}\n"
        if number >= offset and not full:
            shown = _numbered(number + 1, line.rstrip("\n"), rest)
            room -= len(shown) + 1
            full = len(kept) >= limit or (room < 0 and bool(kept))
            if not full:
                kept.append(shown)
        number += 1
        if full and file.tell() > _COUNTED_BYTES:
            return Lines("\n".join(kept), len(kept), None)
    return Lines("\n".join(kept), len(kept), number)


def _numbered(number: int, line: str, rest: int) -> str:
    return f"{number:>6}\t{cut_line(line, rest)}"


def cut_line(line: str, rest: int = 0) -> str:
    """A line's beginning, which may be all of it; ``rest`` counts the characters that it has besides."""
    if len(line) + rest <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]}… ({len(line) + rest - MAX_LINE:,} more characters)"
