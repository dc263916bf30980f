"""A table's columns as a chart reads them: numbers, positions along an axis, names of series.

Refuses a column that cannot be what it is asked for, with the field of the config that named it. Builds no specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add
from typing import Any, Literal, NoReturn, TypeAlias

from cellwright.charts.fields import listed, quoted
from cellwright.charts.manifests import Output
from cellwright.charts.timestamps import on_one_axis
from cellwright.charts.wording import label
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import ColumnKind, Table, Value

__all__ = ["Axis", "AxisKind", "Readings", "exact"]

AxisKind: TypeAlias = Literal["number", "time", "name"]
# Beyond this the difference of two values may be no number any more.
_LARGEST = 1e300
_EXACT = 2**53
_WORDS: dict[ColumnKind, str] = {
    "number": "numbers",
    "text": "text",
    "time": "times",
    "bool": "true and false",
    "other": "nested values",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """Positions: numbers, seconds since 1970, or names; None where a row has none."""

    name: str
    kind: AxisKind
    values: Sequence[float | str | None]


class Readings:
    """The columns of one table for one output."""

    def __init__(self, output: Output, table: Table) -> None:
        self.output = output
        self.table = table
        self.notices: list[str] = []
        self._titles = dict(zip(table.names, _apart(table.names), strict=True))
        self._places = {column.name: index for index, column in reversed(list(enumerate(table.columns)))}

    def kind(self, name: str) -> ColumnKind:
        return self.table.columns[self._places[name]].kind

    def values(self, name: str) -> list[Value]:
        place = self._places[name]
        return [row[place] for row in self.table.rows]

    def numbers(self, name: str, field: str) -> list[float | None]:
        """The column's numbers.

        Raises:
            ChartRefused: it holds something else, or nothing.
        """
        kind = self.kind(name)
        if kind not in ("number", "bool"):
            self.refuse(field, self._not_numbers(name, kind))
        numbers = _numbers(self.values(name))
        self._tell_lost(name, numbers)
        if not any(number is not None for number in numbers):
            rows = f"{len(numbers):,} rows" if len(numbers) != 1 else "one row"
            self.refuse(field, f"{quoted(name)} has no value that can be drawn in {rows}")
        return numbers

    def axis(self, name: str) -> Axis:
        """The column as positions, by what it holds."""
        kind = self.kind(name)
        values = self.values(name)
        if kind == "number":
            numbers = _numbers(values)
            self._tell_lost(name, numbers)
            return Axis(name, "number", numbers)
        if kind == "time" and (seconds := _seconds(values)) is not None:
            return Axis(name, "time", seconds)
        return Axis(name, "name", self.names(name))

    def names(self, name: str) -> list[str]:
        """The column as names of categories or series."""
        values = self.values(name)
        different = list(dict.fromkeys(values))
        told = dict(zip(different, _apart(different), strict=True))
        return [told[value] for value in values]

    def title(self, name: str) -> str:
        """What a picture calls a column as a series."""
        return self._titles[name]

    def refuse(self, field: str, message: str) -> NoReturn:
        raise ChartRefused(f"{self.output.field(field)}: {message}")

    def _not_numbers(self, name: str, kind: ColumnKind) -> str:
        others = [column.name for column in self.table.columns if column.kind == "number"]
        there = f"; numbers are in {listed(others)}" if others else ""
        why = next((f" ({notice})" for notice in self.table.notices if notice.startswith(quoted(name))), "")
        first = next((value for value in self.values(name) if value is not None), None)
        example = f", for instance {quoted(first)}" if first is not None and not why else ""
        return f"{quoted(name)} holds {_WORDS[kind]}{example}, and must hold numbers{why}{there}"

    def _tell_lost(self, name: str, numbers: Sequence[float | None]) -> None:
        place = self._places[name]
        lost = numbers.count(None)
        if lost:
            lost -= sum(row[place] is None for row in self.table.rows)
        notice = f"{quoted(name)}: {lost:,} values are too large to be drawn, and left out"
        if lost and notice not in self.notices:
            self.notices.append(notice)


def _apart(values: Sequence[Value]) -> list[str]:
    """A label for each; long ones are cut, and two that begin alike stay two."""
    taken: set[str] = set()
    labels = []
    for value in values:
        plain = shown = label(value)
        number = 2
        while shown in taken:
            shown, number = f"{plain} ({number})", number + 1
        taken.add(shown)
        labels.append(shown)
    return labels


def exact(number: float) -> float:
    """A whole number as long as every reader of JSON takes it for the same one."""
    return number if -_EXACT <= number <= _EXACT else float(number)


def _numbers(values: list[Value]) -> list[float | None]:
    plain: list[Any] = values
    try:
        # Plain numbers all of them, as they mostly are: no need to look at each.
        if min(plain) >= -_EXACT and max(plain) <= _EXACT:
            return list(map(add, plain, repeat(0)))
    except (TypeError, ValueError):  # something is missing, or there is nothing
        pass
    return [
        exact(value + 0) if isinstance(value, int | float) and -_LARGEST <= value <= _LARGEST else None
        for value in values
    ]


def _seconds(values: Sequence[Value]) -> list[float | None] | None:
    try:
        seconds = on_one_axis([value for value in values if value is not None])  # type: ignore[misc]  # texts, by its kind
    except (ValueError, TypeError):
        return None
    if len(seconds) == len(values):
        return list(seconds)
    along = iter(seconds)
    return [None if value is None else next(along) for value in values]
