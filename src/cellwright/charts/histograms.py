"""Histograms: how often values of each range occur, counted over all rows."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cellwright.charts.axes import number_tip, quantitative, series_color, temporal, text_tip, tip_title
from cellwright.charts.bars import bar_chart
from cellwright.charts.categories import fold, nice_step
from cellwright.charts.drawings import Drawing, plural
from cellwright.charts.encodings import Encodings
from cellwright.charts.fields import quoted
from cellwright.charts.readings import Readings
from cellwright.charts.themes import OTHER_SERIES, THEMES, ThemeName
from cellwright.charts.timestamps import clock
from cellwright.charts.wording import told_list, told_number, told_time

__all__ = ["histogram"]

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
    wanted = math.ceil(min(span / width, _MOST_BINS)) if width > 0 else math.ceil(math.log2(len(ordered))) + 1
    wanted = max(_LEAST_BINS, min(wanted, _MOST_BINS))
    if span == 0:
        step = abs(low) / 10 or 1.0
        return step, low - step / 2, 1
    if times:
        step = next((float(one) for one in _TIME_STEPS_S if span / one <= wanted), nice_step(span, wanted))
    else:
        step = nice_step(span, wanted)
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
    told = told_time if times else told_number
    middle = ordered[len(ordered) // 2]
    mean = sum(ordered) / len(ordered)
    width = _told_span(step) if times else told_number(step)
    facts = [
        f"{plural(len(ordered), 'value')} from {told(ordered[0])} to {told(ordered[-1])}, in bins of {width}",
        f"median {told(middle)}, mean {told(mean)}, middle half from {told(ordered[len(ordered) // 4])} to {told(ordered[3 * len(ordered) // 4])}",
    ]
    if len(series) > 1:
        facts.append(f"series: {told_list(series)}")
    return tuple(facts)


def _told_span(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return plural(int(seconds // length), unit)
    return plural(round(seconds), "second")
