"""A table as everybody passes it on: named columns, a bounded part of the rows, and how many there are in all.

Made from frames inside a kernel and from files outside; read by digests, HTML tables and charts. Holds plain values
only, so that it is the same on both sides of the wire. It knows no library of frames (see ``frames``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Column", "ColumnKind", "Table", "Value"]

ColumnKind: TypeAlias = Literal["number", "text", "time", "bool", "other"]
Value: TypeAlias = "bool | int | float | str | None"
"""A cell: JSON's scalars. A float is finite, a time is ISO 8601, anything else is told in words."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: ColumnKind
    dtype: str = ""
    """The type's name in the library that the table comes from; empty where there is none."""
    missing: int = 0
    """How many of all rows have no value here."""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    total_rows: int
    notices: tuple[str, ...] = ()
    """What a reader must know about it: rows left out and how they were chosen, values that could not be kept."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def to_wire(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "columns": [
                {"name": column.name, "kind": column.kind, "dtype": column.dtype, "missing": column.missing}
                for column in self.columns
            ],
            "rows": [list(row) for row in self.rows],
            "total_rows": self.total_rows,
            "notices": list(self.notices),
        }

    @classmethod
    def from_wire(cls, held: Mapping[str, Any]) -> Table:
        return cls(
            tuple(Column(**column) for column in held["columns"]),
            tuple(tuple(row) for row in held["rows"]),
            held["total_rows"],
            tuple(held["notices"]),
        )
