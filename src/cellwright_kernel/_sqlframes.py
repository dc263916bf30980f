"""Finds the tables of a session for SQL, and hands them to DuckDB. Looks at types by name and imports nothing for that.

Which of them a statement uses is ``sql``'s. What a value looks like to people is ``frames``'s.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "columns_of",
    "find",
    "index_of",
    "is_records",
    "is_table",
    "library_for_frames",
    "load",
    "tables_in",
    "to_duckdb",
]

_mro_of: Any = type.__dict__["__mro__"].__get__
_module_of: Any = type.__dict__["__module__"].__get__

# Their own name for themselves: a module is where a type is defined, not where it is found.
_TABLES = frozenset(
    {
        ("pandas", "DataFrame"),
        ("pandas", "Series"),
        ("polars", "DataFrame"),
        ("polars", "LazyFrame"),
        ("polars", "Series"),
        ("pyarrow", "Table"),
        ("pyarrow", "RecordBatch"),
        ("pyarrow", "RecordBatchReader"),
        ("pyarrow", "Dataset"),
        ("duckdb", "DuckDBPyRelation"),
    }
)
_MOST_DIMENSIONS = 2
_FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")


def is_table(value: Any) -> bool:
    """Whether SQL can read it by name."""
    if type(value) is list:
        return is_records(value)
    return _is_array(value) or bool(_names_of(value) & _TABLES)


def is_records(value: Any) -> bool:
    """Whether it is a list of dicts with texts for keys."""
    return (
        type(value) is list
        and bool(value)
        and all(type(row) is dict and all(type(key) is str for key in row) for row in value)
    )


def index_of(names: Iterable[Any]) -> dict[str, list[str]]:
    """Names by what SQL takes them for: case makes no difference to it."""
    found: dict[str, list[str]] = {}
    for name in list(names):
        if type(name) is str:
            found.setdefault(name.casefold(), []).append(name)
    return found


def find(name: str, index: Mapping[str, list[str]]) -> str | None:
    """Which one SQL means by a name: the very one, or the only one that differs in case."""
    alike = index.get(name.casefold(), [])
    if name in alike:
        return name
    return alike[0] if len(alike) == 1 else None


def tables_in(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that are tables."""
    return [
        name
        for name, value in list(namespace.items())
        if type(name) is str and not name.startswith("_") and is_table(value)
    ]


def to_duckdb(value: Any) -> Any:
    """The same in a form that DuckDB can be given.

    Raises:
        TypeError: no library is there that could turn it into one.
    """
    if type(value) is list:
        return _from_records(value)
    names = _names_of(value)
    if ("duckdb", "DuckDBPyRelation") in names:
        # It belongs to another connection, which alone can read it.
        return value.to_arrow_table() if load("pyarrow") else value.df()
    if ("polars", "Series") in names:
        return value.to_frame()
    if ("pandas", "Series") in names:
        return value.to_frame("value" if value.name is None else str(value.name))
    if _is_array(value) and value.dtype.names:
        return {name: value[name].copy() for name in value.dtype.names}
    return value


def columns_of(value: Any) -> list[str]:
    """The names of a table's columns."""
    if type(value) is list:
        return list(_union_of_keys(value))
    if _is_array(value):
        return list(value.dtype.names or ())
    names = _names_of(value)
    if names & {("pandas", "Series"), ("polars", "Series")}:
        return [str(value.name)] if value.name else []
    if ("polars", "LazyFrame") in names:
        return list(value.collect_schema().names())
    if any(library == "pyarrow" for library, _ in names):
        return list(value.schema.names)
    return [str(column) for column in value.columns]


def library_for_frames() -> str | None:
    """The library whose frames results are: the first that is there."""
    return next((name for name in _FRAME_LIBRARIES if load(name)), None)


def _from_records(rows: list[dict[str, Any]]) -> Any:
    columns = {key: [row.get(key) for row in rows] for key in _union_of_keys(rows)}
    arrow = load("pyarrow")
    if arrow is not None:
        try:
            return arrow.table(columns)
        except (arrow.ArrowException, OverflowError):
            pass  # values of several types in a column, which pandas holds and DuckDB then widens
    pandas = load("pandas")
    if pandas is None:
        raise TypeError("A list of records is a table only where pyarrow or pandas is installed")
    return pandas.DataFrame(columns, dtype=object)


def _union_of_keys(rows: list[dict[str, Any]]) -> dict[str, None]:
    return dict.fromkeys(key for row in rows for key in row)


def _names_of(value: Any) -> set[tuple[str, str]]:
    """The library and name of each class that it is an instance of."""
    found = set()
    for kind in _mro_of(type(value)):
        module = _module_of(kind)
        if type(module) is str:
            found.add((module.partition(".")[0].lstrip("_"), kind.__name__))
    return found


def _is_array(value: Any) -> bool:
    if ("numpy", "ndarray") not in _names_of(value):
        return False
    if value.dtype.names:
        return bool(value.ndim == 1)
    return bool(0 < value.ndim <= _MOST_DIMENSIONS)


def load(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        return None
