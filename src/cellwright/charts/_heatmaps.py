"""Heatmaps: a colour for each pair of categories: the mean of a column, or how many rows there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.charts._aggregation import WIDTH, Drawing, Readings, categorize, exact, plural
from cellwright.charts._axes import discrete, number_format, number_tip, text_tip, title_of
from cellwright.charts._labels import list_text, number_text, quoted
from cellwright.charts.encodings import Encodings
from cellwright.charts.themes import THEMES, ThemeName

__all__ = ["heatmap"]

_MOST_CATEGORIES = 40
_WRITTEN_CELLS, _WRITTEN_COLUMNS = 150, 14
_DARKER_HALF = 0.55


@dataclass(frozen=True, slots=True)
class _Grid:
    columns: Sequence[str]
    rows: Sequence[str]
    values: Mapping[tuple[str, str], float]
    """By column and row."""
    what: str
    across: str
    down: str


def heatmap(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if encodings.x is None or not encodings.y:
        field = "xColumn" if encodings.x is None else "yColumn"
        readings.refuse(field, f"{readings.output.source} has no column for it")
    notices: list[str] = []
    grid = _matrix(encodings, readings) if len(encodings.y) > 1 else _pairs(encodings, readings, notices)
    if not grid.values:
        readings.refuse("valueColumn", f"no cell of the heatmap has a value in {readings.output.source}")
    body = _body(grid, readings, theme)
    high = max(grid.values, key=grid.values.__getitem__)
    low = min(grid.values, key=grid.values.__getitem__)
    facts = (
        f"{grid.across or 'columns'}: {list_text(grid.columns)}",
        f"{grid.down or 'rows'}: {list_text(grid.rows)}",
        f"{grid.what}: highest {_position(grid, high)}, lowest {_position(grid, low)}",
    )
    about = f"{grid.what} by {grid.across} and {grid.down}" if grid.across else f"{grid.what} by {grid.down}"
    return Drawing(body, about, facts, tuple(notices))


def _position(grid: _Grid, key: tuple[str, str]) -> str:
    return f"{number_text(grid.values[key])} ({key[0]}, {key[1]})"


def _matrix(encodings: Encodings, readings: Readings) -> _Grid:
    names = readings.names(encodings.x or "")
    # Rows that share a name stay apart: a matrix is shown as it is.
    rows = [
        name if names.index(name) == place else f"{name} ({place + 1})"
        for place, name in enumerate(names[:_MOST_CATEGORIES])
    ]
    columns = encodings.y[:_MOST_CATEGORIES]
    values = {
        (readings.title(column), row): number
        for column in columns
        for row, number in zip(rows, readings.numbers(column, "yColumn"), strict=False)
        if number is not None
    }
    return _Grid([readings.title(column) for column in columns], rows, values, "value", "", encodings.x or "")


def _pairs(encodings: Encodings, readings: Readings, notices: list[str]) -> _Grid:
    across, down = encodings.x or "", encodings.y[0]
    sides = [categorize(readings.axis(name), at_most=_MOST_CATEGORIES) for name in (across, down)]
    for name, side in zip((across, down), sides, strict=True):
        if side.step:
            notices.append(f"{name} is put together by {side.step}")
    if encodings.value is None:
        numbers: Sequence[float | None] = [1] * len(sides[0].names)
    else:
        numbers = readings.numbers(encodings.value, "valueColumn")
        if missing := numbers.count(None):
            notices.append(f"{quoted(encodings.value)}: {plural(missing, 'row')} without a value, left out")
    sums: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = {}
    for column, row, number in zip(sides[0].names, sides[1].names, numbers, strict=True):
        if number is not None:
            sums[column, row] = sums.get((column, row), 0) + number
            counts[column, row] = counts.get((column, row), 0) + 1
    what = "count"
    if encodings.value is not None:
        repeated = any(count > 1 for count in counts.values())
        what = f"mean of {encodings.value}" if repeated else encodings.value
        sums = {key: value / counts[key] for key, value in sums.items()} if repeated else sums
    columns = _kept(sides[0].order, [key[0] for key in counts], counts.values(), across, notices)
    rows = _kept(sides[1].order, [key[1] for key in counts], counts.values(), down, notices)
    shown = {
        key: exact(value) for key, value in sums.items() if key[0] in set(columns) and key[1] in set(rows)
    }
    return _Grid(columns, rows, shown, what, across, down)


def _kept(order: Sequence[str], keys: Sequence[str], counts: Any, name: str, notices: list[str]) -> list[str]:
    if len(order) <= _MOST_CATEGORIES:
        return list(order)
    weights: dict[str, int] = {}
    for key, count in zip(keys, counts, strict=True):
        weights[key] = weights.get(key, 0) + count
    notices.append(f"{name}: {_MOST_CATEGORIES} of {len(order):,} are drawn: those with the most rows")
    kept = set(sorted(weights, key=lambda key: -weights[key])[:_MOST_CATEGORIES])
    return [key for key in order if key in kept]


def _body(grid: _Grid, readings: Readings, theme: ThemeName) -> dict[str, Any]:
    config = readings.output.config
    height = max(120, min(30 * len(grid.rows), 640))
    width = max(160, min(WIDTH, 64 * len(grid.columns)))
    low, high = min(grid.values.values()), max(grid.values.values())
    signed = low < 0 < high
    values = []
    for (column, row), value in grid.values.items():
        strong = _is_strong(value, low, high, signed=signed)
        values.append({"x": column, "y": row, "v": value, "t": number_text(value), "k": strong})
    x = discrete("x", config.x_label or grid.across, grid.columns, room_px=width)
    y = discrete("y", config.y_label or grid.down, grid.rows, room_px=0, across=False)
    if not (config.x_label or grid.across):
        x["title"] = None
    if not config.y_label and grid.down == "index":
        y["title"] = None
    colour = {
        "field": "v",
        "type": "quantitative",
        "title": title_of(grid.what),
        "legend": {**number_format(low, high), "gradientLength": min(180, height), "tickCount": 5},
        "scale": _scale(low, high, theme, signed=signed),
    }
    written = len(values) <= _WRITTEN_CELLS and len(grid.columns) <= _WRITTEN_COLUMNS
    return {
        "data": {"values": values},
        "encoding": {"x": x, "y": y},
        "layer": [_cells(grid, colour, theme), *([_writing(theme)] if written else [])],
        "height": height,
        "width": width,
    }


def _cells(grid: _Grid, colour: dict[str, Any], theme: ThemeName) -> dict[str, Any]:
    tips = [
        text_tip("x", grid.across or "column"),
        text_tip("y", grid.down or "row"),
        number_tip("v", grid.what),
    ]
    mark = {"type": "rect", "stroke": THEMES[theme].background, "strokeWidth": 1}
    return {"mark": mark, "encoding": {"color": colour, "tooltip": tips}}


def _writing(theme: ThemeName) -> dict[str, Any]:
    """Every cell's number in the colour that can be read on it."""
    strong = "#ffffff" if theme == "light" else "#10151b"
    colour = {"condition": {"test": "datum.k", "value": strong}, "value": THEMES[theme].ink}
    text = {"field": "t", "type": "nominal"}
    return {"mark": {"type": "text", "fontSize": 10}, "encoding": {"text": text, "color": colour}}


def _scale(low: float, high: float, theme: ThemeName, *, signed: bool) -> dict[str, Any]:
    look = THEMES[theme]
    if signed:
        reach = max(-low, high)
        return {"domain": [-reach, reach], "range": list(look.diverging), "interpolate": "lab"}
    return {
        "domain": [low, high if high > low else low + 1],
        "range": list(look.sequential),
        "interpolate": "lab",
    }


def _is_strong(value: float, low: float, high: float, *, signed: bool) -> bool:
    """Whether a cell's colour is from the far end of the scale, on which writing must be the other way round."""
    if signed:
        return abs(value) / max(-low, high) > _DARKER_HALF + 0.15
    return high > low and (value - low) / (high - low) > _DARKER_HALF
