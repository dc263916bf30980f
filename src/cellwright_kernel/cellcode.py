"""The source of a cell that failed, and where in it: what ran, what was written, and the way from one to the other.

IPython runs something other than what was written: magics become calls, blank lines at the top, common indentation
and prompts go. Trees are made of what ran; places are told in what was written. What stood there is for ``subjects``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, TypeAlias

__all__ = ["CellCode", "ErrorLocation", "Span", "own_nodes"]

MAX_SOURCE = 200_000
MAX_FRAMES = 20_000

Span: TypeAlias = tuple[int, int, int, int]
"""Line, column, last line, last column, as ``ast`` counts."""

# What IPython takes off a line's beginning.
_PROMPT = re.compile(r"[ \t]*(?:(?:>>>|\.\.\.|In \[\d+\]:|\s*\.\.\.+:)[ \t]?)?[ \t]*")


@dataclass(frozen=True, slots=True)
class ErrorLocation:
    """Where in the cell an error came from: a frame of its code, and the span in what ran."""

    frame: FrameType
    span: Span


@dataclass(frozen=True, slots=True)
class CellCode:
    """A cell's source as it was written and as it ran, under the name that its code has in tracebacks."""

    written: str
    ran: str
    filename: str | None

    def place_of(self, traceback: TracebackType | None) -> ErrorLocation | None:
        """The innermost place in this cell that a traceback passed through."""
        found: TracebackType | None = None
        for _, entry in zip(range(MAX_FRAMES), _entries(traceback), strict=False):
            if self.filename is not None and entry.tb_frame.f_code.co_filename == self.filename:
                found = entry
        return None if found is None else ErrorLocation(found.tb_frame, self._span_at(found))

    def _span_at(self, entry: TracebackType) -> Span:
        # Python before 3.11 knows lines only.
        positions = getattr(entry.tb_frame.f_code, "co_positions", lambda: iter(()))()
        nothing = (None, None, None, None)
        line, last, column, last_column = next(islice(positions, entry.tb_lasti // 2, None), nothing)
        if line is None or last is None or column is None or last_column is None:
            lines = self.ran.split("\n")
            number = entry.tb_lineno
            text = lines[number - 1] if 0 < number <= len(lines) else ""
            return number, 0, number, len(text.encode())
        return line, column, last, last_column

    def tree(self) -> ast.Module | None:
        """The tree of what ran, if it can be parsed."""
        if len(self.ran) > MAX_SOURCE:
            return None
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree: Any = compile(self.ran, "<cell>", "exec", flags, dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        return tree if isinstance(tree, ast.Module) else None

    def as_written(self, span: Span) -> Span | None:
        """The same place in the source that was written; None where something else stood there."""
        first, last = self.origin(span[0]), self.origin(span[2])
        if first is None or last is None:
            return None
        return first[0], span[1] + first[1], last[0], span[3] + last[1]

    def origin(self, number: int) -> tuple[int, int] | None:
        """Which line was written for one that ran, and how many bytes it had before what ran of it."""
        ran, written = self.ran.split("\n"), self.written.split("\n")
        if number == len(ran) + 1:
            # Python tells of the line after the last where something is missing at the end.
            return len(written) + 1, 0
        place, found = -1, None
        for text in ran[:number]:
            later = range(place + 1, len(written))
            found = next((line for line in later if _ran_as(written[line], text)), None)
            place = place if found is None else found
        if found is None:
            return None
        return place + 1, len(written[place].rstrip("\r").encode()) - len(ran[number - 1].encode())


def _ran_as(written: str, ran: str) -> bool:
    written = written.rstrip("\r")
    if written == ran:
        return True
    return written.endswith(ran) and _PROMPT.fullmatch(written[: len(written) - len(ran)]) is not None


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement itself is made of: of a loop or a function its head, not the statements in it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
