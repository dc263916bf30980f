"""Frames become tables here and nowhere else, whatever library they are of.

A ``Frame`` is one value seen as columns: what its library knows of them, and how to take rows. It holds the value and
copies nothing until it is asked. How each library is asked stands in ``pandasframes``, ``columnarframes`` (polars,
Arrow, DuckDB) and ``plainframes`` (numpy and builtins). Only exact types of libraries that are loaded are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright_kernel import columnarframes, pandasframes, plainframes
from cellwright_kernel.framefields import Field, Frame
from cellwright_kernel.scalars import kind_of, plain_column, without_midnight
from cellwright_kernel.tables import Column, Table, Value

__all__ = ["Sample", "frame_of", "sampled_rows", "table_of"]

Sample: TypeAlias = Literal["first", "even", "all"]
DEFAULT_ROWS = 5_000
MAX_TEXT = 1_000

_FRAMERS: tuple[Callable[[Any], Frame | None], ...] = (
    pandasframes.frame_of,
    columnarframes.frame_of,
    plainframes.frame_of,
)


def frame_of(value: Any) -> Frame | None:
    """A value as columns and rows, if it is one of the kinds that have them."""
    return next((frame for framer in _FRAMERS if (frame := framer(value)) is not None), None)


def table_of(
    value: Any,
    *,
    max_rows: int | None = DEFAULT_ROWS,
    columns: Sequence[str] | None = None,
    sample: Sample = "even",
    max_text: int | None = MAX_TEXT,
) -> Table | None:
    """A frame as a table of at most so many rows; ``None`` if it is no frame.

    ``first`` takes the first rows, ``even`` spreads them evenly, ``all`` takes every row, or as many of the first as
    ``max_rows`` allows. Figures about columns are always of all rows.

    Raises:
        KeyError: there is no such column; the message names those that there are.
    """
    frame = value if isinstance(value, Frame) else frame_of(value)
    if frame is None:
        return None
    wanted = _wanted(frame, columns)
    rows = sampled_rows(frame.total_rows, max_rows, sample)
    made = [
        _column(frame, index, raw, max_text)
        for index, raw in zip(wanted, frame.take(rows, wanted), strict=True)
    ]
    notices = [
        *_left_out(rows, frame.total_rows),
        *frame.notices,
        *(notice for each in made for notice in each.notices),
    ]
    held = tuple(zip(*(each.values for each in made), strict=True)) if made else ((),) * len(rows)
    return Table(tuple(each.column for each in made), held, frame.total_rows, tuple(notices))


def sampled_rows(total: int, limit: int | None, sample: Sample) -> range:
    """Which rows of a frame to take; every one, the first, or every so-manieth."""
    if limit is None or total <= limit:
        return range(total)
    if sample == "even" and limit > 0:
        return range(0, total, _next_prime(-(-total // limit)))
    return range(limit)


def _next_prime(number: int) -> int:
    """A prime: rows often come in rounds of 7, 24 or 1,000, of which any other step would meet always the same."""
    while any(number % factor == 0 for factor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _wanted(frame: Frame, columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(len(frame.fields)))
    places = {field.name: index for index, field in enumerate(frame.fields)}
    if unknown := [name for name in columns if name not in places]:
        raise KeyError(f"there is no column {unknown[0]!r}; there are {', '.join(list(places)[:40])}")
    return [places[name] for name in columns]


@dataclass(frozen=True, slots=True)
class _Made:
    column: Column
    values: list[Value]
    notices: tuple[str, ...]


def _column(frame: Frame, index: int, raw: list[Any], max_text: int | None) -> _Made:
    field: Field = frame.fields[index]
    values, infinite, cut_short = plain_column(raw, max_text=max_text)
    column = Column(field.name, field.kind or kind_of(raw), field.dtype, frame.missing(index))
    if column.kind == "time":
        values = _days(values)
    notices = []
    if infinite:
        notices.append(f"{field.name}: {infinite:,} infinite values are left out")
    if cut_short:
        notices.append(f"{field.name}: {cut_short:,} texts are cut to {max_text:,} characters")
    return _Made(column, values, tuple(notices))


def _days(values: list[Value]) -> list[Value]:
    """Moments as days, if all of them are: those who read both in one column take them for different zones."""
    days = [without_midnight(value) if isinstance(value, str) else None for value in values]
    return list(days) if not any(day is not None and "T" in day for day in days) else values


def _left_out(rows: range, total: int) -> list[str]:
    if len(rows) == total:
        return []
    if rows.step == 1:
        return [f"the first {len(rows):,} of {total:,} rows"]
    return [f"{len(rows):,} of {total:,} rows, spread evenly: every {_ordinal(rows.step)}"]


def _ordinal(number: int) -> str:
    tens, ones = divmod(number % 100, 10)
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number:,}{ending}"
