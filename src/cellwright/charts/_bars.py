"""Bar charts: one bar for each category, or for each series in it, added up over all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.charts._aggregation import (
    HEIGHT,
    WIDTH,
    Categories,
    Drawing,
    Readings,
    Tally,
    categorize,
    exact,
    fold,
    plural,
    tally,
)
from cellwright.charts._axes import discrete, number_tip, quantitative, series_color, text_tip
from cellwright.charts._labels import list_text, number_text, quoted
from cellwright.charts.encodings import Encodings
from cellwright.charts.themes import OTHER_SERIES, THEMES, ThemeName

__all__ = ["bar_chart", "pie_chart"]
_MOST_CATEGORIES, _MOST_SERIES = 40, 8

_SIDE_BY_SIDE = 48

_ACROSS_CHARACTERS, _ACROSS_BARS = 16, 16

_ROW_PX, _LEAST_PX = 20, 120


def bar_chart(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if encodings.x is None:
        readings.refuse("xColumn", f"{readings.output.source} has no column to name the bars")
    axis = readings.axis(encodings.x or "")
    categories = categorize(axis, at_most=_MOST_CATEGORIES)
    found = tally(encodings, readings, categories.names)
    notices = list(found.notices)
    order = _fold_categories(categories, found, notices)
    series = _fold_series(found, notices)
    if categories.step:
        notices.append(f"{axis.name} is put together by {categories.step}")
    values = [
        {"x": name, "s": one, "y": found.values[name, one]}
        for name in order
        for one in series
        if (name, one) in found.values
    ]
    body = _body(values, order, series, found, encodings, readings, theme, ranked=categories.ranked)
    return Drawing(
        body, f"{found.what} by {axis.name}", _facts(order, series, found, axis.name), tuple(notices)
    )


def _fold_categories(categories: Categories, found: Tally, notices: list[str]) -> list[str]:
    weights = found.weights(0)
    order = [name for name in categories.order if name in weights]
    if categories.ranked or len(order) <= _MOST_CATEGORIES:
        return order
    found.merge(fold(weights, at_most=_MOST_CATEGORIES), 0)
    weights = found.weights(0)
    *kept, rest = sorted(weights, key=lambda name: (_is_rest(name), -weights[name]))
    largest = f"{len(order):,} categories: the {len(kept)} largest are shown"
    if weights[rest] <= weights[kept[0]]:
        notices.append(f"{largest}, the others are added up")
        return [*kept, rest]
    # A bar that is longer than all others together would leave nothing to be seen of them.
    notices.append(f"{largest}, the others add up to {number_text(found.leave_out(rest))}")
    return kept


def _is_rest(name: str) -> bool:
    return name.startswith(f"{OTHER_SERIES} (")


def _fold_series(found: Tally, notices: list[str]) -> list[str]:
    weights = found.weights(1)
    if len(weights) <= _MOST_SERIES:
        return list(weights)
    notices.append(
        f"{len(weights):,} series: the {_MOST_SERIES - 1} largest are shown, the others are added up"
    )
    found.merge(fold(weights, at_most=_MOST_SERIES), 1)
    return sorted(found.weights(1), key=lambda name: name.startswith(f"{OTHER_SERIES} ("))


def _body(  # everything that a bar chart is made of
    values: list[dict[str, Any]],
    order: Sequence[str],
    series: Sequence[str],
    found: Tally,
    encodings: Encodings,
    readings: Readings,
    theme: ThemeName,
    *,
    ranked: bool,
) -> dict[str, Any]:
    config = readings.output.config
    many = len(series) > 1
    stacked = many and found.lowest >= 0 and len(order) * len(series) > _SIDE_BY_SIDE
    lying = not ranked and (len(order) > _ACROSS_BARS or max(map(len, order), default=0) > _ACROSS_CHARACTERS)
    title = config.y_label or found.what
    reach = _stacks(found.values) if stacked else list(found.values.values())
    length = quantitative("y", title, [0, *reach], zero=True, whole=found.whole)
    names = discrete("x", config.x_label or encodings.x or "", order, room_px=WIDTH, across=not lying)
    encoding: dict[str, Any] = {
        ("y" if lying else "x"): names,
        ("x" if lying else "y"): length,
        "tooltip": [text_tip("x", encodings.x or ""), number_tip("y", found.what, whole=found.whole)],
    }
    if many:
        rest = next((name for name in series if name.startswith(f"{OTHER_SERIES} (")), None)
        encoding["color"] = series_color("s", encodings.group, series, theme, rest=rest)
        encoding["tooltip"].insert(1, text_tip("s", encodings.group or "series"))
        if not stacked:
            length["stack"] = None
            encoding["yOffset" if lying else "xOffset"] = {"field": "s", "sort": list(series)}
    rows = len(order) * (1 if stacked or not many else len(series))
    mark: dict[str, Any] = {"type": "bar", "cornerRadiusEnd": 0 if stacked else 2}
    if len(order) == 1:
        mark["width" if not lying else "height"] = {"band": 0.25}
    return {
        "data": {"values": values},
        "mark": mark,
        "encoding": encoding,
        "height": max(_LEAST_PX, min(rows * _ROW_PX, 900)) if lying else HEIGHT,
    }


def _stacks(values: Mapping[tuple[str, str], float]) -> list[float]:
    heights: dict[str, float] = {}
    for (name, _), value in values.items():
        heights[name] = heights.get(name, 0) + value
    return list(heights.values())


def _facts(order: Sequence[str], series: Sequence[str], found: Tally, axis: str) -> tuple[str, ...]:
    facts = [f"{axis}: {plural(len(order), 'category', 'categories')}: {list_text(order)}"]
    if len(series) > 1:
        facts.append(f"series: {list_text(series)}")
    highest = max(found.values, key=found.values.__getitem__)
    lowest = min(found.values, key=found.values.__getitem__)
    facts.append(
        f"{found.what}: highest {number_text(found.values[highest])} ({_position(highest, series)}), "
        f"lowest {number_text(found.values[lowest])} ({_position(lowest, series)})"
    )
    if len(found.values) > 1:
        facts.append(f"sum of all bars: {number_text(sum(found.values.values()))}")
    return tuple(facts)


def _position(key: tuple[str, str], series: Sequence[str]) -> str:
    return f"{key[0]}, {key[1]}" if len(series) > 1 else key[0]


# Pie charts: shares of a whole, the small ones put together.

_MOST_SLICES, _MOST_STEPS = 8, 8

_LABELLED_SHARE = 0.03

_LISTED_SLICES = 8

_RADIUS = 130


def pie_chart(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if encodings.label is None:
        readings.refuse("labelColumn", f"{readings.output.source} has no column to name the slices")
    label = encodings.label or ""
    parts = Encodings(x=label, y=() if encodings.value is None else (encodings.value,))
    if encodings.value is not None:
        _check_amounts(encodings.value, readings)
    found = tally(parts, readings, categorize(readings.axis(label), at_most=1_000).names)
    weights = {name: value for name, value in found.weights(0).items() if value > 0}
    total = sum(weights.values())
    if not total > 0:
        readings.refuse(
            "valueColumn", f"the values of {quoted(encodings.value)} add up to nothing, and have no shares"
        )
    notices = [notice for notice in found.notices if "share a bar" not in notice]
    folding = fold(weights, at_most=_MOST_SLICES)
    slices: dict[str, float] = {}
    for name in sorted(weights, key=lambda one: -weights[one]):
        slices[folding[name]] = exact(slices.get(folding[name], 0) + weights[name])
    if len(slices) < len(weights):
        notices.append(
            f"{len(weights):,} slices: the {_MOST_SLICES - 1} largest are shown, the others are added up"
        )
    names = sorted(slices, key=lambda name: (name.startswith(f"{OTHER_SERIES} ("), -slices[name]))
    body = _pie_body(names, slices, total, label, found.what, theme)
    return Drawing(
        body, f"{found.what} by {label}", _pie_facts(names, slices, total, found.what), tuple(notices)
    )


def _check_amounts(name: str, readings: Readings) -> None:
    numbers = readings.numbers(name, "valueColumn")
    for row, number in enumerate(numbers):
        if number is not None and number < 0:
            readings.refuse(
                "valueColumn",
                f"{quoted(name)} has {number_text(number)} in row {row + 1:,}; "
                "slices of a pie cannot be negative, a bar_chart shows such values",
            )


def _pie_body(
    names: list[str], slices: dict[str, float], total: float, label: str, what: str, theme: ThemeName
) -> dict[str, Any]:
    values = [
        {
            "s": name,
            "y": slices[name],
            "p": slices[name] / total,
            "n": index,
            "t": _percent(slices[name] / total),
        }
        for index, name in enumerate(names)
    ]
    rest = next((name for name in names if name.startswith(f"{OTHER_SERIES} (")), None)
    angle = {"theta": {"field": "y", "type": "quantitative", "stack": True}, "order": {"field": "n"}}
    arc = {
        "mark": {
            "type": "arc",
            "outerRadius": _RADIUS,
            "innerRadius": _RADIUS * 0.45,
            "stroke": THEMES[theme].background,
            "strokeWidth": 1.5,
        },
        "encoding": {
            "color": series_color("s", label, names, theme, rest=rest),
            "tooltip": [
                text_tip("s", label),
                number_tip("y", what),
                {"field": "p", "type": "quantitative", "title": "share", "format": ".1%"},
            ],
        },
    }
    text = {
        "mark": {"type": "text", "radius": _RADIUS + 20, "fontSize": 11, "color": THEMES[theme].muted},
        "encoding": {"text": {"field": "t", "type": "nominal"}, "detail": {"field": "s"}},
    }
    return {
        "data": {"values": values},
        "encoding": angle,
        "layer": [arc, text],
        "width": 2 * _RADIUS + 80,
        "height": 2 * _RADIUS + 60,
    }


def _percent(share: float) -> str:
    if share < _LABELLED_SHARE:
        return ""  # no room for it; without its slice the others' labels would move
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"  # a tenth


def _pie_facts(names: list[str], slices: dict[str, float], total: float, what: str) -> tuple[str, ...]:
    shown = ", ".join(
        f"{name} {number_text(slices[name])} ({slices[name] / total:.1%})" for name in names[:_LISTED_SLICES]
    )
    return (f"{plural(len(names), 'slice')}: {shown}", f"{what} in all: {number_text(total)}")
