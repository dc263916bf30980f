"""Frames become tables here and nowhere else, whatever library they are of.

A ``Frame`` is one value seen as columns: what its library knows of them, and how to take rows. It holds the value and
copies nothing until it is asked. How each library is asked stands in ``pandasframes``, ``columnarframes`` (polars,
Arrow, DuckDB) and ``plainframes`` (numpy and builtins). Only exact types of libraries that are loaded are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from cellwright_kernel.digests import dtype_name, is_genuine, is_of, library, part_of
from cellwright_kernel.tables import (
    Column,
    ColumnKind,
    Table,
    Value,
    count_missing,
    kind_of,
    kind_of_type,
    label,
    plain_column,
    without_midnight,
)

__all__ = ["Extent", "Field", "Frame", "frame_of", "is_relation", "sampled_rows", "table_of", "unique_names"]


# The interface of a frame: fields, a number of rows, and three questions that its library answers.

Extent: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: ColumnKind | None
    """``None`` where only the values can tell."""
    dtype: str
    is_index: bool = False
    """Whether it names the rows, and is no column of the frame itself."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A value seen as columns."""

    type: str
    fields: tuple[Field, ...]
    total_rows: int
    take: Callable[[range, Sequence[int]], list[list[Any]]]
    """The raw values of some rows, a list for each of the fields asked for."""
    missing: Callable[[int], int]
    """How many rows of all have no value in a field."""
    column: Callable[[int], Any]
    """A field as its library holds it."""
    extent: Callable[[int], Extent | None] = lambda _: None
    """The least and the greatest value of all, where the library has them at once."""
    notices: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many columns the frame itself has."""
        return sum(1 for field in self.fields if not field.is_index)


def unique_names(names: Iterable[str]) -> list[str]:
    """Names of which none is another's; a second ``x`` becomes ``x_2``, and one without a name ``column``."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        made = base = name or "column"
        while made in found:
            numbers[base] = numbers.get(base, 1) + 1
            made = f"{base}_{numbers[base]}"
        found[made] = None
    return list(found)


# An array's kind, and its least and greatest value, as numpy knows them at once.


def kind_of_letter(letter: str) -> ColumnKind | None:
    """The kind of a column by numpy's letter for its type; ``None`` where only the values can tell."""
    if letter in "iufm":
        return "number"
    kinds: dict[str, ColumnKind] = {
        "b": "bool",
        "M": "time",
        "U": "text",
        "c": "other",
        "V": "other",
        "S": "other",
    }
    return kinds.get(letter)


def array_extent(array: Any) -> Extent | None:
    """The least and the greatest value, gaps left aside; ``None`` where they cannot be had at once."""
    numpy: Any = library("numpy")
    if numpy is None or not array.size:
        return None
    if array.dtype.kind == "f":
        # These ignore gaps, and unlike `nanmin` neither copy nor warn.
        low, high = numpy.fmin.reduce(array).item(), numpy.fmax.reduce(array).item()
        return None if math.isnan(low) else (low, high)
    if array.dtype.kind == "M":
        # As integers, which is several times faster; the least of them stands for a gap.
        numbers = array.view("i8")
        low = numbers.min()
        return (
            None if low == numpy.iinfo("i8").min else (low.view(array.dtype), numbers.max().view(array.dtype))
        )
    return array.min().item(), array.max().item()


# Arrays of numpy, lists of records and dictionaries of columns as frames.

MAX_RECORD_FIELDS = 500

SEEN_RECORDS = 1_000

PLANE = 2


def plain_frame(value: Any) -> Frame | None:
    kind = type(value)
    if kind in (list, tuple):
        return _records(value)
    if kind is dict:
        return _mapping(value)
    if is_of(kind, "numpy", "ndarray"):
        return _array(value)
    return None


# numpy ---------------------------------------------------------------------------------------------------------------


def _array(array: Any) -> Frame | None:
    if array.dtype.names is not None:
        columns = [array[name] for name in array.dtype.names] if array.ndim == 1 else []
        names = list(array.dtype.names)
    elif array.ndim == 1:
        columns, names = [array], ["value"]
    elif array.ndim == PLANE and array.shape[1]:
        columns, names = list(array.T), [str(number) for number in range(array.shape[1])]
    else:
        return None
    if not columns or any(column.ndim != 1 for column in columns):
        return None
    fields = tuple(
        Field(name, kind_of_letter(column.dtype.kind), str(column.dtype))
        for name, column in zip(unique_names(names), columns, strict=True)
    )

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        return [_array_part(columns[number], rows) for number in wanted]

    def missing(number: int) -> int:
        column = columns[number]
        if column.dtype.kind in "fmM":
            return int((column != column).sum())  # only gaps differ from themselves
        return count_missing(column.tolist()) if column.dtype.kind == "O" else 0

    def extent(number: int) -> Extent | None:
        column = columns[number]
        return array_extent(column) if column.dtype.kind in "iufM" else None

    return Frame("numpy.ndarray", fields, len(array), take, missing, columns.__getitem__, extent)


def _array_part(column: Any, rows: range) -> list[Any]:
    part = column[rows.start : rows.stop : rows.step]
    # As numpy's own scalars: `tolist` makes integers of the times that Python cannot hold.
    return list(part) if part.dtype.kind in "mM" else part.tolist()


# Builtins ------------------------------------------------------------------------------------------------------------


def _records(records: Sequence[Any]) -> Frame | None:
    """A list of dictionaries, or of rows of equal length, or of plain values."""
    kinds = {type(record) for record in islice(records, SEEN_RECORDS)}
    if kinds == {dict} and all(type(record) is dict for record in records):
        return _dictionaries(records)
    if kinds and kinds <= {list, tuple}:
        return _rows(records)
    if kinds and all(kind_of_type(kind) != "other" for kind in kinds):
        return _columns([("value", records)], "list")
    return None


def _dictionaries(records: Sequence[dict[Any, Any]]) -> Frame:
    seen: dict[Any, None] = {}
    for record in islice(records, SEEN_RECORDS):
        seen.update(
            dict.fromkeys(key for key in islice(record, MAX_RECORD_FIELDS) if type(key) in (str, int))
        )
    keys = list(seen)[:MAX_RECORD_FIELDS]
    fields = tuple(Field(name, None, "") for name in unique_names(label(key) for key in keys))

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        part = records[rows.start : rows.stop : rows.step]
        return [[record.get(keys[number]) for record in part] for number in wanted]

    def column(number: int) -> list[Any]:
        return [record.get(keys[number]) for record in records]

    return Frame(
        "list of records", fields, len(records), take, lambda number: count_missing(column(number)), column
    )


def _rows(rows: Sequence[Any]) -> Frame | None:
    width = len(rows[0])
    if not width or any(type(row) not in (list, tuple) or len(row) != width for row in rows):
        return None
    fields = tuple(Field(str(number), None, "") for number in range(width))

    def take(taken: range, wanted: Sequence[int]) -> list[list[Any]]:
        part = rows[taken.start : taken.stop : taken.step]
        return [[row[number] for row in part] for number in wanted]

    def column(number: int) -> list[Any]:
        return [row[number] for row in rows]

    return Frame(
        "list of rows", fields, len(rows), take, lambda number: count_missing(column(number)), column
    )


def _mapping(mapping: dict[Any, Any]) -> Frame | None:
    """A dictionary of columns of equal length, or of plain values, which are its rows."""
    if not mapping or any(
        type(key) not in (str, int, float, bool, tuple) for key in islice(mapping, SEEN_RECORDS)
    ):
        return None
    lengths = {_length(held) for held in mapping.values()}
    if len(lengths) == 1 and None not in lengths:
        return _columns([(label(key), held) for key, held in mapping.items()], "dict of columns")
    if all(kind_of_type(type(held)) != "other" for held in mapping.values()):
        keys = list(mapping)
        return _columns([("key", keys), ("value", list(mapping.values()))], "dict")
    return None


def _length(column: Any) -> int | None:
    kind = type(column)
    if kind in (list, tuple, range):
        return len(column)
    if is_of(kind, "numpy", "ndarray") and column.ndim == 1:
        return len(column)
    if is_of(kind, "pandas", "Series") or is_of(kind, "polars", "Series"):
        return len(column)
    return None


def _columns(columns: list[tuple[str, Any]], kind: str) -> Frame:
    held = [_listed(column) for _, column in columns]
    fields = tuple(Field(name, None, "") for name in unique_names(name for name, _ in columns))

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        return [list(held[number][rows.start : rows.stop : rows.step]) for number in wanted]

    return Frame(
        kind, fields, len(held[0]), take, lambda number: count_missing(held[number]), held.__getitem__
    )


def _listed(column: Any) -> Sequence[Any]:
    return (
        column
        if type(column) in (list, tuple, range)
        else list(column.tolist() if hasattr(column, "tolist") else column)
    )


# DataFrames and Series of pandas as frames: an index that is more than row numbers comes first, as columns.


def pandas_frame(value: Any) -> Frame | None:
    if is_of(type(value), "pandas", "DataFrame"):
        return _frame(value, "pandas.DataFrame")
    if is_of(type(value), "pandas", "Series"):
        return _frame(value.to_frame(name="value" if value.name is None else value.name), "pandas.Series")
    return None


def _frame(frame: Any, kind: str) -> Frame:
    index = frame.index
    levels = 0 if _is_numbering(index) else index.nlevels
    index_names = [label(name) for name in index.names] if levels else []
    index_names = [
        name or ("index" if levels == 1 else f"level_{number}") for number, name in enumerate(index_names)
    ]
    dtypes = [*(_level_dtype(index, level) for level in range(levels)), *frame.dtypes.array]
    names = unique_names([*index_names, *(label(name) for name in frame.columns)])
    fields = tuple(
        Field(name, _kind(dtype), dtype_name(dtype), number < levels)
        for number, (name, dtype) in enumerate(zip(names, dtypes, strict=True))
    )
    foreign = [number for number, dtype in enumerate(dtypes) if _is_foreign(dtype)]

    def column(number: int, part: Any) -> Any:
        return part.index.get_level_values(number) if number < levels else part.iloc[:, number - levels]

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        # Once for the whole frame, unless a column would do it in its own way.
        some = slice(rows.start, rows.stop, rows.step)
        part = None if foreign else frame.iloc[some]
        return [
            [None] * len(rows)
            if number in foreign
            else (column(number, part) if part is not None else _part(column(number, frame), some)).tolist()
            for number in wanted
        ]

    def missing(number: int) -> int:
        if number in foreign:
            return 0
        held = column(number, frame)
        # In a column of objects pandas would compare each with itself.
        is_objects = dtypes[number].kind == "O" and is_genuine(type(dtypes[number]), "numpy")
        return count_missing(held) if is_objects else int(held.isna().sum())

    def extent(number: int) -> Extent | None:
        dtype = dtypes[number]
        if not is_genuine(type(dtype), "numpy") or dtype.kind not in "iufM":
            return None
        return array_extent(column(number, frame).to_numpy())

    notices = tuple(
        f"{fields[number].name}: values of type {fields[number].dtype} are not read" for number in foreign
    )
    return Frame(
        kind, fields, len(index), take, missing, lambda number: column(number, frame), extent, notices
    )


def _is_numbering(index: Any) -> bool:
    return is_of(type(index), "pandas", "RangeIndex") and index.name is None


def _level_dtype(index: Any, level: int) -> Any:
    return index.levels[level].dtype if is_of(type(index), "pandas", "MultiIndex") else index.dtype


def _is_foreign(dtype: Any) -> bool:
    """Whether a column's type is of somebody else's making; its code may do anything."""
    return not is_genuine(type(dtype), "numpy", "pandas")


def _kind(dtype: Any) -> ColumnKind | None:
    return "other" if _is_foreign(dtype) else kind_of_letter(dtype.kind)


def _part(column: Any, some: slice) -> Any:
    return column.iloc[some] if is_of(type(column), "pandas", "Series") else column[some]


# Frames of polars, Arrow and DuckDB: columns of one type each, with what is missing counted by the library.

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


def columnar_frame(value: Any) -> Frame | None:
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
        return _column_rows(query)


def _column_rows(query: Any) -> Frame:
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


Sample: TypeAlias = Literal["first", "even", "all"]

DEFAULT_ROWS = 5_000

MAX_TEXT = 1_000

_FRAMERS: tuple[Callable[[Any], Frame | None], ...] = (
    pandas_frame,
    columnar_frame,
    plain_frame,
)


def frame_of(value: Any) -> Frame | None:
    """A value as columns and rows, if it is one of the kinds that have them."""
    return next((frame for framer in _FRAMERS if (frame := framer(value)) is not None), None)


def table_of(
    value: Any,
    *,
    max_rows: int | None = DEFAULT_ROWS,
    columns: Sequence[str] | None = None,
    sample: Sample = "even",
    max_text: int | None = MAX_TEXT,
) -> Table | None:
    """A frame as a table of at most so many rows; ``None`` if it is no frame.

    ``first`` takes the first rows, ``even`` spreads them evenly, ``all`` takes every row, or as many of the first as
    ``max_rows`` allows. Figures about columns are always of all rows.

    Raises:
        KeyError: there is no such column; the message names those that there are.
    """
    frame = value if isinstance(value, Frame) else frame_of(value)
    if frame is None:
        return None
    wanted = _wanted(frame, columns)
    rows = sampled_rows(frame.total_rows, max_rows, sample)
    made = [
        _column(frame, index, raw, max_text)
        for index, raw in zip(wanted, frame.take(rows, wanted), strict=True)
    ]
    notices = [
        *_left_out(rows, frame.total_rows),
        *frame.notices,
        *(notice for each in made for notice in each.notices),
    ]
    held = tuple(zip(*(each.values for each in made), strict=True)) if made else ((),) * len(rows)
    return Table(tuple(each.column for each in made), held, frame.total_rows, tuple(notices))


def sampled_rows(total: int, limit: int | None, sample: Sample) -> range:
    """Which rows of a frame to take; every one, the first, or every so-manieth."""
    if limit is None or total <= limit:
        return range(total)
    if sample == "even" and limit > 0:
        return range(0, total, _next_prime(-(-total // limit)))
    return range(limit)


def _next_prime(number: int) -> int:
    """A prime: rows often come in rounds of 7, 24 or 1,000, of which any other step would meet always the same."""
    while any(number % factor == 0 for factor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _wanted(frame: Frame, columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(len(frame.fields)))
    places = {field.name: index for index, field in enumerate(frame.fields)}
    if unknown := [name for name in columns if name not in places]:
        raise KeyError(f"there is no column {unknown[0]!r}; there are {', '.join(list(places)[:40])}")
    return [places[name] for name in columns]


@dataclass(frozen=True, slots=True)
class _Made:
    column: Column
    values: list[Value]
    notices: tuple[str, ...]


def _column(frame: Frame, index: int, raw: list[Any], max_text: int | None) -> _Made:
    field: Field = frame.fields[index]
    values, infinite, cut_short = plain_column(raw, max_text=max_text)
    column = Column(field.name, field.kind or kind_of(raw), field.dtype, frame.missing(index))
    if column.kind == "time":
        values = _days(values)
    notices = []
    if infinite:
        notices.append(f"{field.name}: {infinite:,} infinite values are left out")
    if cut_short:
        notices.append(f"{field.name}: {cut_short:,} texts are cut to {max_text:,} characters")
    return _Made(column, values, tuple(notices))


def _days(values: list[Value]) -> list[Value]:
    """Moments as days, if all of them are: those who read both in one column take them for different zones."""
    days = [without_midnight(value) if isinstance(value, str) else None for value in values]
    return list(days) if not any(day is not None and "T" in day for day in days) else values


def _left_out(rows: range, total: int) -> list[str]:
    if len(rows) == total:
        return []
    if rows.step == 1:
        return [f"the first {len(rows):,} of {total:,} rows"]
    return [f"{len(rows):,} of {total:,} rows, spread evenly: every {_ordinal(rows.step)}"]


def _ordinal(number: int) -> str:
    tens, ones = divmod(number % 100, 10)
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number:,}{ending}"
