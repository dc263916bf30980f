"""What a table's columns are like, and the parts that they play in a chart.

Choosing a type is ``auto``'s business, and giving the parts each type's own (``kinds``). Looks at columns' names and
kinds and at how many values they have, never at the values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.charts._manifest import Output, Problem, listed, quoted, suggestion
from cellwright_kernel.tables import ColumnKind, Table

__all__ = ["ColumnShape", "Encodings", "Shape", "check_columns", "graph_ends", "shape_of"]

_COUNTED_ROWS = 20_000
FEW_CATEGORIES = 30
_SOURCES = ("source", "from", "src", "start", "parent")
_TARGETS = ("target", "to", "dst", "dest", "end", "child")


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


def graph_ends(shape: Shape) -> tuple[str, str] | None:
    """The columns that name a link's two ends, where their names say so."""
    by_name = {column.name.lower(): column.name for column in reversed(shape.columns)}
    source = next((by_name[name] for name in _SOURCES if name in by_name), None)
    target = next((by_name[name] for name in _TARGETS if name in by_name), None)
    return (source, target) if source is not None and target is not None else None
