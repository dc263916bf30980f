"""Line and area charts: values along an axis, a line for each series; long ones keep the extremes of each stretch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import le
from typing import Any, Literal

from cellwright.charts._aggregation import HEIGHT, WIDTH, Axis, Drawing, Readings, exact, extremes, plural
from cellwright.charts._axes import (
    discrete,
    number_tip,
    quantitative,
    series_color,
    temporal,
    text_tip,
    time_tip,
)
from cellwright.charts._labels import clock, list_text, number_text, quoted, time_text
from cellwright.charts.encodings import Encodings
from cellwright.charts.themes import ThemeName

__all__ = ["line_chart"]

_MOST_POINTS = 4_000
_MOST_SERIES = 8
_DOTS = 40
_LISTED_SERIES = 6
Position = float | str


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    xs: Sequence[Position]
    ys: Sequence[float | None]


def line_chart(
    encodings: Encodings, readings: Readings, theme: ThemeName, *, mark: Literal["line", "area"]
) -> Drawing:
    if encodings.x is None or not encodings.y:
        field = "xColumn" if encodings.x is None else "yColumn"
        readings.refuse(field, f"{readings.output.source} has no column for it; it must be one of numbers")
    axis = readings.axis(encodings.x or "")
    notices: list[str] = []
    every = _split(axis, encodings, readings, notices)
    every = _largest(every, notices)
    every = [_one_value_each(series, mark, notices) for series in every]
    if axis.kind != "name":
        every = [_sorted(series) for series in every]
    drawn = [_thinned(series, _MOST_POINTS // len(every)) for series in every]
    before, after = (sum(len(series.xs) for series in some) for some in (every, drawn))
    if after < before:
        notices.append(f"{after:,} of {before:,} points are drawn: the lowest and highest of each stretch")
    body = _body(drawn, axis, encodings, readings, theme, mark)
    what = encodings.y[0] if len(encodings.y) == 1 else ", ".join(encodings.y[:3])
    return Drawing(
        body,
        f"{what} by {axis.name}",
        _facts(every, axis),
        tuple(dict.fromkeys(notices)),
        zoom=axis.kind != "name",
    )


def _split(axis: Axis, encodings: Encodings, readings: Readings, notices: list[str]) -> list[_Series]:
    groups = readings.names(encodings.group) if encodings.group is not None else None
    nowhere = list(axis.values).count(None)
    if nowhere:
        notices.append(f"{quoted(axis.name)}: {plural(nowhere, 'row')} without a value, left out")
    every: list[_Series] = []
    for name in encodings.y:
        numbers = readings.numbers(name, "yColumn")
        missing = numbers.count(None)
        if missing:
            notices.append(f"{quoted(name)}: {plural(missing, 'row')} without a value")
        if groups is None:
            every.append(_series(readings.title(name), axis.values, numbers))
            continue
        many = len(encodings.y) > 1
        by_group: dict[str, tuple[list[Position | None], list[float | None]]] = {}
        for x, y, group in zip(axis.values, numbers, groups, strict=True):
            xs, ys = by_group.get(group) or by_group.setdefault(group, ([], []))
            xs.append(x)
            ys.append(y)
        every += [
            _series(f"{readings.title(name)}, {group}" if many else group, *pair)
            for group, pair in by_group.items()
        ]
    kept = [series for series in every if any(y is not None for y in series.ys)]
    if not kept:
        readings.refuse(
            "xColumn",
            f"no row of {readings.output.source} has a value in both {quoted(axis.name)} and {quoted(encodings.y[0])}",
        )
    return kept


def _series(name: str, xs: Sequence[Position | None], ys: Sequence[float | None]) -> _Series:
    """Without the rows that have no place."""
    if None in xs:
        ys = [y for x, y in zip(xs, ys, strict=True) if x is not None]
    return _Series(name, [x for x in xs if x is not None], ys)


def _largest(every: list[_Series], notices: list[str]) -> list[_Series]:
    if len(every) <= _MOST_SERIES:
        return every
    ranked = sorted(range(len(every)), key=lambda index: -len(every[index].xs))[:_MOST_SERIES]
    notices.append(f"{_MOST_SERIES} of {len(every):,} series are drawn: those with the most rows")
    return [every[index] for index in sorted(ranked)]


def _one_value_each(series: _Series, mark: str, notices: list[str]) -> _Series:
    """A line has one value at each place: the mean where rows share one; an area stands for an amount, the sum."""
    if len(set(series.xs)) == len(series.xs):
        return series
    found: dict[Position, list[float]] = {}
    for x, y in zip(series.xs, series.ys, strict=True):
        held = found.setdefault(x, [])
        if y is not None:
            held.append(y)
    notices.append(
        f"several rows share a place: the {mark} shows their {'mean' if mark == 'line' else 'sum'}"
    )
    if mark == "area":
        return _Series(series.name, list(found), [exact(sum(ys)) if ys else None for ys in found.values()])
    return _Series(series.name, list(found), [_mean(ys) for ys in found.values()])


def _mean(values: Sequence[float]) -> float | None:
    return sum(value / len(values) for value in values) if values else None


def _sorted(series: _Series) -> _Series:
    xs: Any = series.xs
    if all(map(le, xs, itertools.islice(xs, 1, None))):
        return series
    order = sorted(range(len(xs)), key=xs.__getitem__)
    return _Series(series.name, [xs[index] for index in order], [series.ys[index] for index in order])


def _thinned(series: _Series, keep: int) -> _Series:
    chosen = extremes(series.ys, keep)
    if len(chosen) == len(series.xs):
        return series
    return _Series(
        series.name, [series.xs[index] for index in chosen], [series.ys[index] for index in chosen]
    )


def _body(
    drawn: Sequence[_Series],
    axis: Axis,
    encodings: Encodings,
    readings: Readings,
    theme: ThemeName,
    mark: str,
) -> dict[str, Any]:
    config = readings.output.config
    many = len(drawn) > 1
    label = config.y_label or (encodings.y[0] if len(encodings.y) == 1 else "value")
    ys = [y for series in drawn for y in series.ys if y is not None]
    stacked = mark == "area" and many and min(ys) >= 0
    encoding: dict[str, Any] = {
        "x": _x_channel(axis, drawn, config.x_label or axis.name),
        "y": quantitative(
            "y",
            label,
            _reach(drawn) if stacked else ys,
            zero=mark == "area" or 0 <= min(ys) <= max(ys) / 2,
            whole=_whole(ys),
        ),
        "tooltip": [_x_tip(axis, drawn), number_tip("y", label)],
    }
    if mark == "area":
        encoding["y"]["stack"] = "zero" if stacked else None
    if many:
        names = [series.name for series in drawn]
        encoding["color"] = series_color("s", encodings.group, names, theme)
        encoding["tooltip"].insert(0, text_tip("s", encodings.group or "series"))
    values = [
        {"x": clock(x) if axis.kind == "time" else x, "y": y, **({"s": series.name} if many else {})}  # type: ignore[arg-type]  # seconds
        for series in drawn
        for x, y in zip(series.xs, series.ys, strict=True)
    ]
    return {
        "data": {"values": values},
        "mark": _mark(mark, drawn, stacked=stacked),
        "encoding": encoding,
        "height": HEIGHT,
    }


def _mark(mark: str, drawn: Sequence[_Series], *, stacked: bool) -> dict[str, Any]:
    longest = max(len(series.xs) for series in drawn)
    if mark == "area":
        return {
            "type": "area",
            "opacity": 0.85 if stacked else 0.35,
            "line": {"strokeWidth": 1.5},
            **({"point": True} if longest == 1 else {}),
        }
    width = 2.2 if longest <= _MOST_POINTS // 10 else 1.2
    return {
        "type": "line",
        "strokeWidth": width,
        "strokeJoin": "round",
        "point": {"size": 32} if longest <= _DOTS else False,
    }


def _x_channel(axis: Axis, drawn: Sequence[_Series], title: str) -> dict[str, Any]:
    xs = _positions(drawn)
    if axis.kind == "time":
        return temporal("x", title, xs)
    if axis.kind == "number":
        channel = quantitative("x", title, xs, zero=False, whole=_whole(xs))
        channel["scale"] = {"zero": False, "nice": False}
        channel["axis"]["grid"] = False
        return channel
    names = list(dict.fromkeys(str(x) for series in drawn for x in series.xs))
    channel = discrete("x", title, names, room_px=WIDTH)
    channel["scale"] = {"type": "point", "padding": 0.3}
    return channel


def _positions(drawn: Iterable[_Series]) -> list[Any]:
    return [x for series in drawn for x in series.xs]


def _x_tip(axis: Axis, drawn: Sequence[_Series]) -> dict[str, Any]:
    if axis.kind == "time":
        return time_tip("x", axis.name, _positions(drawn))
    return (
        number_tip("x", axis.name, whole=_whole(_positions(drawn)))
        if axis.kind == "number"
        else text_tip("x", axis.name)
    )


def _whole(numbers: Iterable[float]) -> bool:
    return all(isinstance(number, int) for number in numbers)


def _reach(drawn: Iterable[_Series]) -> list[float]:
    heights: dict[Position, float] = {}
    for series in drawn:
        for x, y in zip(series.xs, series.ys, strict=True):
            heights[x] = heights.get(x, 0) + (y or 0)
    return [0, *heights.values()]


def _facts(every: Sequence[_Series], axis: Axis) -> tuple[str, ...]:
    xs = _positions(every)
    if axis.kind == "name":
        place = f"{axis.name}: {list_text(list(dict.fromkeys(xs)))}"
    else:
        place = f"{axis.name}: {_position_text(min(xs), axis)} to {_position_text(max(xs), axis)}, {plural(len(set(xs)), 'place')}"
    facts = [place, *(_fact(series, axis) for series in every[:_LISTED_SERIES])]
    if len(every) > _LISTED_SERIES:
        facts.append(f"and {plural(len(every) - _LISTED_SERIES, 'more series', 'more series')}")
    return tuple(facts)


def _fact(series: _Series, axis: Axis) -> str:
    ys = [y for y in series.ys if y is not None]
    low, high = min(ys), max(ys)
    places = {
        extreme: _position_text(series.xs[series.ys.index(value)], axis)
        for extreme, value in (("low", low), ("high", high))
    }
    return (
        f"{series.name}: from {number_text(ys[0])} to {number_text(ys[-1])}, "
        f"lowest {number_text(low)} ({places['low']}), highest {number_text(high)} ({places['high']})"
    )


def _position_text(position: Position, axis: Axis) -> str:
    if isinstance(position, str):
        return position
    return time_text(position) if axis.kind == "time" else number_text(position)
