"""Bar charts: one bar for each category, or for each series in it, added up over all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.charts.axes import discrete, number_tip, quantitative, series_color, text_tip
from cellwright.charts.categories import Categories, categorize, fold
from cellwright.charts.drawings import HEIGHT, WIDTH, Drawing, plural
from cellwright.charts.encodings import Encodings
from cellwright.charts.readings import Readings
from cellwright.charts.tallies import Tally, tally
from cellwright.charts.themes import OTHER_SERIES, ThemeName
from cellwright.charts.wording import told_list, told_number

__all__ = ["bar_chart"]

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
    notices.append(f"{largest}, the others add up to {told_number(found.leave_out(rest))}")
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
    facts = [f"{axis}: {plural(len(order), 'category', 'categories')}: {told_list(order)}"]
    if len(series) > 1:
        facts.append(f"series: {told_list(series)}")
    highest = max(found.values, key=found.values.__getitem__)
    lowest = min(found.values, key=found.values.__getitem__)
    facts.append(
        f"{found.what}: highest {told_number(found.values[highest])} ({_place(highest, series)}), "
        f"lowest {told_number(found.values[lowest])} ({_place(lowest, series)})"
    )
    if len(found.values) > 1:
        facts.append(f"sum of all bars: {told_number(sum(found.values.values()))}")
    return tuple(facts)


def _place(key: tuple[str, str], series: Sequence[str]) -> str:
    return f"{key[0]}, {key[1]}" if len(series) > 1 else key[0]
