"""Scatter charts: a point for each row, spread evenly where there are too many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import mul, sub
from typing import Any

from cellwright.charts._aggregation import HEIGHT, WIDTH, Axis, Drawing, Readings, fold, plural, spread
from cellwright.charts._axes import (
    discrete,
    number_tip,
    quantitative,
    series_color,
    temporal,
    text_tip,
    time_tip,
)
from cellwright.charts._labels import clock, list_text, number_text, time_text
from cellwright.charts.encodings import Encodings
from cellwright.charts.themes import OTHER_SERIES, THEMES, ThemeName

__all__ = ["scatter"]

_MOST_POINTS = 5_000
_MOST_SERIES = 8
_SHADES_FROM = 9


@dataclass(slots=True)
class _Cloud:
    """Points, column by column."""

    xs: list[Any]
    ys: list[float]
    shades: list[Any]

    def __len__(self) -> int:
        return len(self.ys)

    def at(self, places: Sequence[int]) -> _Cloud:
        return _Cloud(*([column[place] for place in places] for column in (self.xs, self.ys, self.shades)))


def scatter(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if encodings.x is None or not encodings.y:
        field = "xColumn" if encodings.x is None else "yColumn"
        readings.refuse(field, f"{readings.output.source} has no column of numbers for it")
    axis = readings.axis(encodings.x)
    colour = _colour_axis(encodings, readings)
    points, lost = _points(axis, encodings, readings, colour)
    notices = [f"{plural(lost, 'row')} without a value in x or y, left out"] if lost else []
    if not len(points):
        readings.refuse("xColumn", f"no row of {readings.output.source} has a value for both axes")
    drawn = _sampled(points, axis)
    if len(drawn) < len(points):
        notices.append(f"{len(drawn):,} of {len(points):,} points are drawn, spread evenly over the rows")
    series = _series(colour, drawn, notices)
    body = _body(drawn, series, axis, colour, encodings, readings, theme)
    about = f"{' and '.join(encodings.y[:3])} by {axis.name}"
    return Drawing(
        body, about, _facts(points, axis, encodings, series), tuple(notices), zoom=axis.kind != "name"
    )


def _colour_axis(encodings: Encodings, readings: Readings) -> Axis | None:
    if len(encodings.y) > 1:
        return None
    name = encodings.group
    if name is None:
        return None
    if readings.kind(name) == "number" and len(set(readings.values(name))) >= _SHADES_FROM:
        return readings.axis(name)
    return Axis(name, "name", readings.names(name))


def _points(axis: Axis, encodings: Encodings, readings: Readings, colour: Axis | None) -> tuple[_Cloud, int]:
    cloud = _Cloud([], [], [])
    rows = 0
    for name in encodings.y:
        numbers = readings.numbers(name, "yColumn")
        rows += len(numbers)
        cloud.xs += axis.values
        cloud.ys += numbers  # type: ignore[arg-type]  # those that are missing go below
        cloud.shades += colour.values if colour else [readings.title(name)] * len(numbers)
    if None in cloud.xs or None in cloud.ys:
        cloud = cloud.at(
            [
                place
                for place in range(len(cloud))
                if cloud.xs[place] is not None and cloud.ys[place] is not None
            ]
        )
    return cloud, rows - len(cloud)


def _sampled(points: _Cloud, axis: Axis) -> _Cloud:
    if len(points) <= _MOST_POINTS:
        return points
    # The corners stay, so that the axes reach as far as the data does.
    corners = [points.ys.index(function(points.ys)) for function in (min, max)]
    if axis.kind != "name":
        corners += [points.xs.index(function(points.xs)) for function in (min, max)]
    return points.at(spread(len(points), _MOST_POINTS, corners))


def _series(colour: Axis | None, drawn: _Cloud, notices: list[str]) -> list[str]:
    """Names of the series; those beyond a few become one, in place."""
    if colour is not None and colour.kind != "name":
        return []
    weights: dict[str, float] = {**Counter(drawn.shades)}
    if len(weights) > _MOST_SERIES:
        folding = fold(weights, at_most=_MOST_SERIES)
        notices.append(
            f"{len(weights):,} series: the {_MOST_SERIES - 1} with the most points have a colour of their own"
        )
        drawn.shades = [folding[shade] for shade in drawn.shades]
        names = list(dict.fromkeys(folding.values()))
        return sorted(names, key=lambda name: name.startswith(f"{OTHER_SERIES} ("))
    return list(weights)


def _body(
    drawn: _Cloud,
    series: Sequence[str],
    axis: Axis,
    colour: Axis | None,
    encodings: Encodings,
    readings: Readings,
    theme: ThemeName,
) -> dict[str, Any]:
    config = readings.output.config
    label = config.y_label or (encodings.y[0] if len(encodings.y) == 1 else "value")
    ys = drawn.ys
    encoding: dict[str, Any] = {
        "x": _x_channel(axis, drawn.xs, config.x_label or axis.name),
        "y": quantitative("y", label, ys, zero=False, whole=all(isinstance(y, int) for y in ys)),
        "tooltip": [_x_tip(axis, drawn.xs), number_tip("y", label)],
    }
    shaded = len(series) != 1
    if colour is not None and colour.kind != "name":
        encoding["color"] = {
            "field": "s",
            "type": "quantitative",
            "title": colour.name,
            "scale": {"range": list(THEMES[theme].sequential[1:])},
        }
        encoding["tooltip"].append(number_tip("s", colour.name))
    elif shaded:
        rest = next((name for name in series if name.startswith(f"{OTHER_SERIES} (")), None)
        title = encodings.group if colour else None
        encoding["color"] = series_color("s", title, series, theme, rest=rest)
        encoding["tooltip"].append(text_tip("s", encodings.group or "series"))
    values = [
        {"x": clock(x) if axis.kind == "time" else x, "y": y, **({"s": shade} if shaded else {})}
        for x, y, shade in zip(drawn.xs, drawn.ys, drawn.shades, strict=True)
    ]
    few, many = 150, 1_500
    size, opacity = (60, 0.85) if len(drawn) <= few else (30, 0.75) if len(drawn) <= many else (14, 0.5)
    mark = {"type": "circle", "size": size, "opacity": opacity}
    return {"data": {"values": values}, "mark": mark, "encoding": encoding, "height": HEIGHT + 40}


def _x_channel(axis: Axis, xs: Sequence[Any], title: str) -> dict[str, Any]:
    if axis.kind == "time":
        return temporal("x", title, xs)
    if axis.kind == "number":
        return quantitative("x", title, xs, zero=False, whole=all(isinstance(x, int) for x in xs))
    names = list(dict.fromkeys(xs))
    return discrete("x", title, names, room_px=WIDTH) | {"scale": {"type": "point", "padding": 0.5}}


def _x_tip(axis: Axis, xs: Sequence[Any]) -> dict[str, Any]:
    if axis.kind == "time":
        return time_tip("x", axis.name, xs)
    return number_tip("x", axis.name) if axis.kind == "number" else text_tip("x", axis.name)


def _facts(points: _Cloud, axis: Axis, encodings: Encodings, series: Sequence[str]) -> tuple[str, ...]:
    xs, ys = points.xs, points.ys
    facts = [plural(len(points), "point")]
    if axis.kind == "name":
        facts.append(f"{axis.name}: {list_text(list(dict.fromkeys(xs)))}")
    else:
        as_text = time_text if axis.kind == "time" else number_text
        facts.append(f"{axis.name}: {as_text(min(xs))} to {as_text(max(xs))}")
    facts.append(f"{' and '.join(encodings.y[:3])}: {number_text(min(ys))} to {number_text(max(ys))}")
    if axis.kind != "name" and len(encodings.y) == 1 and (found := _correlation(xs, ys)) is not None:
        facts.append(f"correlation: {found:.2f}")
    if len(series) > 1:
        facts.append(f"series: {list_text(series)}")
    return tuple(facts)


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's, where the numbers allow it; without a step of Python for each of a million points."""
    try:
        across, down = (list(map(sub, values, repeat(sum(values) / len(values)))) for values in (xs, ys))
        above = sum(map(mul, across, down))
        below = (sum(map(mul, across, across)) * sum(map(mul, down, down))) ** 0.5
    except OverflowError:
        return None
    return above / below if 0 < below < math.inf and abs(above) <= below * 1.001 else None
