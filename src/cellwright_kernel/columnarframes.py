"""Frames of polars, Arrow and DuckDB: columns of one type each, with what is missing counted by the library.

Only whole columns are asked: what these libraries do with a frame at once they do in threads of their own, after
which a kernel can no longer be forked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellwright_kernel.framefields import Extent, Field, Frame, unique_names
from cellwright_kernel.genuine import is_of, part_of
from cellwright_kernel.scalars import label
from cellwright_kernel.tables import ColumnKind

__all__ = ["frame_of", "is_relation"]

MAX_DTYPE = 24
_POLARS_KINDS: dict[str, ColumnKind] = {
    "Boolean": "bool",
    "Date": "time",
    "Datetime": "time",
    "Duration": "number",
    "Decimal": "number",
    "String": "text",
    "Categorical": "text",
    "Enum": "text",
    "Time": "text",
}


def frame_of(value: Any) -> Frame | None:
    kind = type(value)
    if is_of(kind, "polars", "DataFrame"):
        return _polars(list(value.get_columns()), value.height, "polars.DataFrame")
    if is_of(kind, "polars", "Series"):
        return _polars([value], len(value), "polars.Series")
    if is_of(kind, "pyarrow", "Table"):
        return _arrow(value, "pyarrow.Table")
    if is_of(kind, "pyarrow", "RecordBatch"):
        return _arrow(value, "pyarrow.RecordBatch")
    if is_relation(value):
        return _relation(value)
    return None


def is_relation(value: Any) -> bool:
    """Whether a value is a query that DuckDB has yet to run: reading it may take as long as it likes."""
    return is_of(type(value), "duckdb", "DuckDBPyRelation")


# polars --------------------------------------------------------------------------------------------------------------


def _polars(columns: list[Any], height: int, kind: str) -> Frame:
    names = unique_names(label(series.name) for series in columns)
    fields = tuple(
        Field(name, _polars_kind(series.dtype), _polars_name(series.dtype))
        for name, series in zip(names, columns, strict=True)
    )

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        return [_polars_part(columns[number], rows).to_list() for number in wanted]

    def missing(number: int) -> int:
        series = columns[number]
        gaps = int(series.null_count())
        return gaps + int(series.is_nan().sum() or 0) if series.dtype.is_float() else gaps

    def extent(number: int) -> Extent | None:
        series = columns[number]
        if not (series.dtype.is_numeric() or series.dtype.is_temporal()) or series.dtype.is_decimal():
            return None
        low, high = series.min(), series.max()
        return None if low is None or low != low else (low, high)  # nothing but NaN

    return Frame(kind, fields, height, take, missing, columns.__getitem__, extent)


def _polars_name(dtype: Any) -> str:
    name = str(dtype)
    return name if len(name) <= MAX_DTYPE else str(dtype.base_type())


def _polars_part(series: Any, rows: range) -> Any:
    part = series.slice(rows.start, rows.stop - rows.start)
    return part if rows.step == 1 else part.gather_every(rows.step)


def _polars_kind(dtype: Any) -> ColumnKind | None:
    if dtype.is_integer() or dtype.is_float():
        return "number"
    return _POLARS_KINDS.get(str(dtype.base_type()), "other" if dtype.is_nested() else None)


# Arrow and DuckDB ----------------------------------------------------------------------------------------------------


def _arrow(table: Any, kind: str) -> Frame:
    types = list(table.schema.types)
    names = unique_names(label(name) for name in table.schema.names)
    fields = tuple(Field(name, _arrow_kind(each), str(each)) for name, each in zip(names, types, strict=True))

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        return [_arrow_part(table.column(number), rows) for number in wanted]

    def missing(number: int) -> int:
        compute = part_of("pyarrow.compute")
        column = table.column(number)
        gaps = int(column.null_count)
        if part_of("pyarrow.types").is_floating(types[number]):
            gaps += int(compute.sum(compute.is_nan(column)).as_py() or 0)
        return gaps

    def extent(number: int) -> Extent | None:
        if _arrow_kind(types[number]) not in {"number", "time"}:
            return None
        found = part_of("pyarrow.compute").min_max(table.column(number)).as_py()
        return None if found["min"] is None else (found["min"], found["max"])

    return Frame(kind, fields, table.num_rows, take, missing, table.column, extent)


def _arrow_part(column: Any, rows: range) -> list[Any]:
    part = column.slice(rows.start, rows.stop - rows.start)
    if rows.step > 1:
        part = part.take(part_of("pyarrow").array(range(0, rows.stop - rows.start, rows.step)))
    values: list[Any] = part.to_pylist()
    return values


def _arrow_kind(kind: Any) -> ColumnKind | None:
    types = part_of("pyarrow.types")
    for check, found in (
        (types.is_integer, "number"),
        (types.is_floating, "number"),
        (types.is_decimal, "number"),
        (types.is_duration, "number"),
        (types.is_boolean, "bool"),
        (types.is_timestamp, "time"),
        (types.is_date, "time"),
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_nested, "other"),
    ):
        if check(kind):
            return found  # type: ignore[return-value]  # one of the literals
    return None


def _relation(relation: Any) -> Frame:
    """A query's result. Run as a query of its own, so that what the user still has to fetch stays to be fetched."""
    query = relation.select("*")
    try:
        return _arrow(query.to_arrow_table(), "duckdb.DuckDBPyRelation")
    except ImportError:  # pyarrow is not there
        return _rows(query)


def _rows(query: Any) -> Frame:
    fields = tuple(
        Field(name, None, str(kind))
        for name, kind in zip(unique_names(query.columns), query.types, strict=True)
    )
    held = query.fetchall()

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        part = held[rows.start : rows.stop : rows.step]
        return [[row[number] for row in part] for number in wanted]

    def missing(number: int) -> int:
        return sum(1 for row in held if row[number] is None)

    return Frame(
        "duckdb.DuckDBPyRelation",
        fields,
        len(held),
        take,
        missing,
        lambda number: [row[number] for row in held],
    )
