"""Box plots: medians, quartiles and what lies far out, computed over all rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.charts.axes import discrete, number_tip, quantitative, text_tip
from cellwright.charts.categories import categorize
from cellwright.charts.drawings import HEIGHT, WIDTH, Drawing, plural
from cellwright.charts.encodings import Encodings
from cellwright.charts.fields import quoted
from cellwright.charts.readings import Readings
from cellwright.charts.sampling import spread
from cellwright.charts.themes import THEMES, ThemeName
from cellwright.charts.wording import cut, told_number

__all__ = ["boxes"]

_MOST_BOXES = 30
_MOST_OUTLIERS = 100
_WHISKER = 1.5
_TOLD_BOXES = 8
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
    return Drawing(_body(found, what, encodings, readings, theme), about, _facts(found), tuple(notices))


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


def _body(
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
        *(number_tip(field, told) for field, told in reversed(_MARKS.items())),
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


def _facts(found: Sequence[_Box]) -> tuple[str, ...]:
    facts = [
        f"{cut(box.name, 40)}: median {told_number(box.median)}, middle half {told_number(box.first)} to "
        f"{told_number(box.third)}, {plural(box.count, 'row')}"
        + (f", {len(box.outliers):,} far out" if box.outliers else "")
        for box in found[:_TOLD_BOXES]
    ]
    if len(found) > _TOLD_BOXES:
        facts.append(f"and {plural(len(found) - _TOLD_BOXES, 'more box', 'more boxes')}")
    return tuple(facts)
