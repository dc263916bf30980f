"""An output as a manifest or a call asks for it, what its table's columns are like, and the parts that they play.

Choosing a type is ``auto``'s business, and giving the parts each type's own (``kinds``). Looks at columns' names and
kinds and at how many values they have, never at the values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cellwright.charts._labels import listed, quoted, suggestion
from cellwright_kernel.tables import ColumnKind, Table

__all__ = [
    "ChartType",
    "ColumnShape",
    "Config",
    "Encodings",
    "Output",
    "Problem",
    "Shape",
    "check_columns",
    "graph_ends",
    "shape_of",
]

ChartType: TypeAlias = str
"""A type's name: ``auto``, ``table``, or a plugin's of the kind ``chart_types``."""

_COUNTED_ROWS = 20_000
FEW_CATEGORIES = 30
_SOURCES = ("source", "from", "src", "start", "parent")
_TARGETS = ("target", "to", "dst", "dest", "end", "child")


@dataclass(frozen=True, slots=True)
class Config:
    """What an output says about its columns; empty where it leaves the choice to us."""

    columns: tuple[str, ...] = ()
    max_rows: int | None = None
    x_column: str | None = None
    y_columns: tuple[str, ...] = ()
    x_label: str | None = None
    y_label: str | None = None
    group_by: str | None = None
    label_column: str | None = None
    value_column: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One picture or table to be shown."""

    id: str
    type: ChartType
    data_file: str = ""
    title: str | None = None
    config: Config = field(default_factory=Config)
    path: str = ""
    """Where it stands in its manifest, ``outputs[2]``; empty where it comes from no manifest."""
    notices: tuple[str, ...] = ()

    def field(self, name: str) -> str:
        """What a message calls a field of the config."""
        return f"{self.path}.config.{name}" if self.path else name

    @property
    def source(self) -> str:
        """What a message calls the data."""
        return self.data_file or "the data"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: which field, and what is wrong with it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


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
    named: list[tuple[str, str | None]] = [
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
        for field, name in named
        if name is not None and name not in names
    ]


def graph_ends(shape: Shape) -> tuple[str, str] | None:
    """The columns that name a link's two ends, where their names say so."""
    by_name = {column.name.lower(): column.name for column in reversed(shape.columns)}
    source = next((by_name[name] for name in _SOURCES if name in by_name), None)
    target = next((by_name[name] for name in _TARGETS if name in by_name), None)
    return (source, target) if source is not None and target is not None else None
