"""A table for readers who pay by the token: its shape, a line a column, and a few rows.

Pure but for what a frame is asked. One function writes every digest, whether of a live frame in a kernel or of a
table that was read back from HTML. Bounded in text, and in how much of a large frame is looked at: a figure that is
of a part of the rows has a ``~`` before it, and the first line says of which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cellwright_kernel.digests import cut
from cellwright_kernel.frames import Extent, Frame, sampled_rows
from cellwright_kernel.tables import (
    ColumnKind,
    Table,
    Value,
    kind_of,
    kind_of_type,
    plain,
    present,
    without_midnight,
)

__all__ = ["MAX_NAME", "frame_digest", "table_digest", "value_text"]

MAX_CHARACTERS = 1_200
MAX_COLUMNS = 40
MAX_NAME = 40
MORE_COLUMNS = 30
MAX_DTYPE = 32
MAX_VALUE = 24
MAX_ROWS = 3
SHOWN_VALUES = 3
FEW_VALUES = 5
SAMPLE_ROWS = 1_000
SAMPLE_CELLS = 10_000
SMALL_CELLS = 20_000
MIN_SAMPLE_ROWS = 100
WHOLE_VALUES = 1_000_000
"""How many numbers are looked through whole, in a frame of any width, before samples must do."""
HEAD_LINES = 11
"""A digest should not be longer than ten rows and a header would be."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of one column."""

    name: str
    kind: ColumnKind
    dtype: str
    values: Sequence[Any]
    """Those that there are in the rows that were looked at."""
    seen: int
    """How many rows were looked at."""
    missing: int
    extent: Extent | None
    is_whole: bool
    """Whether ``values`` are of all rows."""
    is_counted: bool
    """Whether ``missing`` is of all rows."""


def frame_digest(frame: Frame, *, rows_shown: int = MAX_ROWS, counted: bool = False) -> str:
    """A frame's digest, looking at no more of it than is quick.

    ``counted`` is a frame that has counted its gaps and compared its values already, however many there are.
    """
    shown = list(range(min(len(frame.fields), MAX_COLUMNS)))
    rows = _looked_at(frame.total_rows, len(shown))
    taken = frame.take(rows, shown)
    room = frame.total_rows * len(shown) if counted else WHOLE_VALUES
    extents = _extents(frame, shown, room) if len(rows) < frame.total_rows else {}
    columns = [
        _seen(frame, number, values, extents.get(number), counted=counted)
        for number, values in zip(shown, taken, strict=True)
    ]
    if rows.step > 1:
        taken = frame.take(range(rows_shown), shown)
    first = list(zip(*(values[:rows_shown] for values in taken), strict=True))
    about = _Shape(frame.type, frame.total_rows, frame.width, len(frame.fields), len(rows))
    return _write(about, columns, first)


def _looked_at(total: int, columns: int) -> range:
    is_small = total <= SAMPLE_ROWS and total * columns <= SMALL_CELLS
    limit = max(MIN_SAMPLE_ROWS, min(SAMPLE_ROWS, SAMPLE_CELLS // max(1, columns)))
    return sampled_rows(total, None if is_small else limit, "even")


def _extents(frame: Frame, shown: list[int], room: int) -> dict[int, Extent]:
    """Least and greatest values of all rows, as far as looking them through is quick; numbers first."""
    found = {}
    for number in sorted(shown, key=lambda number: frame.fields[number].kind != "number"):
        if frame.total_rows <= room and (extent := frame.extent(number)) is not None:
            found[number] = extent
            room -= frame.total_rows
    return found


def table_digest(table: Table, *, called: str = "table", columns: int | None = None) -> str:
    """A table's digest; ``columns`` where it had more than it holds."""
    shown = table.columns[:MAX_COLUMNS]
    is_whole = len(table.rows) == table.total_rows
    held = [[row[number] for row in table.rows] for number in range(len(shown))]
    seen = [
        _Seen(
            column.name,
            column.kind,
            column.dtype,
            present(values),
            len(values),
            column.missing,
            None,
            is_whole,
            is_whole,
        )
        for column, values in zip(shown, held, strict=True)
    ]
    width = len(table.columns) if columns is None else columns
    about = _Shape(called, table.total_rows, width, max(width, len(table.columns)), len(table.rows))
    return _write(about, seen, table.rows[:MAX_ROWS])


def _seen(frame: Frame, number: int, values: list[Any], extent: Extent | None, *, counted: bool) -> _Seen:
    field = frame.fields[number]
    said = present(values)
    is_whole = len(values) == frame.total_rows
    return _Seen(
        f"[{field.name}]" if field.is_index else field.name,
        field.kind or kind_of(values),
        field.dtype,
        said,
        len(values),
        frame.missing(number) if counted else len(values) - len(said),
        extent,
        is_whole,
        is_whole or counted,
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    called: str
    rows: int
    width: int
    fields: int
    """Columns, and what names the rows."""
    seen: int
    """How many rows were looked at."""

    def long(self) -> str:
        rows, columns = self.rows, self.width
        return (
            f"{self.called}, {rows:,} row{'s' * (rows != 1)} \u00d7 {columns:,} column{'s' * (columns != 1)}"
        )

    def short(self) -> str:
        return f"{self.called} {self.rows:,} \u00d7 {self.width:,}"


def _write(shape: _Shape, columns: list[_Seen], rows: Sequence[Sequence[Any]]) -> str:
    lines = [_line(column) for column in columns]
    told = [[value_text(value) for value in row] for row in rows]
    limit = _limit(columns, told)
    note = f" (~: of {shape.seen:,} rows)" if any("~" in line for line in lines) else ""
    lines = _fitting(lines, MAX_CHARACTERS - len(shape.long()) - len(note))
    if len(lines) < shape.fields:
        lines.append(f"\u2026 {shape.fields - len(lines):,} more columns")
    body = "\n".join(lines)
    head = shape.long() if len(shape.long()) + len(note) + len(body) < limit else shape.short()
    text = f"{head}{note}\n{body}".rstrip("\n")
    # Of a single column the values stand in its line.
    for number, row in enumerate(told if len(columns) > 1 else []):
        line = f"{'rows: ' if number == 0 else '      '}{' | '.join(row)}"
        if len(text) + len(line) + 1 > limit:
            break
        text = f"{text}\n{line}"
    return text


def _fitting(lines: list[str], room: int) -> list[str]:
    """As many of the first as there is room for, and for a line about the others."""
    kept = []
    for line in lines:
        room -= len(line) + 1
        if room < MORE_COLUMNS:
            break
        kept.append(line)
    return kept


def _limit(columns: list[_Seen], rows: list[list[str]]) -> int:
    """What ten rows with a header would cost, within bounds."""
    widths = [
        max([len(column.name), *(len(row[number]) for row in rows)]) for number, column in enumerate(columns)
    ]
    return min(MAX_CHARACTERS, HEAD_LINES * (sum(widths) + 2 * len(widths) + 2))


def _line(column: _Seen) -> str:
    facts = [cut(column.dtype, MAX_DTYPE) or column.kind]
    if gaps := _gaps(column):
        facts.append(gaps)
    if told := _values(column):
        facts.append(told)
    return f"{cut(column.name, MAX_NAME)}: {', '.join(facts)}"


def _gaps(column: _Seen) -> str:
    if not column.missing:
        return ""
    if column.is_counted:
        return f"{column.missing:,} missing"
    return (
        f"~{column.missing / column.seen:.0%} missing"
        if column.missing * 100 > column.seen
        else "~1% missing"
    )


def _values(column: _Seen) -> str:
    """A range where there is an order, else the few values there are, or the first ones."""
    sign = "" if column.is_whole else "~"
    if column.kind in {"number", "time"}:
        found, sign = (column.extent, "") if column.extent is not None else (_extent(column.values), sign)
        if found is None:
            return ""
        low, high = value_text(found[0]), value_text(found[1])
        return f"{sign}{low} \u2026 {high}" if low != high else f"{sign}only {low}"
    said = column.values
    few = _few(said) if column.kind in {"text", "bool"} else None
    if few is not None and len(said) > len(few):
        return f"{sign}{len(few)} distinct: {', '.join(map(value_text, few))}"
    shown = said if few is not None else said[:SHOWN_VALUES]
    return ", ".join(map(value_text, shown)) + (", \u2026" if len(said) > len(shown) else "")


def _few(values: Sequence[Any]) -> list[Any] | None:
    """The different values, if there are only a few; in a column of texts and booleans all can be compared."""
    if not set(map(type, values)) <= {str, bool}:
        return None
    found = list(dict.fromkeys(values))
    return found if len(found) <= FEW_VALUES else None


def _extent(values: Sequence[Any]) -> Extent | None:
    try:
        return (min(values), max(values)) if values else None
    except TypeError:  # times with and without a zone
        return None


def value_text(value: Any) -> str:
    """A value in a few characters."""
    made: Value = plain(value)
    if made is None:
        return str(value) if type(value) is float and math.isinf(value) else "-"
    if isinstance(made, float):
        return f"{made:.6g}"
    text = made if isinstance(made, str) else str(made)
    if kind_of_type(type(value)) == "time":
        text = without_midnight(text)
    return cut(" ".join(text.split()), MAX_VALUE)
