"""Arrays of numpy, lists of records and dictionaries of columns as frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from cellwright_kernel.arrays import array_extent, kind_of_letter
from cellwright_kernel.framefields import Extent, Field, Frame, unique_names
from cellwright_kernel.genuine import is_of
from cellwright_kernel.scalars import count_missing, kind_of_type, label

__all__ = ["frame_of"]

MAX_RECORD_FIELDS = 500
SEEN_RECORDS = 1_000
PLANE = 2


def frame_of(value: Any) -> Frame | None:
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
