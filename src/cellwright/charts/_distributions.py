"""Histograms: how often values of each range occur, counted over all rows."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cellwright.charts._aggregation import (
    HEIGHT,
    WIDTH,
    Drawing,
    Readings,
    categorize,
    fold,
    nice_step,
    plural,
    spread,
)
from cellwright.charts._axes import (
    discrete,
    number_tip,
    quantitative,
    series_color,
    temporal,
    text_tip,
    tip_title,
)
from cellwright.charts._bars import bar_chart
from cellwright.charts._labels import clock, cut, list_text, number_text, quoted, time_text
from cellwright.charts.encodings import Encodings
from cellwright.charts.themes import OTHER_SERIES, THEMES, ThemeName

__all__ = ["boxes", "histogram"]
_MOST_BINS, _LEAST_BINS = 40, 8

_MOST_SERIES = 6

_EVERYTHING = ""

# Steps that a clock or a calendar has, in seconds: up to a day by what divides one, then by days.
_TIME_STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 86400, 604800, 2592000, 7776000, 31536000)


def histogram(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    name = encodings.x
    if name is None:
        readings.refuse("xColumn", f"{readings.output.source} has no column to count")
    axis = readings.axis(name)
    if axis.kind == "name":
        return bar_chart(replace(encodings, y=()), readings, theme)
    numbers: list[float] = [value for value in axis.values if value is not None]  # type: ignore[misc]  # no names
    if not numbers:
        readings.refuse("xColumn", f"{quoted(name)} has no value that can be counted")
    notices = []
    missing = len(axis.values) - len(numbers)
    if missing:
        notices.append(f"{quoted(name)}: {plural(missing, 'row')} without a value, left out")
    groups = readings.names(encodings.group) if encodings.group is not None else None
    ordered = sorted(numbers)
    step, base, bins = _bins(ordered, times=axis.kind == "time")
    counts = _counts(_by_group(axis.values, groups, ordered), step, base, bins)
    series = _folded(counts, notices)
    body = _body(counts, series, (base, step, bins), encodings, readings, theme)
    facts = _facts(ordered, step, series, times=axis.kind == "time")
    return Drawing(body, f"how often {name} occurs", facts, tuple(notices))


def _bins(ordered: Sequence[float], *, times: bool) -> tuple[float, float, int]:
    """The step, where the first bin begins, and how many there are, by Freedman and Diaconis within bounds."""
    low, high = ordered[0], ordered[-1]
    spread = ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]
    span = high - low
    width = 2 * spread / len(ordered) ** (1 / 3)
    bins = math.ceil(min(span / width, _MOST_BINS)) if width > 0 else math.ceil(math.log2(len(ordered))) + 1
    bins = max(_LEAST_BINS, min(bins, _MOST_BINS))
    if span == 0:
        step = abs(low) / 10 or 1.0
        return step, low - step / 2, 1
    if times:
        step = next((float(one) for one in _TIME_STEPS_S if span / one <= bins), nice_step(span, bins))
    else:
        step = nice_step(span, bins)
        if all(isinstance(number, int) for number in ordered):
            step = max(1.0, float(math.ceil(step)))
    base = math.floor(low / step) * step
    return step, base, min(math.floor((high - base) / step) + 1, _MOST_BINS + 2)


def _by_group(
    values: Sequence[Any], groups: Sequence[str] | None, ordered: list[float]
) -> dict[str, list[float]]:
    """The values of each group, in order."""
    if groups is None:
        return {_EVERYTHING: ordered}
    found: dict[str, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        if value is not None:
            found.setdefault(group, []).append(value)
    for held in found.values():
        held.sort()
    return found


def _counts(groups: dict[str, list[float]], step: float, base: float, bins: int) -> dict[str, list[int]]:
    counts = {}
    for group, ordered in groups.items():
        places = [bisect_left(ordered, base + step * index) for index in range(1, bins)]
        counts[group] = [end - begin for begin, end in itertools.pairwise((0, *places, len(ordered)))]
    return counts


def _folded(counts: dict[str, list[int]], notices: list[str]) -> list[str]:
    folding = fold({name: sum(held) for name, held in counts.items()}, at_most=_MOST_SERIES)
    if len(set(folding.values())) < len(counts):
        notices.append(
            f"{len(counts):,} series: the {_MOST_SERIES - 1} largest are shown, the others are added up"
        )
        for name, shown in folding.items():
            if name != shown:
                held = counts.pop(name)
                counts[shown] = [a + b for a, b in zip(counts.get(shown, [0] * len(held)), held, strict=True)]
    return list(counts)


def _body(
    counts: dict[str, list[int]],
    series: Sequence[str],
    bins: tuple[float, float, int],
    encodings: Encodings,
    readings: Readings,
    theme: ThemeName,
) -> dict[str, Any]:
    base, step, number = bins
    config = readings.output.config
    name = encodings.x or ""
    times = readings.kind(name) == "time"
    edges = [base + step * index for index in range(number + 1)]
    values = _stacked(counts, [clock(edge) if times else edge for edge in edges])
    title = config.x_label or name
    x = temporal("x", title, edges) if times else quantitative("x", title, edges, zero=False)
    if not times:
        x["scale"] = {"zero": False, "nice": False}
    x["axis"]["grid"] = False
    heights = [sum(held[index] for held in counts.values()) for index in range(number)]
    encoding: dict[str, Any] = {
        "x": x,
        "x2": {"field": "e"},
        "y2": {"field": "b"},
        "y": quantitative("y", config.y_label or "count", [0, *heights], zero=True, whole=True),
        "tooltip": [
            _edge_tip("x", f"{name} from", times=times),
            _edge_tip("e", "to", times=times),
            number_tip("n", "count", whole=True),
        ],
    }
    if len(series) > 1:
        rest = next((one for one in series if one.startswith(f"{OTHER_SERIES} (")), None)
        encoding["color"] = series_color("s", encodings.group, series, theme, rest=rest)
        encoding["tooltip"].insert(0, text_tip("s", encodings.group or "series"))
    mark = {"type": "rect", "stroke": THEMES[theme].background, "strokeWidth": 1}
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}


def _stacked(counts: dict[str, list[int]], edges: Sequence[float | str]) -> list[dict[str, Any]]:
    """One rectangle for each bin and series, those of a bin on top of each other."""
    values = []
    for index in range(len(edges) - 1):
        height = 0
        for series, held in reversed(counts.items()):
            if held[index]:
                ends = {"x": edges[index], "e": edges[index + 1], "b": height, "y": height + held[index]}
                values.append({**ends, "n": held[index], "s": series})
                height += held[index]
    return values


def _edge_tip(field: str, title: str, *, times: bool) -> dict[str, Any]:
    if times:
        return {"field": field, "type": "temporal", "title": tip_title(title), "format": "%Y-%m-%d %H:%M"}
    return number_tip(field, title)


def _facts(ordered: Sequence[float], step: float, series: Sequence[str], *, times: bool) -> tuple[str, ...]:
    as_text = time_text if times else number_text
    middle = ordered[len(ordered) // 2]
    mean = sum(ordered) / len(ordered)
    width = _span_text(step) if times else number_text(step)
    facts = [
        f"{plural(len(ordered), 'value')} from {as_text(ordered[0])} to {as_text(ordered[-1])}, in bins of {width}",
        f"median {as_text(middle)}, mean {as_text(mean)}, middle half from {as_text(ordered[len(ordered) // 4])} to {as_text(ordered[3 * len(ordered) // 4])}",
    ]
    if len(series) > 1:
        facts.append(f"series: {list_text(series)}")
    return tuple(facts)


def _span_text(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return plural(int(seconds // length), unit)
    return plural(round(seconds), "second")


# Box plots: medians, quartiles and what lies far out, computed over all rows.

_MOST_BOXES = 30

_MOST_OUTLIERS = 100

_WHISKER = 1.5

_LISTED_BOXES = 8

# The fields of a box, from below, and what they are called.
_MARKS = {"a": "lowest", "b": "first quartile", "y": "median", "c": "third quartile", "d": "highest"}


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    count: int
    low: float
    first: float
    median: float
    third: float
    high: float
    outliers: Sequence[float]


def boxes(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if not encodings.y:
        readings.refuse("yColumn", f"{readings.output.source} has no column of numbers")
    notices: list[str] = []
    held = _values(encodings, readings, notices)
    if len(held) > _MOST_BOXES:
        kept = sorted(held, key=lambda name: -len(held[name]))[:_MOST_BOXES]
        notices.append(f"{_MOST_BOXES} of {len(held):,} boxes are drawn: those with the most rows")
        held = {name: held[name] for name in held if name in set(kept)}
    found = [_box(name, values) for name, values in held.items()]
    far = sum(len(box.outliers) for box in found)
    drawn = sum(min(len(box.outliers), _MOST_OUTLIERS) for box in found)
    if drawn < far:
        notices.append(f"{drawn:,} of {far:,} values far out are drawn")
    what = encodings.y[0] if len(encodings.y) == 1 else "values"
    about = (
        f"{what} by {encodings.x}" if encodings.x is not None else f"spread of {', '.join(encodings.y[:3])}"
    )
    return Drawing(
        _box_body(found, what, encodings, readings, theme), about, _box_facts(found), tuple(notices)
    )


def _values(encodings: Encodings, readings: Readings, notices: list[str]) -> dict[str, list[float]]:
    parts = [encodings.x] if encodings.x is not None else []
    parts += [encodings.group] if encodings.group is not None else []
    order: tuple[str, ...] = ()
    names: list[str] | None = None
    for part in parts:
        categories = categorize(readings.axis(part), at_most=_MOST_BOXES)
        order = categories.order if names is None else ()
        names = (
            list(categories.names)
            if names is None
            else [f"{a}, {b}" for a, b in zip(names, categories.names, strict=True)]
        )
    held: dict[str, list[float]] = {name: [] for name in order} if len(encodings.y) == 1 else {}
    for column in encodings.y:
        numbers = readings.numbers(column, "yColumn")
        if missing := numbers.count(None):
            notices.append(f"{quoted(column)}: {plural(missing, 'row')} without a value, left out")
        every = (
            [readings.title(column)] * len(numbers)
            if names is None
            else names
            if len(encodings.y) == 1
            else [f"{readings.title(column)}, {name}" for name in names]
        )
        for name, number in zip(every, numbers, strict=True):
            if number is not None:
                held.setdefault(name, []).append(number)
    return {name: values for name, values in held.items() if values}


def _box(name: str, values: Sequence[float]) -> _Box:
    ordered = sorted(values)
    first, median, third = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    reach = _WHISKER * (third - first)
    begin, end = bisect_left(ordered, first - reach), bisect_right(ordered, third + reach)
    low, high = (ordered[begin], ordered[end - 1]) if begin < end else (median, median)
    return _Box(
        name,
        len(ordered),
        min(low, first),
        first,
        median,
        third,
        max(high, third),
        ordered[:begin] + ordered[end:],
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    part = place - below
    return ordered[below] * (1 - part) + ordered[above] * part


def _box_body(
    found: Sequence[_Box], what: str, encodings: Encodings, readings: Readings, theme: ThemeName
) -> dict[str, Any]:
    config = readings.output.config
    names = [box.name for box in found]
    summaries = [
        dict(zip(("x", "n", *_MARKS), (box.name, box.count, *_summary(box)), strict=True)) for box in found
    ]
    far = [
        {"x": box.name, "y": box.outliers[place]}
        for box in found
        for place in spread(len(box.outliers), _MOST_OUTLIERS, (0, len(box.outliers) - 1))
    ]
    reach = [value for box in found for value in (box.low, box.high, *box.outliers)]
    x = discrete("x", config.x_label or encodings.x or "", names, room_px=WIDTH)
    if encodings.x is None and config.x_label is None:
        x["title"] = None
    y = quantitative("y", config.y_label or what, reach, zero=False)
    named = text_tip("x", encodings.x or "column")
    layers = _box_layers(x, y, named, theme, size=max(8, min(56, WIDTH / len(names) * 0.55)))
    if far:
        mark = {"type": "point", "size": 18, "color": THEMES[theme].palette[0], "opacity": 0.6}
        encoding = {"x": x, "y": y, "tooltip": [named, number_tip("y", what)]}
        layers.append({"data": {"values": far}, "mark": mark, "encoding": encoding})
    return {"data": {"values": summaries}, "layer": layers, "height": HEIGHT}


def _summary(box: _Box) -> tuple[float, ...]:
    return box.low, box.first, box.median, box.third, box.high


def _box_layers(
    x: dict[str, Any], y: dict[str, Any], named: dict[str, Any], theme: ThemeName, *, size: float
) -> list[dict[str, Any]]:
    """Whiskers, the middle half, and the median as a gap in it."""
    look = THEMES[theme]
    tips = [
        named,
        *(number_tip(field, title) for field, title in reversed(_MARKS.items())),
        number_tip("n", "rows"),
    ]
    box = {"type": "bar", "size": size, "color": look.palette[0], "opacity": 0.85, "cornerRadius": 2}
    spans = (({"type": "rule", "color": look.line, "strokeWidth": 1.5}, "a", "d"), (box, "b", "c"))
    layers = [
        {"mark": mark, "encoding": {"x": x, "y": y | {"field": low}, "y2": {"field": high}, "tooltip": tips}}
        for mark, low, high in spans
    ]
    median = {"type": "tick", "size": size, "thickness": 2.5, "color": look.background}
    return [*layers, {"mark": median, "encoding": {"x": x, "y": y, "tooltip": tips}}]


def _box_facts(found: Sequence[_Box]) -> tuple[str, ...]:
    facts = [
        f"{cut(box.name, 40)}: median {number_text(box.median)}, middle half {number_text(box.first)} to "
        f"{number_text(box.third)}, {plural(box.count, 'row')}"
        + (f", {len(box.outliers):,} far out" if box.outliers else "")
        for box in found[:_LISTED_BOXES]
    ]
    if len(found) > _LISTED_BOXES:
        facts.append(f"and {plural(len(found) - _LISTED_BOXES, 'more box', 'more boxes')}")
    return tuple(facts)
