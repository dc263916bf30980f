"""Values that pass between the languages of a notebook, by name: files below ``.cellwright/values``.

``put("sales", frame)`` here, ``await cellwright.get("sales")`` in TypeScript, ``FROM sales`` in SQL, and the other way
round. The working directory is what all kernels of a session share.

::

    <name>.json    {"version": 1, "kind": "value", "value": …} or {"version": 1, "kind": "table", "table": …}
    <name>.arrow   the same table as an Arrow stream, where it could be written; read unless the other is newer

How a frame becomes either stands in ``values``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import os
import tempfile
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cellwright_kernel import _sqlframes
from cellwright_kernel._sqlframes import library_for_frames, load
from cellwright_kernel.digests import type_name
from cellwright_kernel.frames import frame_of, table_of
from cellwright_kernel.tables import Table

__all__ = ["get", "names"]
PLACE = Path(".cellwright", "values")

VERSION = 1

MAX_BYTES = 100_000_000

MAX_NAME = 100

MAX_DEPTH = 200


def put(name: str, value: Any) -> None:
    """Keep a value for the other languages of this notebook, in place of the one of that name.

    Frames pass as tables; numbers, texts, None, lists and dicts as they are; dates as ISO 8601 texts.

    Raises:
        ValueError: the name is no identifier, or the value is too large, cyclic or too deep.
        TypeError: some part of it cannot pass; the message says which.
    """
    json_path, arrow_path = _paths(name)
    if _sqlframes.is_table(value) and not _sqlframes.is_records(value) and not _is_plain_array(value):
        held = {"kind": "table", "table": to_table(value).to_wire()}
        write_arrow = arrow_writer(_sqlframes.to_duckdb(value))
    else:
        plainly = _Plain()
        held = {"kind": "value", "value": plainly.made(value, "value")}
        plainly.warn()
        write_arrow = None
    text = json.dumps(
        {"version": VERSION, **held}, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_BYTES:
        raise ValueError(
            f"{name} takes {len(data):,} bytes, and {MAX_BYTES:,} can pass: write it to a file instead"
        )
    json_path.parent.mkdir(parents=True, exist_ok=True)
    _write(json_path, lambda path: path.write_bytes(data))
    if write_arrow is None:
        arrow_path.unlink(missing_ok=True)
    else:
        # After the other, so that it is not the older of the two.
        _write(arrow_path, write_arrow)


def get(name: str) -> Any:
    """The value of that name: a frame where it is a table.

    Raises:
        LookupError: there is none.
        ValueError: its file is not one of ours.
    """
    json_path, arrow_path = _paths(name)
    try:
        written_ns = json_path.stat().st_mtime_ns
    except FileNotFoundError:
        raise LookupError(_missing(name)) from None
    with contextlib.suppress(FileNotFoundError):
        if arrow_path.stat().st_mtime_ns >= written_ns:
            frame = from_arrow(arrow_path)
            if frame is not None:
                return frame
    try:
        held = json.loads(json_path.read_bytes())
        if held["kind"] == "table":
            return from_table(Table.from_wire(held["table"]))
        return held["value"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{PLACE / json_path.name} holds no value ({error}): put it anew") from None


def names() -> list[str]:
    """The names of all values that there are."""
    with contextlib.suppress(OSError):
        files = os.listdir(PLACE)  # names only
        stems = [file.removesuffix(".json") for file in files if file.endswith(".json")]
        return sorted(stem for stem in stems if stem.isidentifier())
    return []


def _paths(name: str) -> tuple[Path, Path]:
    if type(name) is not str or not name.isidentifier() or len(name) > MAX_NAME:
        raise ValueError(
            f"{name!r} is no name for a value: letters, digits and _ make one, as for a variable"
        )
    # Absolute: whoever runs meanwhile may change the directory.
    place = Path.cwd() / PLACE
    return place / f"{name}.json", place / f"{name}.arrow"


def _missing(name: str) -> str:
    known = names()
    close = get_close_matches(name, known, 3)
    if close:
        return f"There is no value {name!r}. Did you mean {' or '.join(close)}?"
    return (
        f"There is no value {name!r}. There {'are ' + ', '.join(known[:20]) if known else 'is none at all'}."
    )


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    """Whole or not at all."""
    descriptor, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    os.close(descriptor)
    fresh = Path(name)
    try:
        write(fresh)
        fresh.chmod(0o644)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _is_plain_array(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return type(value).__module__ == "numpy" and dtype is not None and not dtype.names


class _Plain:
    """Makes JSON values of what can be one, and remembers what it had to leave out."""

    def __init__(self) -> None:
        self._missing: list[str] = []
        self._above: set[int] = set()

    def made(self, value: Any, part: str) -> Any:
        """The same as JSON has it; ``part`` is what an error calls it."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return self._number(value, part)
        if kind in (dict, list, tuple):
            return self._container(value, part)
        if isinstance(value, (dt.date, dt.time)):
            # What pandas calls not a time is one, too, and is not itself.
            return value.isoformat() if value == value else None
        if kind.__module__ == "numpy" and hasattr(value, "tolist"):
            return self.made(value.tolist(), part)
        raise TypeError(f"{part} is of type {type_name(kind)}, which cannot pass to another language")

    def _number(self, value: float, part: str) -> float | None:
        if math.isfinite(value):
            return value
        self._missing.append(part)
        return None

    def _container(self, value: Any, part: str) -> Any:
        if id(value) in self._above:
            raise ValueError(f"{part} contains itself")
        if len(self._above) >= MAX_DEPTH:
            raise ValueError(f"{part} lies more than {MAX_DEPTH} levels deep")
        self._above.add(id(value))
        try:
            if type(value) is not dict:
                return [self.made(item, f"{part}[{place}]") for place, item in enumerate(value)]
            strange = next((key for key in value if type(key) is not str), None)
            if strange is not None:
                raise TypeError(f"{part} has the key {strange!r}: only texts can be keys in every language")
            return {key: self.made(item, f"{part}.{key}") for key, item in value.items()}
        finally:
            self._above.discard(id(value))

    def warn(self) -> None:
        """Say what became None."""
        if self._missing:
            rest = f" and {len(self._missing) - 1} more" if len(self._missing) > 1 else ""
            warnings.warn(
                f"{self._missing[0]}{rest} had no finite number and passes as null", UserWarning, stacklevel=3
            )


# Frames as the tables and Arrow streams that pass between languages, and back. Where they lie is
# ``values``'.

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
    assert table is not None  # a frame is one
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
