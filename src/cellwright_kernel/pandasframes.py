"""DataFrames and Series of pandas as frames: an index that is more than row numbers comes first, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellwright_kernel.arrays import array_extent, kind_of_letter
from cellwright_kernel.digests import dtype_name
from cellwright_kernel.framefields import Extent, Field, Frame, unique_names
from cellwright_kernel.genuine import is_genuine, is_of
from cellwright_kernel.scalars import count_missing, label
from cellwright_kernel.tables import ColumnKind

__all__ = ["frame_of"]


def frame_of(value: Any) -> Frame | None:
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
