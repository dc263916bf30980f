"""Frames as the tables and Arrow streams that pass between languages, and back. Where they lie is ``values``'."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellwright_kernel.sqlframes import library_for_frames, load
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

__all__ = ["arrow_writer", "from_arrow", "from_table", "to_table"]

MAX_CELLS = 20_000_000


def to_table(frame: Any) -> Table:
    """All rows of a frame.

    Raises:
        ValueError: there are too many.
    """
    columns = _columns(frame)
    held = [[_scalar(value) for value in values] for values in columns.values()]
    total = len(held[0]) if held else 0
    if total * len(held) > MAX_CELLS:
        raise ValueError(
            f"A table of {total:,} rows and {len(held)} columns is too large: write it to a file instead"
        )
    told = tuple(
        Column(name, _kind(values), missing=sum(value is None for value in plain))
        for (name, values), plain in zip(columns.items(), held, strict=True)
    )
    return Table(told, tuple(zip(*held, strict=True)), total)


def from_table(table: Table) -> Any:
    """A frame of the library that is there; a list of records where there is none."""
    columns: dict[str, list[Any]] = {
        column.name: [_time(row[place]) if column.kind == "time" else row[place] for row in table.rows]
        for place, column in enumerate(table.columns)
    }
    library = library_for_frames()
    if library == "pyarrow":
        return load(library).table(columns)
    if library is not None:
        return load(library).DataFrame(columns)
    return [dict(zip(table.names, row, strict=True)) for row in table.rows]


def arrow_writer(frame: Any) -> Callable[[Path], None] | None:
    """What writes a frame as an Arrow stream; None where nothing here can."""
    if type(frame).__module__.startswith("polars"):
        whole = frame.collect() if hasattr(frame, "collect") else frame

        def write_polars(path: Path) -> None:
            whole.write_ipc_stream(path)

        return write_polars
    arrow = load("pyarrow")
    if arrow is None:
        return None
    try:
        table = _arrow_table(arrow, frame)
    except (arrow.ArrowException, TypeError, ValueError):
        return None  # values of several types in a column: the other file has them

    def write(path: Path) -> None:
        with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)

    return write


def from_arrow(path: Path) -> Any:
    """A frame from an Arrow stream; None where nothing here can read one."""
    library = library_for_frames()
    arrow = load("pyarrow")
    if library == "polars":
        return load(library).read_ipc_stream(path)
    if arrow is None:
        return None
    with contextlib.suppress(arrow.ArrowException), arrow.OSFile(str(path), "rb") as source:
        table = arrow.ipc.open_stream(source).read_all()
        return table.to_pandas() if library == "pandas" else table
    return None


def _arrow_table(arrow: Any, frame: Any) -> Any:
    if isinstance(frame, dict):
        return arrow.table(frame)
    if type(frame).__module__.startswith("pandas"):
        return arrow.Table.from_pandas(frame)
    if isinstance(frame, arrow.RecordBatch):
        return arrow.Table.from_batches([frame])
    if isinstance(frame, arrow.Table):
        return frame
    raise TypeError(type(frame).__name__)


def _columns(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, dict):
        return {name: held.tolist() for name, held in frame.items()}
    if hasattr(frame, "collect"):
        frame = frame.collect()
    if hasattr(frame, "to_pydict"):
        found: dict[str, list[Any]] = frame.to_pydict()
        return found
    if hasattr(frame, "to_dict") and type(frame).__module__.startswith("polars"):
        return {name: held.to_list() for name, held in frame.to_dict().items()}
    if hasattr(frame, "items"):
        return {str(name): held.tolist() for name, held in frame.items()}
    raise TypeError(f"A {type(frame).__name__} cannot pass to another language: turn it into a frame")


def _kind(values: list[Any]) -> ColumnKind:
    kinds = {_kind_of(value) for value in values if _scalar(value) is not None}
    return kinds.pop() if len(kinds) == 1 else "other"


def _kind_of(value: Any) -> ColumnKind:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, (dt.date, dt.time)):
        return "time"
    return "text" if isinstance(value, str) else "other"


def _scalar(value: Any) -> Value:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value != value:  # noqa: PLR0124  # what pandas calls not a time
        return None
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return None if type(value).__name__ == "NAType" else str(value)


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    for kind in (dt.datetime, dt.time):
        with contextlib.suppress(ValueError):
            return kind.fromisoformat(value)
    return value
