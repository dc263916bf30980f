"""Which column plays which part in a chart of a given type: what the config says, and what follows where it is silent.

Choosing a type is ``auto``'s business. Looks at columns' names and kinds and at how many values they have, never at the values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cellwright.charts._manifest import ChartType, Config, Output, Problem, listed, quoted, suggestion
from cellwright_kernel.tables import ColumnKind, Table

__all__ = ["ColumnShape", "Encodings", "Shape", "check_columns", "encodings_for", "graph_ends", "shape_of"]

_COUNTED_ROWS = 20_000
_MOST_LINES, _MOST_BARS, _MOST_BOXES = 8, 4, 12
FEW_CATEGORIES = 30
_SOURCES = ("source", "from", "src", "start", "parent")
_TARGETS = ("target", "to", "dst", "dest", "end", "child")
_WEIGHTS = ("value", "weight", "count")
_GROUPS = ("group", "category", "type", "community", "cluster")


@dataclass(frozen=True, slots=True)
class ColumnShape:
    name: str
    kind: ColumnKind
    distinct: int
    """Different values, missing ones aside; of the first 20,000 rows."""
    increasing: bool = False
    """Whether every value is larger than the one before."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rules look at."""

    rows: int
    columns: tuple[ColumnShape, ...]

    def of_kinds(self, *kinds: ColumnKind, besides: Sequence[str | None] = ()) -> list[ColumnShape]:
        return [column for column in self.columns if column.kind in kinds and column.name not in besides]

    def named(self, name: str | None) -> ColumnShape | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def counted_rows(self) -> int:
        return min(self.rows, _COUNTED_ROWS)


@dataclass(frozen=True, slots=True)
class Encodings:
    """The columns of each part; a part that is empty is not drawn, or is counted."""

    x: str | None = None
    y: tuple[str, ...] = ()
    group: str | None = None
    value: str | None = None
    label: str | None = None


def shape_of(table: Table) -> Shape:
    columns = []
    for index, column in enumerate(table.columns):
        values = [row[index] for row in table.rows[:_COUNTED_ROWS] if row[index] is not None]
        rising = column.kind in ("number", "time") and len(values) > 1
        increasing = rising and all(a < b for a, b in itertools.pairwise(values))  # type: ignore[operator]  # one kind
        columns.append(ColumnShape(column.name, column.kind, len(set(values)), increasing))
    return Shape(len(table.rows), tuple(columns))


def check_columns(output: Output, names: Sequence[str]) -> list[Problem]:
    """Every column that the config names and the data does not have."""
    config = output.config
    many = len(config.y_columns) > 1
    said: list[tuple[str, str | None]] = [
        *((f"columns[{index}]", name) for index, name in enumerate(config.columns)),
        ("xColumn", config.x_column),
        *((f"yColumn[{index}]" if many else "yColumn", name) for index, name in enumerate(config.y_columns)),
        ("groupBy", config.group_by),
        ("labelColumn", config.label_column),
        ("valueColumn", config.value_column),
    ]
    return [
        Problem(
            output.field(field),
            f"there is no column {quoted(name)} in {output.source}; it has {listed(names)}"
            f"{suggestion(name, names)}",
        )
        for field, name in said
        if name is not None and name not in names
    ]


def encodings_for(type_: ChartType, shape: Shape, config: Config) -> Encodings:
    """Fill in what the config leaves open, for a type that is settled."""
    fill = _FILLING.get(type_)
    return Encodings() if fill is None else fill(shape, config)


def graph_ends(shape: Shape) -> tuple[str, str] | None:
    """The columns that name a link's two ends, where their names say so."""
    by_name = {column.name.lower(): column.name for column in reversed(shape.columns)}
    source = next((by_name[name] for name in _SOURCES if name in by_name), None)
    target = next((by_name[name] for name in _TARGETS if name in by_name), None)
    return (source, target) if source is not None and target is not None else None


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


_FILLING: dict[ChartType, Callable[[Shape, Config], Encodings]] = {
    "line_chart": _lines,
    "area": _lines,
    "bar_chart": _bars,
    "scatter": _scatter,
    "pie_chart": _pie,
    "histogram": _histogram,
    "heatmap": _heatmap,
    "box": _boxes,
    "graph": _graph,
}
