"""Raw columns to typed ones: what a list of texts, or of JSON's values, holds. Knows no files (see ``datafiles``).

A column is of numbers or times only if every value is one, since a picture of half of them would lie; what is in
the way is told by its line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cellwright.charts.fields import quoted
from cellwright.charts.timestamps import looks_like_time, parse_times
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

__all__ = ["TypedColumn", "json_column", "table_of", "text_column"]

_MISSING_NUMBERS = frozenset(("", "na", "n/a", "#n/a", "null", "none", "<na>", "nat"))
_FLAGS = {"true": True, "false": False}
_CODE = re.compile(r"\n0\d|_")
_LOOKED_AT = 50
# Less than this share of numbers and a column of text was never meant to hold them.
_MOSTLY = 0.9
_LONGEST_OTHER = 500


@dataclass(frozen=True, slots=True)
class TypedColumn:
    name: str
    kind: ColumnKind
    values: Sequence[Value]
    notices: tuple[str, ...] = ()


def table_of(columns: Sequence[TypedColumn], notices: Sequence[str] = ()) -> Table:
    rows = tuple(zip(*(column.values for column in columns), strict=True))
    return Table(
        tuple(Column(column.name, column.kind, "", column.values.count(None)) for column in columns),
        rows,
        len(rows),
        (*notices, *(notice for column in columns for notice in column.notices)),
    )


def text_column(name: str, texts: Sequence[str], *, line_of: Callable[[int], int]) -> TypedColumn:
    """A column of a CSV file; ``line_of`` tells the line of a row."""
    whole = _whole_numbers(texts)
    if whole is not None:
        return TypedColumn(name, "number", whole)
    floats = _floats(texts)
    if floats is not None:
        return _finite(name, floats)
    first = next((text for text in texts if text), None)
    if first is None:
        return TypedColumn(name, "text", [None] * len(texts))
    if first.lower() in _FLAGS and all(text.lower() in _FLAGS for text in texts if text):
        return TypedColumn(name, "bool", [_FLAGS.get(text.lower()) for text in texts])
    if _are_times(texts):
        return TypedColumn(name, "time", [text or None for text in texts])
    return TypedColumn(name, "text", [text or None for text in texts], _stray(name, texts, line_of))


def json_column(name: str, values: Sequence[object]) -> TypedColumn:
    """A column of a JSON file."""
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return TypedColumn(name, "text", [None] * len(values))
    if kinds <= {int, float}:
        return _finite(name, values)  # type: ignore[arg-type]  # as just found out
    if kinds == {bool}:
        return TypedColumn(name, "bool", values)  # type: ignore[arg-type]  # as just found out
    told = [None if value is None else value if type(value) is str else _told(value) for value in values]
    if kinds == {str}:
        filled = ["" if text is None else text for text in told]
        return TypedColumn(name, "time" if _are_times(filled) else "text", [text or None for text in filled])
    return TypedColumn(name, "other" if kinds & {dict, list} else "text", told)


def _whole_numbers(texts: Sequence[str]) -> list[int] | None:
    try:
        numbers = list(map(int, texts))
    except ValueError:
        return None
    return None if _hold_codes(texts) else numbers


def _floats(texts: Sequence[str]) -> list[float | None] | None:
    try:
        numbers: list[float | None] = list(map(float, texts))
    except ValueError:
        return _floats_with_gaps(texts)
    return None if _hold_codes(texts) else numbers


def _floats_with_gaps(texts: Sequence[str]) -> list[float | None] | None:
    sample = list(islice((text for text in texts if text), _LOOKED_AT))
    if not all(map(_is_number, sample)):
        return None
    filled = [text for text in texts if text.strip().lower() not in _MISSING_NUMBERS]
    try:
        numbers = list(map(float, filled))
    except ValueError:
        return None
    if not filled or _hold_codes(filled):
        return None
    # Counts stay counts where some are missing.
    counts = all(text.strip().lstrip("+-").isdecimal() for text in filled)
    along: Iterator[float] = iter(map(int, filled)) if counts else iter(numbers)
    return [None if text.strip().lower() in _MISSING_NUMBERS else next(along) for text in texts]


def _hold_codes(texts: Sequence[str]) -> bool:
    """Whether there are names among the numbers: 007, and what Python alone takes for one, 1_000."""
    return _CODE.search("\n" + "\n".join(texts)) is not None


def _finite(name: str, numbers: Sequence[float | None]) -> TypedColumn:
    if _are_finite(numbers):
        return TypedColumn(name, "number", numbers)
    kept = [number if number is not None and _is_finite(number) else None for number in numbers]
    lost = kept.count(None) - sum(number is None for number in numbers)
    if not lost:
        return TypedColumn(name, "number", kept)
    values = "1 value is" if lost == 1 else f"{lost:,} values are"
    return TypedColumn(name, "number", kept, (f"{quoted(name)}: {values} NaN or infinite, and left out",))


def _are_finite(numbers: Sequence[Any]) -> bool:
    try:
        return all(map(math.isfinite, numbers))
    except (TypeError, OverflowError):  # something is missing, or beyond every float
        return False


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond every float
        return False


def _are_times(texts: Sequence[str]) -> bool:
    filled = (text for text in texts if text)
    if not all(looks_like_time(text) for text in islice(filled, _LOOKED_AT)):
        return False
    try:
        parse_times([text for text in texts if text] if "" in texts else texts)
    except ValueError:
        return False
    return any(texts)


def _stray(name: str, texts: Sequence[str], line_of: Callable[[int], int]) -> tuple[str, ...]:
    """What keeps a column that is nearly all numbers from being one."""
    sample = [text for text in islice(texts, _LOOKED_AT) if text]
    if not sample or sum(map(_is_number, sample)) < _MOSTLY * len(sample):
        return ()
    strays = [index for index, text in enumerate(texts) if text and not _is_number(text)]
    if not strays or len(strays) > (1 - _MOSTLY) * len(texts):
        return ()
    first = strays[0]
    share = f"{len(strays):,} of {len(texts):,} values are no numbers"
    return (
        f"{quoted(name)} holds text: {share}, the first is {quoted(texts[first])} in line {line_of(first):,}",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip().lower() in _MISSING_NUMBERS
    return True


def _told(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_OTHER else f"{text[:_LONGEST_OTHER]}…"
