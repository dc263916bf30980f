"""Which chart fits a table: rules over its shape, tried in order. Pure; the guide has the same table.

Only types that are hard to misread are chosen. What a config already says is kept, and decides where it speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cellwright.charts.encodings import FEW_CATEGORIES, ChartType, Config, Encodings, Shape, graph_ends
from cellwright.charts.kinds import ChartKinds, registered_kinds

__all__ = ["RULES", "Choice", "Rule", "choose"]

_MANY_BARS = 50
_ROWS_OF_A_BOX = 20
_FEW_SERIES = 12
_MATRIX = 3
_GRID = 3


@dataclass(frozen=True, slots=True)
class Rule:
    when: str
    type: ChartType
    holds: Callable[[Shape, Config], bool]


@dataclass(frozen=True, slots=True)
class Choice:
    type: ChartType
    encodings: Encodings
    rule: str
    """When this type is chosen, in words; empty where it was asked for."""


def choose(
    shape: Shape, config: Config, type_: ChartType = "auto", kinds: ChartKinds | None = None
) -> Choice:
    """The type and the columns of a chart; a type that is asked for is kept. Only types of ``kinds`` are chosen."""
    kinds = registered_kinds() if kinds is None else kinds
    if type_ != "auto":
        return Choice(type_, _encodings(kinds, type_, shape, config), "")
    rule = next(rule for rule in RULES if _is_there(kinds, rule.type) and rule.holds(shape, config))
    filled = config
    if rule.type in ("line_chart", "scatter", "bar_chart") and config.group_by is None:
        filled = _with_series(rule.type, shape, config)
    return Choice(rule.type, _encodings(kinds, rule.type, shape, filled), rule.when)


def _is_there(kinds: ChartKinds, type_: ChartType) -> bool:
    return type_ == "table" or type_ in kinds.places


def _encodings(kinds: ChartKinds, type_: ChartType, shape: Shape, config: Config) -> Encodings:
    return Encodings() if type_ == "table" else kinds[type_].encode(shape, config)


def _nothing_to_draw(shape: Shape, config: Config) -> bool:
    return not shape.rows or not any(column.distinct for column in shape.columns) or bool(config.columns)


def _has_ends(shape: Shape, _config: Config) -> bool:
    return graph_ends(shape) is not None


def _names_slices(_shape: Shape, config: Config) -> bool:
    return config.label_column is not None and not config.y_columns and config.x_column is None


def _only_numbers_requested(shape: Shape, config: Config) -> bool:
    x = shape.named(config.x_column)
    return (
        x is not None
        and x.kind == "number"
        and not config.y_columns
        and not shape.of_kinds("number", besides=(x.name,))
    )


def _single_number(shape: Shape, _config: Config) -> bool:
    return len(shape.columns) == 1 and shape.columns[0].kind in ("number", "time")


def _single_name(shape: Shape, _config: Config) -> bool:
    return len(shape.columns) == 1 and shape.columns[0].distinct <= max(_MANY_BARS, shape.counted_rows // 2)


def _time_and_number(shape: Shape, config: Config) -> bool:
    x = shape.named(config.x_column)
    if x is not None and x.kind != "time":
        return False
    return bool(shape.of_kinds("time", besides=config.y_columns) and shape.of_kinds("number"))


def _rising_number(shape: Shape, config: Config) -> bool:
    x = shape.named(config.x_column) or next(iter(shape.of_kinds("number", besides=config.y_columns)), None)
    return (
        x is not None
        and x.kind == "number"
        and x.increasing
        and x.distinct > 2  # two points make any line
        and bool(shape.of_kinds("number", besides=(x.name,)))
        and not shape.of_kinds("text", "bool")
    )


def _matrix(shape: Shape, config: Config) -> bool:
    names = shape.of_kinds("text", "bool")
    numbers = shape.of_kinds("number")
    requested = config.y_columns or config.x_column or config.value_column or config.group_by
    return (
        len(names) == 1
        and len(numbers) >= _MATRIX
        and len(numbers) == shape.rows == names[0].distinct
        and not requested
    )


def _two_names_and_a_number(shape: Shape, config: Config) -> bool:
    names = [column for column in shape.of_kinds("text", "bool") if column.distinct <= FEW_CATEGORIES]
    if (
        len(names) != 2 or len(shape.of_kinds("number")) != 1 or config.y_columns or config.group_by
    ):  # a grid has two sides
        return False
    fewest, most = sorted(column.distinct for column in names)
    return fewest >= _GRID and shape.counted_rows > most


def _many_rows_a_name(shape: Shape, config: Config) -> bool:
    name = shape.named(config.x_column or config.group_by) or next(iter(shape.of_kinds("text", "bool")), None)
    numbers = shape.of_kinds("number", besides=(config.x_column,))
    return (
        name is not None
        and name.kind in ("text", "bool")
        and len(numbers) == 1
        and 0 < name.distinct <= FEW_CATEGORIES
        and shape.counted_rows >= _ROWS_OF_A_BOX * name.distinct
    )


def _name_and_number(shape: Shape, config: Config) -> bool:
    x = shape.named(config.x_column)
    names = [x] if x is not None else shape.of_kinds("text", "bool")
    named = [column for column in names if column.kind in ("text", "bool") and column.distinct <= _MANY_BARS]
    return bool(named) and bool(shape.of_kinds("number")) and len(shape.of_kinds("number")) <= len(named) + 3


def _two_numbers(shape: Shape, _config: Config) -> bool:
    return len(shape.of_kinds("number")) >= 2  # a scatter's two axes


def _few_names(shape: Shape, _config: Config) -> bool:
    return any(
        0 < column.distinct <= FEW_CATEGORIES < shape.counted_rows
        for column in shape.of_kinds("text", "bool")
    )


def _with_series(type_: ChartType, shape: Shape, config: Config) -> Config:
    """Colour by a column of a few names that does nothing else yet."""
    free = [
        column.name
        for column in shape.of_kinds("text", "bool", besides=(config.x_column, config.label_column))
        if 1 < column.distinct <= _FEW_SERIES
    ]
    if type_ == "bar_chart":
        free = free[1:] if config.x_column is None else free
    x = next(iter(shape.of_kinds("time")), None) if type_ == "line_chart" else None
    alone = type_ == "line_chart" and (x is None or x.distinct >= shape.counted_rows)
    if not free or alone or len(config.y_columns) > 1:
        return config
    return replace(config, group_by=free[0])


RULES: tuple[Rule, ...] = (
    Rule("there are no rows or no values, or columns are named for a table", "table", _nothing_to_draw),
    Rule("columns are called source and target (or from and to)", "graph", _has_ends),
    Rule("a label column is named, and no axes", "pie_chart", _names_slices),
    Rule("the only column holds numbers or times", "histogram", _single_number),
    Rule("the x column holds numbers, and nothing else does", "histogram", _only_numbers_requested),
    Rule("the only column holds names, many of them more than once", "bar_chart", _single_name),
    Rule("there is a column of times and one of numbers", "line_chart", _time_and_number),
    Rule("a column of numbers only rises, and there is another, and no names", "line_chart", _rising_number),
    Rule("as many columns of numbers as rows, and a column of names", "heatmap", _matrix),
    Rule("two columns of a few names each, and one of numbers", "heatmap", _two_names_and_a_number),
    Rule(
        "a column of a few names with 20 rows or more for each, and one of numbers", "box", _many_rows_a_name
    ),
    Rule(
        "a column of up to 50 names, and up to three more of numbers than of names",
        "bar_chart",
        _name_and_number,
    ),
    Rule("two columns of numbers or more", "scatter", _two_numbers),
    Rule("a column of a few names, each in many rows", "bar_chart", _few_names),
    Rule("no chart fits the columns", "table", lambda _shape, _config: True),
)
