"""A table's columns as a chart reads them: numbers, positions along an axis, names of series.

Refuses a column that cannot be what it is asked for, with the field of the config that named it. Builds no specs.
"""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import repeat
from operator import add
from typing import Any, Literal, NoReturn, TypeAlias

from cellwright.charts._labels import MISSING, label, listed, number_text, on_one_axis, quoted
from cellwright.charts.encodings import Encodings, Output
from cellwright.charts.themes import OTHER_SERIES
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import ColumnKind, Table, Value

__all__ = [
    "HEIGHT",
    "WIDTH",
    "Axis",
    "Categories",
    "Drawing",
    "Readings",
    "Tally",
    "categorize",
    "exact",
    "extremes",
    "fold",
    "nice_step",
    "plural",
    "spread",
    "tally",
]
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
        labels = dict(zip(different, _apart(different), strict=True))
        return [labels[value] for value in values]

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


# Positions to categories: names as they are, numbers and times in steps where there are too many of them.

_EPOCH = datetime(1970, 1, 1)  # a clock on a wall has no zone

_FORMS = {
    "minute": "%Y-%m-%d %H:%M",
    "hour": "%Y-%m-%d %H:00",
    "day": "%Y-%m-%d",
    "month": "%b %Y",
    "year": "%Y",
}

_DAY_S = 86400.0

_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True)
class Categories:
    names: Sequence[str]
    """One a row."""
    order: tuple[str, ...]
    ranked: bool
    """Whether the order is of the values themselves, and so must be kept."""
    step: str | None = None
    """``month`` or ``ranges of 20``, where values were put together."""


def categorize(axis: Axis, *, at_most: int) -> Categories:
    if axis.kind == "time":
        return _times(axis.values, at_most)  # type: ignore[arg-type]  # seconds, by its kind
    if axis.kind == "number":
        return _category_numbers(axis.values, at_most)  # type: ignore[arg-type]  # numbers, by its kind
    names: Sequence[str] = axis.values  # type: ignore[assignment]  # names, by its kind
    return Categories(names, tuple(dict.fromkeys(names)), ranked=False)


def fold(weights: Mapping[str, float], *, at_most: int) -> dict[str, str]:
    """Each name's own, or ``other (12 more)`` for the lightest where there are too many."""
    if len(weights) <= at_most:
        return {name: name for name in weights}
    ranked = sorted(weights, key=lambda name: -abs(weights[name]))
    kept = set(ranked[: at_most - 1])
    rest = f"{OTHER_SERIES} ({len(weights) - len(kept):,} more)"
    return {name: name if name in kept else rest for name in weights}


def nice_step(span: float, steps: int) -> float:
    """A step of 1, 2, 2.5 or 5 times a power of ten, so that ``steps`` of them, or fewer, cover the span."""
    raw = span / steps
    if not raw > 0 or not math.isfinite(raw):
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    if power == 0.0:  # among the smallest numbers there are
        return raw
    return next((factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw), 10 * power)


def _times(seconds: Sequence[float | None], at_most: int) -> Categories:
    kept = [second for second in seconds if second is not None]
    exact = set(kept)
    if not exact:
        return Categories([MISSING] * len(seconds), (MISSING,), ranked=True)
    step = None
    if len(exact) <= at_most:
        moments = {second: _moment(second) for second in sorted(exact)}
        form = _form_for(list(moments.values()))
        labels = {second: moment.strftime(form) for second, moment in moments.items()}
        names = [MISSING if second is None else labels[second] for second in seconds]
    else:
        step, size, labels = _calendar(exact, at_most)
        names = [MISSING if second is None else labels[second // size] for second in seconds]
    order = tuple(dict.fromkeys(labels.values()))
    return Categories(names, (*order, MISSING) if len(kept) < len(seconds) else order, ranked=True, step=step)


def _calendar(exact: set[float], at_most: int) -> tuple[str, float, dict[float, str]]:
    """The smallest unit with few enough steps, the seconds that make one place, and each place's name, in order."""
    days = {second // _DAY_S for second in exact}
    if len(days) <= at_most:
        for unit, size in (("minute", 60.0), ("hour", 3600.0)):
            places = {second // size for second in exact}
            if len(places) <= at_most:
                return (
                    unit,
                    size,
                    {place: _moment(place * size).strftime(_FORMS[unit]) for place in sorted(places)},
                )
        return "day", _DAY_S, {day: _moment(day * _DAY_S).strftime(_FORMS["day"]) for day in sorted(days)}
    moments = {day: _moment(day * _DAY_S) for day in sorted(days)}
    for unit in ("month", "year"):
        labels = {day: moment.strftime(_FORMS[unit]) for day, moment in moments.items()}
        if len(set(labels.values())) <= at_most:
            return unit, _DAY_S, labels
    years = [moment.year for moment in moments.values()]
    width = int(nice_step(max(years) - min(years) + 1, at_most - 1)) or 1
    labels = {
        day: f"{moment.year // width * width} to {moment.year // width * width + width - 1}"
        for day, moment in moments.items()
    }
    return plural(width, "year"), _DAY_S, labels


def _form_for(moments: Sequence[datetime]) -> str:
    if all(moment == _start(moment, "year") for moment in moments):
        return "%Y"
    if all(moment == _start(moment, "month") for moment in moments):
        return "%b %Y"
    if all(moment == _start(moment, "day") for moment in moments):
        return "%Y-%m-%d"
    return (
        "%Y-%m-%d %H:%M"
        if all(moment == _start(moment, "minute") for moment in moments)
        else "%Y-%m-%d %H:%M:%S.%f"
    )


def _start(moment: datetime, unit: str) -> datetime:
    floors = {
        "minute": {"second": 0, "microsecond": 0},
        "hour": {"minute": 0, "second": 0, "microsecond": 0},
        "day": {"hour": 0, "minute": 0, "second": 0, "microsecond": 0},
        "month": {"day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0},
        "year": {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0},
    }
    return moment.replace(**floors[unit])  # type: ignore[arg-type]  # parts of a time


def _moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _category_numbers(numbers: Sequence[float | None], at_most: int) -> Categories:
    kept = sorted({number for number in numbers if number is not None})
    missing = (MISSING,) if any(number is None for number in numbers) else ()
    if len(kept) <= at_most:
        labels = {number: label(number) for number in kept}
        names = [MISSING if number is None else labels[number] for number in numbers]
        return Categories(names, (*dict.fromkeys(labels.values()), *missing), ranked=True)
    step = nice_step(kept[-1] - kept[0], at_most - 1)
    base = math.floor(kept[0] / step) * step
    edges = [base + step * index for index in range(at_most + 2)]
    ranges = [
        f"{number_text(_tidy(low))} to {number_text(_tidy(high))}" for low, high in itertools.pairwise(edges)
    ]
    places = {number: min(bisect_right(edges, number) - 1, len(ranges) - 1) for number in kept}
    names = [MISSING if number is None else ranges[places[number]] for number in numbers]
    used = sorted(set(places.values()))
    order = tuple(dict.fromkeys(ranges[place] for place in used))
    return Categories(names, (*order, *missing), ranked=True, step=f"ranges of {number_text(step)}")


def _tidy(edge: float) -> float:
    """Without what adding steps left in the last digits."""
    return float(f"{edge:.{_MOST_DIGITS - 3}g}")


# Values added up, or rows counted, for each category and series: exact, over all rows of the table.

Key = tuple[str, str]


@dataclass(slots=True)
class Tally:
    what: str
    """What the numbers are: ``revenue``, ``sum of revenue``, ``count``."""
    values: dict[Key, float]
    whole: bool
    notices: list[str] = field(default_factory=list)

    @property
    def lowest(self) -> float:
        return min(self.values.values(), default=0)

    def weights(self, part: int) -> dict[str, float]:
        """How much belongs to each category (0) or series (1), in the order in which they came."""
        weights: dict[str, float] = {}
        for key, value in self.values.items():
            weights[key[part]] = weights.get(key[part], 0) + abs(value)
        return weights

    def leave_out(self, category: str) -> float:
        """Take a category out, and return what it came to."""
        kept = {key: value for key, value in self.values.items() if key[0] != category}
        gone = sum(value for key, value in self.values.items() if key[0] == category)
        self.values = kept
        return gone

    def merge(self, folding: Mapping[str, str], part: int) -> None:
        """Add up what a folding puts together."""
        merged: dict[Key, float] = {}
        for (category, series), value in self.values.items():
            key = (folding[category], series) if part == 0 else (category, folding[series])
            merged[key] = exact(merged.get(key, 0) + value)
        self.values = merged


def tally(encodings: Encodings, readings: Readings, categories: Sequence[str]) -> Tally:
    groups = readings.names(encodings.group) if encodings.group is not None else None
    if not categories:
        raise ChartRefused(f"{readings.output.source} has no rows")
    if not encodings.y:
        return _counted(categories, groups or [""] * len(categories))
    sums: dict[Key, float] = {}
    counts: dict[Key, int] = {}
    notices = []
    for name in encodings.y:
        numbers = readings.numbers(name, "yColumn")
        missing = numbers.count(None)
        if missing:
            notices.append(f"{quoted(name)}: {plural(missing, 'row')} without a value")
        _add(sums, counts, categories, _series_of(readings.title(name), groups, encodings), numbers)
    repeated = any(count > 1 for count in counts.values())
    named = encodings.y[0] if len(encodings.y) == 1 else "values"
    if repeated:
        notices.append(
            f"several rows share a bar: {named} are added up"
            if named == "values"
            else f"several rows share a bar: {named} is added up"
        )
    whole = all(isinstance(value, int) for value in sums.values())
    return Tally(f"sum of {named}" if repeated else named, sums, whole, notices)


def _counted(categories: Sequence[str], groups: Sequence[str]) -> Tally:
    counts: dict[Key, float] = {}
    counts.update(Counter(zip(categories, groups, strict=True)))
    return Tally("count", counts, whole=True)


def _series_of(name: str, groups: Sequence[str] | None, encodings: Encodings) -> Sequence[str] | str:
    """A name for all rows, or one for each."""
    if groups is None:
        return name
    return groups if len(encodings.y) == 1 else [f"{name}, {group}" for group in groups]


def _add(
    sums: dict[Key, float],
    counts: dict[Key, int],
    categories: Sequence[str],
    series: Sequence[str] | str,
    numbers: Sequence[float | None],
) -> None:
    keys = zip(categories, repeat(series) if isinstance(series, str) else series, strict=False)
    found: defaultdict[Key, list[float | None]] = defaultdict(list)
    for key, number in zip(keys, numbers, strict=True):
        found[key].append(number)
    for key, every in found.items():
        held = [number for number in every if number is not None] if None in every else every
        if held:
            sums[key] = exact(sums.get(key, 0) + sum(held))  # type: ignore[arg-type]  # none is None
            counts[key] = counts.get(key, 0) + len(held)


# Fewer rows that look like all of them: spread evenly, or with the extremes of every stretch. Pure and
# repeatable.

_SEED = 20


def spread(rows: int, keep: int, also: Sequence[int] = ()) -> list[int]:
    """One row of each of ``keep`` stretches of the same length, chosen without a rhythm, and those in ``also``."""
    if rows <= keep:
        return list(range(rows))
    choose = random.Random(_SEED)  # noqa: S311  # repeatable, not secret
    chosen = {
        choose.randrange(index * rows // keep, max((index + 1) * rows // keep, index * rows // keep + 1))
        for index in range(keep)
    }
    return sorted(chosen.union(also))


def extremes(values: Sequence[float | None], keep: int) -> list[int]:
    """The places of the lowest and highest value of each stretch, with the first and the last: spikes stay."""
    if len(values) <= keep:
        return list(range(len(values)))
    stretches = max(1, keep // 2)
    chosen = {0, len(values) - 1}
    for index in range(stretches):
        begin, end = index * len(values) // stretches, (index + 1) * len(values) // stretches
        stretch = values[begin:end]
        filled = [value for value in stretch if value is not None] if None in stretch else stretch
        if filled:
            chosen.add(begin + stretch.index(min(filled)))  # type: ignore[type-var]  # none is None
            chosen.add(begin + stretch.index(max(filled)))  # type: ignore[type-var]  # none is None
    return sorted(chosen)


# What a builder gives back: the body of a spec, and what there is to say about the picture.

WIDTH, HEIGHT = 620, 340


@dataclass(frozen=True, slots=True)
class Drawing:
    body: dict[str, Any]
    """Data, marks and encodings; title, theme and size are added by ``specs``."""
    about: str
    """What is drawn, in a few words; the title where there is none."""
    facts: tuple[str, ...]
    """A few lines for somebody who cannot see it."""
    notices: tuple[str, ...] = ()
    zoom: bool = False
    """Whether a reader may move along its axes."""


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def counted(number: int, one: str) -> str:
    """A clause for rows that are not drawn; empty for none."""
    return "" if not number else plural(number, one)
