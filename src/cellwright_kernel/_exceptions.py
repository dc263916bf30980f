"""An exception as plain facts: what it is, what it says, where it came from, what led to it.

Everything is read through the builtin types' own descriptors, since a class of the user's may put code behind any
attribute. The one exception is ``str()`` of an exception, which its traceback has called already.
"""

from __future__ import annotations

import ast
import builtins
import os
import pathlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, TypeAlias

from cellwright_kernel.digests import cut, is_a, type_name

__all__ = ["CellCode", "ErrorLocation", "ExceptionReporter", "Span", "lineage_of", "own_nodes", "text"]

MAX_MESSAGE = 2_000

MAX_TEXT = 500

MAX_BASES = 30

MAX_RELATIVES = 20

_name_of: Any = type.__dict__["__name__"].__get__

_module_of: Any = type.__dict__["__module__"].__get__

_mro_of: Any = type.__dict__["__mro__"].__get__

_cause_of: Any = vars(BaseException)["__cause__"].__get__

_context_of: Any = vars(BaseException)["__context__"].__get__

_traceback_of: Any = vars(BaseException)["__traceback__"].__get__

_args_of: Any = vars(BaseException)["args"].__get__

# Not there before Python 3.11, on which a project's kernels may run.
_GROUP: Any = vars(builtins).get("BaseExceptionGroup")

_DETAILS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (OSError, ("errno", "filename", "filename2")),
    (SyntaxError, ("lineno", "offset", "end_lineno", "end_offset", "text", "msg", "filename")),
    (UnicodeDecodeError, ("encoding", "start", "end", "reason")),
    (UnicodeEncodeError, ("encoding", "start", "end", "reason")),
    (ImportError, ("name", "path")),
    (NameError, ("name",)),
    (AttributeError, ("name",)),
    (SystemExit, ("code",)),
)

_PATHS = frozenset({pathlib.PosixPath, pathlib.PurePosixPath})


class ExceptionReporter:
    """Tells of exceptions that a cell raised."""

    def __init__(self, code: CellCode, *, before_it_ran: bool) -> None:
        self._code = code
        self._before_it_ran = before_it_ran

    def raised(self, error: BaseException, fallback: Span | None = None) -> dict[str, Any]:
        """One exception; ``fallback`` is where in the cell the one that it led to came from."""
        kind = type(error)
        details = _details(error)
        is_own = self._before_it_ran and is_a(error, SyntaxError)
        span = self._own_syntax(details) if is_own else self.span_of(error) or fallback
        about: dict[str, Any] = {
            "type": cut(text(_name_of(kind)), MAX_TEXT),
            "message": message_of(error),
            "bases": [_base(each) for each in islice(_mro_of(kind), MAX_BASES) if each is not object],
            "details": details,
            "library": None if is_own else self._library(error),
        }
        if span is not None:
            about["span"] = dict(zip(("line", "column", "end_line", "end_column"), span, strict=True))
        return about

    def span_of(self, error: BaseException) -> Span | None:
        """Where in the source that was written it came from."""
        place = self._code.place_of(_traceback_of(error))
        return None if place is None else self._code.as_written(place.span)

    def _own_syntax(self, details: dict[str, Any]) -> Span | None:
        """Where the cell cannot be parsed; its details are then told for the source that was written."""
        details.pop("filename", None)
        line, offset = details.get("lineno"), details.get("offset")
        origin = self._code.origin(line) if line is not None else None
        if line is None or origin is None:
            return None
        last, last_offset = details.get("end_lineno"), details.get("end_offset")
        ending = self._code.origin(last) if last is not None else None
        shift = max(origin[1], 0)
        start = origin[0], self._bytes_before(line, offset) + shift
        end = start
        if last is not None and ending is not None and last_offset:
            end = max(start, (ending[0], self._bytes_before(last, last_offset) + max(ending[1], 0)))
        details["lineno"] = origin[0]
        if offset is not None:
            details["offset"] = offset + shift
        if last_offset is not None and ending is not None:
            details["end_lineno"], details["end_offset"] = ending[0], last_offset + max(ending[1], 0)
        return *start, *end

    def _bytes_before(self, line: int, offset: int | None) -> int:
        """A parser's offset counts characters from 1."""
        lines = self._code.ran.split("\n")
        there = lines[line - 1] if 0 < line <= len(lines) else ""
        return len(there[: max((offset or 1) - 1, 0)].encode("utf-8", "replace"))

    def _library(self, error: BaseException) -> str | None:
        """The top-level module whose code raised it."""
        traceback = _traceback_of(error)
        if traceback is None:
            return None
        while traceback.tb_next is not None:
            traceback = traceback.tb_next
        frame = traceback.tb_frame
        name = dict.get(frame.f_globals, "__name__")
        if frame.f_code.co_filename == self._code.filename or type(name) is not str or name == "__main__":
            return None
        return cut(text(name.partition(".")[0]), MAX_TEXT)


def lineage_of(
    error: BaseException,
) -> tuple[list[tuple[BaseException, BaseException]], list[BaseException]]:
    """What an exception comes down to, each with the one that it led to; and everything else on the way."""
    roots = list(islice(_roots(error, error, set()), MAX_RELATIVES))
    known = {id(error), *(id(root) for root, _ in roots)}
    rest = [each for each in islice(_relatives(error), MAX_RELATIVES * 2) if id(each) not in known]
    return roots, rest[:MAX_RELATIVES]


def _roots(
    error: BaseException, nearest: BaseException, seen: set[int]
) -> Iterator[tuple[BaseException, BaseException]]:
    """The end of each chain of explicit causes; a group is as many chains as it has parts."""
    waiting = [(error, nearest)]
    while waiting:
        each, led_to = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        further = _parts_of(each)
        if _cause_of(each) is not None:
            further.append(_cause_of(each))
        # A circle of causes has no end: what closes it is one.
        unseen = [(part, each if part is not each else led_to) for part in further if id(part) not in seen]
        if unseen:
            waiting = unseen + waiting
        else:
            yield each, led_to


def _relatives(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [_cause_of(each), _context_of(each)]
        waiting += _parts_of(each)[:MAX_RELATIVES]


def _parts_of(error: BaseException) -> list[BaseException]:
    """What a group is made of."""
    is_group = _GROUP is not None and is_a(error, _GROUP)
    return list(vars(_GROUP)["exceptions"].__get__(error)) if is_group else []


def message_of(error: BaseException) -> str:
    """What it says of itself."""
    try:
        said = str(error)
        said = str.__getitem__(said, slice(None)) if type(said) is not str else said
    except BaseException as failed:  # noqa: BLE001  # boundary: its class may do anything here
        return f"<{type_name(type(failed))} while it was asked>"
    if len(said) > MAX_MESSAGE:
        # The end too: what matters may stand in either.
        said = said[: MAX_MESSAGE * 3 // 4] + " … " + said[-MAX_MESSAGE // 4 :]
    return text(said)


def _base(kind: type) -> str:
    name, module = _name_of(kind), _module_of(kind)
    if vars(builtins).get(name) is kind:
        return str(name)
    place = module if type(module) is str and module != "builtins" else "?"
    return cut(text(f"{place}.{name}"), MAX_TEXT)


def _details(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, names in _DETAILS:
        if is_a(error, kind):
            for name in names:
                value = _plain(vars(kind)[name].__get__(error))
                if value is not None:
                    found[name] = value
    args = _args_of(error)
    if is_a(error, KeyError) and args and _is_plain(args[0]):
        found["key"] = _plain(args[0])
    if is_a(error, AttributeError) and (owner := vars(AttributeError)["obj"].__get__(error)) is not None:
        found["obj_type"] = text(type_name(type(owner)))
    return found


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


def _plain(value: Any) -> str | int | float | bool | None:
    if type(value) in _PATHS or type(value) is bytes:
        value = os.fsdecode(value)
    if type(value) is str:
        return cut(text(value), MAX_TEXT)
    if type(value) is int and value.bit_length() > 63:  # what every reader of JSON can hold
        return None
    if type(value) is float and value - value != 0:
        # Neither infinities nor what is not a number can be written as JSON.
        return None
    return value if type(value) in (int, float, bool) else None


def text(value: str) -> str:
    """Text that can be put on the wire: a lone surrogate cannot."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


# The source of a cell that failed, and where in it: what ran, what was written, and the way from one to the
# other.

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
