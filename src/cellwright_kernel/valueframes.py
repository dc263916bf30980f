"""Frames as the tables and Arrow streams that pass between languages, and back. Where they lie is ``values``'."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellwright_kernel.digests import type_name
from cellwright_kernel.framing import frame_of, table_of
from cellwright_kernel.sqlframes import library_for_frames, load
from cellwright_kernel.tables import Table

__all__ = ["arrow_writer", "from_arrow", "from_table", "to_table"]

MAX_CELLS = 20_000_000


def to_table(frame: Any) -> Table:
    """All rows of a frame.

    Raises:
        ValueError: there are too many.
        TypeError: it is of a kind that is no table elsewhere.
    """
    seen = frame_of(frame.collect() if hasattr(frame, "collect") else frame)
    if seen is None:
        raise TypeError(
            f"A {type_name(type(frame))} cannot pass to another language: turn it into a plain frame"
        )
    if seen.total_rows * len(seen.fields) > MAX_CELLS:
        rows, columns = seen.total_rows, len(seen.fields)
        raise ValueError(
            f"A table of {rows:,} rows and {columns:,} columns is too large: write it to a file instead"
        )
    table = table_of(seen, max_rows=None, sample="all", max_text=None)
    assert table is not None  # noqa: S101  # a frame is one
    return table


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


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    for kind in (dt.datetime, dt.time):
        with contextlib.suppress(ValueError):
            return kind.fromisoformat(value)
    return value
