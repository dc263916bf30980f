"""Measures the time of one cell: each top-level statement by the clock, and on request each line of the cells' code.

Statements cost nothing to time. Lines are followed by a trace function, which costs time of its own: it looks only into
code of cells, gives up after ``MOST_STEPS`` and says so. Nothing is measured unless somebody asked for it before the
execution. What is made of the figures is others' business.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from types import CodeType, FrameType
from typing import Any

from cellwright_kernel._inspection import visible
from cellwright_kernel.digests import is_a, is_of, type_name

__all__ = ["MOST_STEPS", "Profiler"]

MOST_STEPS = 1_000_000
"""Lines and calls that are looked at, about a second in all; what runs after them is not followed."""
MOST_LINES = 4_000
MOST_NAMES = 1_000
MOST_FRAMES = 50
MOST_COLUMNS = 300
MOST_UNIQUE = 5_000_000

_PROC_STATUS = "/proc/self/status"
_CLEAR_REFS = "/proc/self/clear_refs"
_RESET_PEAK = "5"
_KIB = 1024

_Trace = Callable[[FrameType, str, Any], Any]


class Profiler:
    """Measures the execution after the one that asked for it, once."""

    def __init__(self) -> None:
        self._cells: dict[str, str] = {}
        """Whose code a file's name stands for."""
        self._wanted: tuple[str, bool] | None = None
        self._run: _Run | None = None
        self._last: _Run | None = None

    def arm(self, cell: str, *, lines: bool) -> None:
        """Have the next execution measured, as that of a cell."""
        self._wanted, self._last = (cell, lines), None

    def begin(self) -> None:
        """An execution begins."""
        if self._wanted is not None:
            cell, lines = self._wanted
            self._run, self._wanted = _Run(cell, self._cells, lines=lines), None

    def end(self) -> None:
        """It is over."""
        if self._run is not None:
            self._run.close()
            self._last, self._run = self._run, None

    @contextlib.contextmanager
    def statement(self, code: Any) -> Iterator[None]:
        """Around one top-level statement."""
        run = self._run
        if run is None or not isinstance(code, CodeType):
            yield
            return
        self._cells[code.co_filename] = run.cell
        tracing = run.wants_lines and sys.gettrace() is None  # a debugger keeps what it has
        begun = perf_counter()
        if tracing:
            sys.settrace(run.called)
        try:
            yield
        finally:
            if tracing:
                sys.settrace(None)
            run.statements.append((_first_line(code), perf_counter() - begun))

    def answer(self, shell: Any, arm: dict[str, Any] | None = None) -> dict[str, Any]:
        """Arm, or tell what the last execution cost and what the namespace holds after it."""
        if arm is not None:
            self.arm(str(arm["cell"]), lines=bool(arm["lines"]))
            return {}
        measured = self._last.told() if self._last is not None else None
        return {"measured": measured, **_holdings(shell)}


class _Run:
    """One execution that is measured."""

    def __init__(self, cell: str, cells: dict[str, str], *, lines: bool) -> None:
        self.cell = cell
        self.wants_lines = lines
        self.statements: list[tuple[int, float]] = []
        self._cells = cells
        self._steps = 0
        self._tables: dict[CodeType, dict[int, list[float]]] = {}
        self._peak_is_own = _reset_peak()
        self._memory = _resident() if self._peak_is_own else _peak(own=False)
        self._cpu, self.cpu_s, self.memory_bytes = process_time(), 0.0, 0

    def close(self) -> None:
        self.cpu_s = process_time() - self._cpu
        self.memory_bytes = max(0, _peak(own=self._peak_is_own) - self._memory)

    # Following lines ---------------------------------------------------------------------------------------------

    def called(self, frame: FrameType, event: str, _: Any) -> _Trace | None:
        """Python's trace function: something was called."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            sys.settrace(None)
            return None
        code = frame.f_code
        if event != "call" or code.co_filename not in self._cells:
            return None
        return self._follow(self._tables.setdefault(code, {}))

    def _follow(self, table: dict[int, list[float]]) -> _Trace:
        """A trace function for one frame: a line's time goes on while what it calls runs."""
        entry: list[float] | None = None
        since = 0.0

        def follow(frame: FrameType, event: str, _: Any) -> _Trace | None:
            nonlocal entry, since
            now = perf_counter()
            if entry is not None:
                entry[1] += now - since
            self._steps += 1
            if self._steps > MOST_STEPS:
                entry = None
                sys.settrace(None)
                return None
            if event == "line":
                entry = table.setdefault(frame.f_lineno, [0, 0.0])
                entry[0] += 1
            elif event == "return":
                entry = None
            since = perf_counter()
            return follow

        return follow

    def told(self) -> dict[str, Any]:
        rows = [
            (self._cells[code.co_filename], _scope(code), line, int(hits), seconds)
            for code, table in self._tables.items()
            for line, (hits, seconds) in table.items()
        ]
        rows.sort(key=lambda row: -row[-1])
        return {
            "statements": self.statements,
            "cpu_s": self.cpu_s,
            "memory_bytes": self.memory_bytes,
            "followed": self.wants_lines,
            "cut": self._steps > MOST_STEPS,
            "lines": rows[:MOST_LINES],
        }


def _scope(code: CodeType) -> str:
    """The function that code is of; empty at a cell's top level."""
    return "" if code.co_name == "<module>" or code.co_name.startswith("<cell line") else code.co_name


def _first_line(code: CodeType) -> int:
    return min((line for *_, line in code.co_lines() if line), default=1)


# Memory --------------------------------------------------------------------------------------------------------------


def _reset_peak() -> bool:
    """Have the system count the peak from now on; False where it does not let us."""
    try:
        with open(_CLEAR_REFS, "w") as file:  # a file of the system's
            file.write(_RESET_PEAK)
    except OSError:
        return False
    return True


def _peak(*, own: bool) -> int:
    if not own:
        # Of the whole life: what a cell needs below an earlier peak does not show.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
    return _status("VmHWM:")


def _resident() -> int:
    return _status("VmRSS:")


def _status(field: str) -> int:
    try:
        with open(_PROC_STATUS) as file:  # a file of the system's
            return next(int(line.split()[1]) * _KIB for line in file if line.startswith(field))
    except (OSError, StopIteration, ValueError):
        return 0


# What the namespace holds --------------------------------------------------------------------------------------------


def _holdings(shell: Any) -> dict[str, Any]:
    """The types of all names, and the columns of frames: what a rule must know that goes by a cell's text."""
    types: dict[str, str] = {}
    frames: dict[str, dict[str, Any]] = {}
    for name, value in visible(shell.user_ns, shell.user_ns_hidden):
        if len(types) >= MOST_NAMES:
            break
        types[name] = type_name(type(value))
        if is_of(type(value), "pandas", "DataFrame") and len(frames) < MOST_FRAMES:
            frames[name] = _frame(value)
    return {"types": types, "frames": frames}


def _frame(frame: Any) -> dict[str, Any]:
    columns = {
        name: str(dtype)
        for name, dtype in list(zip(frame.columns, frame.dtypes, strict=True))[:MOST_COLUMNS]
        if is_a(name, str)
    }
    hides = set(dir(sys.modules["pandas"].Series))
    return {
        "rows": len(frame),
        "width": len(frame.columns),
        "columns": columns,
        "attributes": [name for name in columns if name.isidentifier() and name not in hides],
        "unique": len(frame) <= MOST_UNIQUE and bool(frame.index.is_unique),
    }
