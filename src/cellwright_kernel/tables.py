"""A table as everybody passes it on: named columns, a bounded part of the rows, and how many there are in all.

Made from frames inside a kernel and from files outside; read by digests, HTML tables and charts. Holds plain values
only, so that it is the same on both sides of the wire. It knows no library of frames (see ``frames``).
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import math
import pathlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright_kernel.digests import cut, describe, is_genuine, is_of, library, type_name

__all__ = [
    "Column",
    "ColumnKind",
    "Table",
    "Value",
    "count_missing",
    "kind_of",
    "kind_of_type",
    "label",
    "plain",
    "plain_column",
    "present",
    "type_label",
    "without_midnight",
]

ColumnKind: TypeAlias = Literal["number", "text", "time", "bool", "other"]

Value: TypeAlias = "bool | int | float | str | None"
"""A cell: JSON's scalars. A float is finite, a time is ISO 8601, anything else is told in words."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: ColumnKind
    dtype: str = ""
    """The type's name in the library that the table comes from; empty where there is none."""
    missing: int = 0
    """How many of all rows have no value here."""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    total_rows: int
    notices: tuple[str, ...] = ()
    """What a reader must know about it: rows left out and how they were chosen, values that could not be kept."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def to_wire(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "columns": [
                {"name": column.name, "kind": column.kind, "dtype": column.dtype, "missing": column.missing}
                for column in self.columns
            ],
            "rows": [list(row) for row in self.rows],
            "total_rows": self.total_rows,
            "notices": list(self.notices),
        }

    @classmethod
    def from_wire(cls, held: Mapping[str, Any]) -> Table:
        return cls(
            tuple(Column(**column) for column in held["columns"]),
            tuple(tuple(row) for row in held["rows"]),
            held["total_rows"],
            tuple(held["notices"]),
        )


# Single values as a table holds them: JSON's scalars, made without running anybody's code.

MAX_INT_BITS = 63

MAX_FLOAT_BITS = 1_000

MAX_NAME = 200

MISSING = "missing"
"""What ``kind_of_type`` calls the types of values that stand for nothing."""

_KINDS: dict[type, str] = {
    type(None): MISSING,
    bool: "bool",
    int: "number",
    float: "number",
    decimal.Decimal: "number",
    fractions.Fraction: "number",
    dt.timedelta: "number",
    dt.datetime: "time",
    dt.date: "time",
    dt.time: "text",
    str: "text",
    uuid.UUID: "text",
    pathlib.PosixPath: "text",
    pathlib.PurePosixPath: "text",
}


def kind_of_type(kind: type) -> str:
    """The kind of a column whose values have this type, or ``MISSING``."""
    found = _KINDS.get(kind)
    if found is not None:
        return found
    if is_genuine(kind, "numpy"):
        found = _kind_of_numpy(kind)
    elif kind in _types_of_nothing():
        found = MISSING
    else:
        found = next((told for name, told in _PANDAS.items() if is_of(kind, "pandas", name)), "other")
    # Only types of libraries: one that a cell defines must not live on here.
    if found != "other":
        _KINDS[kind] = found
    return found


_PANDAS = {"Timestamp": "time", "Timedelta": "number", "Period": "text", "Interval": "text"}


def _kind_of_numpy(kind: type) -> str:
    numpy: Any = library("numpy")
    for base, name in (
        (numpy.bool_, "bool"),
        (numpy.timedelta64, "number"),
        (numpy.integer, "number"),
        (numpy.floating, "number"),
        (numpy.datetime64, "time"),
        (numpy.str_, "text"),
    ):
        if issubclass(kind, base):
            return name
    return "other"


def _types_of_nothing() -> tuple[type, ...]:
    pandas = library("pandas")
    return () if pandas is None else (type(pandas.NaT), type(pandas.NA))


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing."""
    kind = type(value)
    return math.isnan(value) if kind is float else kind_of_type(kind) == MISSING


def count_missing(values: Iterable[Any]) -> int:
    return sum(1 for value in values if is_missing(value))


def present(values: Sequence[Any]) -> Sequence[Any]:
    """Those of the values that stand for something."""
    types = set(map(type, values))
    if types == {float}:
        return [value for value in values if value == value]  # only NaN differs from itself
    if float not in types and all(kind_of_type(kind) != MISSING for kind in types):
        return values
    return [value for value in values if not is_missing(value)]


def kind_of(values: Sequence[Any]) -> ColumnKind:
    """The kind of a column, from its values."""
    types = {type(value) for value in values}
    # A gap among texts is often a float that is no number.
    if float in types and len(types) > 1:
        types = {type(value) for value in values if type(value) is not float or not math.isnan(value)}
    kinds = {kind_of_type(kind) for kind in types} - {MISSING}
    for kind in ("number", "text", "time", "bool"):
        if kinds == {kind}:
            return kind
    return "other"


def plain_column(values: Sequence[Any], *, max_text: int | None = None) -> tuple[list[Value], int, int]:
    """A column's values, and how many of them were infinite and how many were cut."""
    infinite = cut_short = 0
    found: list[Value] = []
    for value in values:
        made = plain(value)
        if made is None and type(value) is float and math.isinf(value):
            infinite += 1
        elif max_text is not None and type(made) is str and len(made) > max_text:
            made = cut(made, max_text)
            cut_short += 1
        found.append(made)
    return found, infinite, cut_short


def plain(value: Any) -> Value:
    """One value; what is not a number, a time or a text is told in words, and what stands for nothing is ``None``."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        as_it_is: Value = value
        return as_it_is
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is int:
        return _integer(value)
    maker = _MAKERS.get(kind)
    if maker is None:
        maker = _maker_of(kind)
        # As above.
        if maker is not words:
            _MAKERS[kind] = maker
    made = maker(value)
    return plain(made) if type(made) in _NUMBERS else made


_NUMBERS = frozenset({float, int})


def _integer(value: int) -> Value:
    # Readers of JSON have no larger integers; beyond what a float can hold there is no number at all.
    if value.bit_length() <= MAX_INT_BITS:
        return value
    return float(value) if value.bit_length() <= MAX_FLOAT_BITS else None


def _maker_of(kind: type) -> Callable[[Any], Any]:
    told = kind_of_type(kind)
    if told == MISSING:
        return lambda _: None
    if is_of(kind, "pandas", "Timedelta"):
        return lambda value: value.total_seconds()
    if is_of(kind, "pandas", "Timestamp"):
        return _iso
    if is_of(kind, "pandas", "Period", "Interval"):
        return str
    if is_genuine(kind, "numpy") and told != "other":
        return _numpy_scalar
    return words


def _iso(value: Any) -> str:
    text: str = value.isoformat()
    return text


def _numpy_scalar(value: Any) -> Any:
    numpy: Any = library("numpy")
    kind = type(value)
    if kind is numpy.datetime64:
        text = str(value)
        return None if text == "NaT" else text.rstrip("0").rstrip(".") if "." in text else text
    if kind is numpy.timedelta64:
        seconds = float(value / numpy.timedelta64(1, "s"))
        return seconds if math.isfinite(seconds) else None
    for base, make in ((numpy.bool_, bool), (numpy.integer, int), (numpy.floating, float)):
        if issubclass(kind, base):
            return make(value)
    return str(value)


def without_midnight(text: str) -> str:
    """A moment as a day, if it is a midnight."""
    day, _, hour = text.partition("T")
    return day if hour and not hour.strip("0:.") else text


def words(value: Any) -> str:
    """An object in a few words."""
    about = describe(value)
    told: str = about.get("digest") or f"<{about['type']}>"
    return told


_MAKERS: dict[type, Callable[[Any], Any]] = {
    decimal.Decimal: lambda value: float(value) if value.is_finite() else None,
    fractions.Fraction: lambda value: value.numerator / value.denominator,
    dt.timedelta: lambda value: value.total_seconds(),
    dt.datetime: _iso,
    dt.date: _iso,
    dt.time: _iso,
    uuid.UUID: str,
    pathlib.PosixPath: str,
    pathlib.PurePosixPath: str,
}


def label(key: Any) -> str:
    """A column's name, whatever it is; the levels of one with several are joined."""
    if type(key) is tuple:
        return cut(".".join(told for part in key if (told := label(part))), MAX_NAME)
    made = plain(key)
    if made is None:
        return ""
    return cut(made if type(made) is str else str(made), MAX_NAME)


def type_label(kind: type) -> str:
    """A type as people write it: without the modules that a library keeps it in."""
    name = type_name(kind)
    top, _, rest = name.partition(".")
    short = rest.rpartition(".")[2]
    return f"{top}.{short}" if rest and is_of(kind, top, short) else name
