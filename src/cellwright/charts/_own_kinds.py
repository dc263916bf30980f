"""Our own chart types as plugins of the kind ``chart_types``: which column plays which part in each, and what draws it.

A part is what the config says, and what follows from the columns where it is silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cellwright.charts._bars import bar_chart, pie_chart
from cellwright.charts._distributions import boxes, histogram
from cellwright.charts._graphs import graph
from cellwright.charts._heatmaps import heatmap
from cellwright.charts._lines import line_chart
from cellwright.charts._points import scatter
from cellwright.charts.encodings import FEW_CATEGORIES, ColumnShape, Config, Encodings, Shape, graph_ends
from cellwright.charts.kinds import ChartKind

__all__ = ["AREA", "BAR_CHART", "BOX", "GRAPH", "HEATMAP", "HISTOGRAM", "LINE_CHART", "PIE_CHART", "SCATTER"]

CELLWRIGHT_API = 1

_MOST_LINES, _MOST_BARS, _MOST_BOXES = 8, 4, 12
_WEIGHTS = ("value", "weight", "count")
_GROUPS = ("group", "category", "type", "community", "cluster")


def _lines(shape: Shape, config: Config) -> Encodings:
    taken = (*config.y_columns, config.group_by, config.value_column)
    x = config.x_column or config.label_column
    if x is None:
        free = [column for column in shape.columns if column.name not in taken]
        along = [column for column in free if column.increasing or column.kind in ("text", "bool")]
        x = _first(shape.of_kinds("time", besides=taken), along, free)
    y = config.y_columns or _given(config.value_column) or _numbers(shape, x, config, _MOST_LINES)
    return Encodings(x, y, config.group_by)


def _bars(shape: Shape, config: Config) -> Encodings:
    taken = (*config.y_columns, config.group_by, config.value_column)
    x = config.x_column or config.label_column
    if x is None:
        named = shape.of_kinds("text", "bool", besides=taken)
        x = _first(
            [column for column in named if column.distinct <= FEW_CATEGORIES],
            named,
            shape.of_kinds("time", besides=taken),
            [c for c in shape.columns if c.name not in taken],
        )
    x = x if x is not None else config.group_by
    y = config.y_columns or _given(config.value_column) or _numbers(shape, x, config, _MOST_BARS)
    return Encodings(x, y, config.group_by if config.group_by != x else None)


def _scatter(shape: Shape, config: Config) -> Encodings:
    taken = (*config.y_columns, config.group_by)
    x = config.x_column
    if x is None:
        numbers = shape.of_kinds("number", besides=taken)
        # The only numbers there are go upwards.
        across = numbers if config.y_columns or len(numbers) > 1 else []
        others = [column for column in shape.columns if column.name not in taken and column not in numbers]
        x = _first(across, shape.of_kinds("time", besides=taken), others, numbers)
    y = config.y_columns or _numbers(shape, x, config, 1)
    return Encodings(x, y, config.group_by, config.value_column, config.label_column)


def _pie(shape: Shape, config: Config) -> Encodings:
    taken = (config.value_column, *config.y_columns)
    label = config.label_column or config.x_column or config.group_by
    if label is None:
        label = _first(
            shape.of_kinds("text", "bool", "time", besides=taken),
            [c for c in shape.columns if c.name not in taken],
        )
    value = config.value_column or (config.y_columns or (None,))[0]
    if value is None:
        value = _first(shape.of_kinds("number", besides=(label,)))
    return Encodings(label=label, value=value)


def _histogram(shape: Shape, config: Config) -> Encodings:
    x = config.x_column or (config.y_columns or (None,))[0] or config.value_column
    group = config.group_by
    return Encodings(
        x or _first(shape.of_kinds("number", besides=(group,)), list(shape.columns)), group=group
    )


def _heatmap(shape: Shape, config: Config) -> Encodings:
    if config.x_column and len(config.y_columns) > 1:
        return Encodings(config.x_column, config.y_columns)
    taken = (config.value_column, *config.y_columns)
    named = shape.of_kinds("text", "bool", "time", besides=(*taken, config.x_column))
    if (
        not config.y_columns
        and config.value_column is None
        and not named[1 if config.x_column is None else 0 :]
    ):
        # A matrix as it is written down: a column of names, and a column of numbers for each name.
        x = config.x_column or _first(named)
        numbers = tuple(column.name for column in shape.of_kinds("number", besides=(x,)))
        if x is not None and len(numbers) > 1:
            return Encodings(x, numbers)
    x = config.x_column or _first(named, [c for c in shape.columns if c.name not in taken])
    y = config.y_columns[:1] or _given(
        _first([c for c in named if c.name != x], [c for c in shape.columns if c.name not in (*taken, x)])
    )
    value = config.value_column or _first(shape.of_kinds("number", besides=(x, *y)))
    return Encodings(x, y, value=value)


def _boxes(shape: Shape, config: Config) -> Encodings:
    x = config.x_column or config.group_by or config.label_column
    group = config.group_by if config.group_by != x else None
    if x is None and not config.y_columns:
        few = [
            c
            for c in shape.of_kinds("text", "bool", besides=(config.value_column,))
            if c.distinct <= FEW_CATEGORIES
        ]
        x = _first(few)
    most = _MOST_BOXES if x is None else 1
    y = config.y_columns or _given(config.value_column) or _numbers(shape, x, config, most)
    return Encodings(x, y, group)


def _graph(shape: Shape, config: Config) -> Encodings:
    ends = graph_ends(shape)
    first = [column.name for column in shape.columns]
    x = config.x_column or (ends[0] if ends else _at(first, 0))
    y = (config.y_columns or (None,))[0] or (
        ends[1] if ends else _at([name for name in first if name != x], 0)
    )
    by_name = {column.name.lower(): column.name for column in shape.columns if column.name not in (x, y)}
    group = config.group_by or next((by_name[name] for name in _GROUPS if name in by_name), None)
    value = config.value_column or next((by_name[name] for name in _WEIGHTS if name in by_name), None)
    return Encodings(x, _given(y), group, value, config.label_column)


def _numbers(shape: Shape, x: str | None, config: Config, at_most: int) -> tuple[str, ...]:
    columns = shape.of_kinds("number", besides=(x, config.group_by))
    return tuple(column.name for column in columns)[: 1 if config.group_by else at_most]


def _given(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _first(*choices: Sequence[ColumnShape]) -> str | None:
    return next((columns[0].name for columns in choices if columns), None)


def _at(names: Sequence[str], index: int) -> str | None:
    return names[index] if index < len(names) else None


LINE_CHART = ChartKind(partial(line_chart, mark="line"), _lines, ("line", "lines", "line_plot"))
AREA = ChartKind(partial(line_chart, mark="area"), _lines, ("area_chart", "area_plot"))
BAR_CHART = ChartKind(bar_chart, _bars, ("bar", "bars", "bar_plot", "column_chart"))
SCATTER = ChartKind(scatter, _scatter, ("scatter_chart", "scatter_plot", "scatterplot", "points"))
PIE_CHART = ChartKind(pie_chart, _pie, ("pie", "pie_plot", "donut", "donut_chart"))
HISTOGRAM = ChartKind(histogram, _histogram, ("histogram_chart", "hist"))
HEATMAP = ChartKind(heatmap, _heatmap, ("heat_map", "heatmap_chart"))
BOX = ChartKind(boxes, _boxes, ("box_plot", "boxplot", "box_chart"))
GRAPH = ChartKind(graph, _graph, ("network", "graph_chart"))
