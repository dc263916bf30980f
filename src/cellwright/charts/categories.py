"""Positions to categories: names as they are, numbers and times in steps where there are too many of them."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cellwright.charts.drawings import plural
from cellwright.charts.readings import Axis
from cellwright.charts.themes import OTHER_SERIES
from cellwright.charts.wording import MISSING, label, told_number

__all__ = ["Categories", "categorize", "fold", "nice_step"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a clock on a wall has no zone
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
        return _numbers(axis.values, at_most)  # type: ignore[arg-type]  # numbers, by its kind
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
        told = {second: moment.strftime(form) for second, moment in moments.items()}
        names = [MISSING if second is None else told[second] for second in seconds]
    else:
        step, size, told = _calendar(exact, at_most)
        names = [MISSING if second is None else told[second // size] for second in seconds]
    order = tuple(dict.fromkeys(told.values()))
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
        told = {day: moment.strftime(_FORMS[unit]) for day, moment in moments.items()}
        if len(set(told.values())) <= at_most:
            return unit, _DAY_S, told
    years = [moment.year for moment in moments.values()]
    width = int(nice_step(max(years) - min(years) + 1, at_most - 1)) or 1
    told = {
        day: f"{moment.year // width * width} to {moment.year // width * width + width - 1}"
        for day, moment in moments.items()
    }
    return plural(width, "year"), _DAY_S, told


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


def _numbers(numbers: Sequence[float | None], at_most: int) -> Categories:
    kept = sorted({number for number in numbers if number is not None})
    missing = (MISSING,) if any(number is None for number in numbers) else ()
    if len(kept) <= at_most:
        told = {number: label(number) for number in kept}
        names = [MISSING if number is None else told[number] for number in numbers]
        return Categories(names, (*dict.fromkeys(told.values()), *missing), ranked=True)
    step = nice_step(kept[-1] - kept[0], at_most - 1)
    base = math.floor(kept[0] / step) * step
    edges = [base + step * index for index in range(at_most + 2)]
    ranges = [
        f"{told_number(_tidy(low))} to {told_number(_tidy(high))}" for low, high in itertools.pairwise(edges)
    ]
    places = {number: min(bisect_right(edges, number) - 1, len(ranges) - 1) for number in kept}
    names = [MISSING if number is None else ranges[places[number]] for number in numbers]
    used = sorted(set(places.values()))
    order = tuple(dict.fromkeys(ranges[place] for place in used))
    return Categories(names, (*order, *missing), ranked=True, step=f"ranges of {told_number(step)}")


def _tidy(edge: float) -> float:
    """Without what adding steps left in the last digits."""
    return float(f"{edge:.{_MOST_DIGITS - 3}g}")
