"""Positions to categories: names as they are, numbers and times in steps where there are too many of them."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cellwright.charts.readings import Axis
from cellwright.charts.themes import OTHER_SERIES
from cellwright.charts.wording import MISSING, label, told_number

__all__ = ["Categories", "categorize", "fold", "nice_step", "unit_for"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a clock on a wall has no zone
_UNITS: tuple[tuple[str, str], ...] = (
    ("minute", "%Y-%m-%d %H:%M"),
    ("hour", "%Y-%m-%d %H:00"),
    ("day", "%Y-%m-%d"),
    ("month", "%b %Y"),
    ("year", "%Y"),
)
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
    names = [MISSING if value is None else str(value) for value in axis.values]
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


def unit_for(seconds: Sequence[float], *, at_most: int) -> tuple[str, Callable[[float], datetime]]:
    """The smallest unit of the calendar that makes no more than so many steps."""
    moments = {_moment(second) for second in set(seconds)}
    for unit, _ in _UNITS:
        if len({_start(moment, unit) for moment in moments}) <= at_most:
            return unit, lambda second: _start(_moment(second), unit)  # noqa: B023  # returned at once
    decades = 10 ** math.ceil(math.log10(max(1, (max(moments).year - min(moments).year + 1) / at_most)))
    return f"{decades} years", lambda second: _moment(second).replace(
        year=max(1, _moment(second).year // decades * decades),
        month=1,
        day=1,
        hour=0,
        minute=0,
        second=0,
        microsecond=0,
    )


def _times(seconds: Sequence[float | None], at_most: int) -> Categories:
    kept = [second for second in seconds if second is not None]
    exact = sorted(set(kept))
    if not exact:
        return Categories([MISSING] * len(seconds), (MISSING,), ranked=True)
    if len(exact) <= at_most:
        form = _form_for([_moment(second) for second in exact])
        told = {second: _moment(second).strftime(form) for second in exact}
        step = None
    else:
        unit, start = unit_for(exact, at_most=at_most)
        form = dict(_UNITS).get(unit, "%Y")
        told = {second: start(second).strftime(form) for second in exact}
        step = unit
    order = tuple(dict.fromkeys(told[second] for second in exact))
    names = [MISSING if second is None else told[second] for second in seconds]
    return Categories(names, (*order, MISSING) if len(kept) < len(seconds) else order, ranked=True, step=step)


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
