"""CSV, JSON Lines and Parquet as frames, by DuckDB, from the one descriptor that it may open.

Streams: a file of any length is gone through as often as somebody asks, and never held. Runs in the process that
reads for one call; without the extra, ``reader`` does what it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cellwright.errors import FileUnreadable
from cellwright_kernel.frames import Extent, Field, Frame, unique_names
from cellwright_kernel.tables import ColumnKind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["csv_frame", "lines_frame", "parquet_frame"]

_MEMORY = "512MB"
_THREADS = 2
_MOST_COLUMNS = 2_000
_COUNTED_COLUMNS = 200
_LONGEST_RECORD = 16 << 20
_LONGEST_REASON = 300
_ORDERED: tuple[ColumnKind, ...] = ("number", "time")
_KINDS: dict[str, ColumnKind] = {"BOOLEAN": "bool", "VARCHAR": "text", "TIME": "text", "UUID": "text"}


def csv_frame(path: str, *, encoding: str, tabs: bool) -> Frame:
    """A CSV file; where its types or rows do not go together, as texts, with a notice."""
    options = [f"encoding={_quoted(encoding)}", "max_line_size=4000000"]
    if tabs:
        options.append("delim='\t'")
    looser = ["all_varchar=true", "null_padding=true", "strict_mode=false"]
    try:
        return _frame("CSV", f"read_csv({_quoted(path)}, {', '.join(options)})")
    except FileUnreadable as first:
        notice = f"read as text: {first.message}"
        frame = _frame("CSV", f"read_csv({_quoted(path)}, {', '.join([*options, *looser])})", (notice,))
        if frame.width == 1 and frame.total_rows > 1:
            raise
        return frame


def lines_frame(path: str) -> Frame:
    """A JSON Lines file."""
    options = f"format='newline_delimited', maximum_object_size={_LONGEST_RECORD}, maximum_depth=8"
    return _frame("JSON Lines", f"read_json({_quoted(path)}, {options})")


def parquet_frame(path: str) -> Frame:
    """A Parquet file."""
    return _frame("Parquet", f"read_parquet({_quoted(path)})")


def _connected() -> DuckDBPyConnection:
    import duckdb  # an extra

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": str(_THREADS),
        "memory_limit": _MEMORY,
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return duckdb.connect(":memory:", config=config)


def _frame(called: str, source: str, notices: tuple[str, ...] = ()) -> Frame:
    import duckdb  # as above

    connection = _connected()
    path = source.partition("'")[2].partition("'")[0]
    # Belt and braces: the kernel forbids other files, and DuckDB does not try.
    connection.execute(f"SET allowed_paths=[{_quoted(path)}]")
    connection.execute("SET enable_external_access=false")
    connection.execute("SET lock_configuration=true")
    try:
        return _counted(connection, called, source, notices)
    except (duckdb.Error, UnicodeError, ValueError, OverflowError) as error:
        raise FileUnreadable(f"it is no {called} that can be read: {_reason(error)}") from None


def _counted(connection: DuckDBPyConnection, called: str, source: str, notices: tuple[str, ...]) -> Frame:
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()  # noqa: S608  # quoted
    if len(described) > _MOST_COLUMNS:
        raise FileUnreadable(f"{len(described):,} columns are more than {_MOST_COLUMNS:,}")
    types = [str(row[1]) for row in described]
    held = [_name(str(row[0])) for row in described]
    fields = tuple(
        Field(name, _kind(kind), kind.lower())
        for name, kind in zip(unique_names(str(row[0]) for row in described), types, strict=True)
    )
    total, missing, extents = _figures(connection, source, held, fields)

    def take(rows: range, numbers: Sequence[int]) -> list[list[Any]]:
        if not numbers or not rows:
            return [[] for _ in numbers]
        chosen = ", ".join(held[number] for number in numbers)
        if rows.step == 1:
            query = f"SELECT {chosen} FROM {source} LIMIT {len(rows)} OFFSET {rows.start}"  # noqa: S608
        else:
            numbered = f"SELECT {chosen}, row_number() OVER () - 1 AS __row FROM {source}"  # noqa: S608
            query = f"SELECT * EXCLUDE (__row) FROM ({numbered}) WHERE __row % {rows.step} = 0"  # noqa: S608
        found = connection.execute(query).fetchall()
        return [[row[place] for row in found] for place in range(len(numbers))]

    return Frame(
        called,
        fields,
        total,
        take,
        lambda number: missing.get(number, 0),
        lambda number: take(range(total), [number])[0],
        extents.get,
        notices,
    )


def _figures(
    connection: DuckDBPyConnection, source: str, held: Sequence[str], fields: Sequence[Field]
) -> tuple[int, dict[int, int], dict[int, Extent]]:
    """How many rows there are, what is missing, least and greatest values: one pass over the whole file."""
    aggregates = ["count(*)"]
    counted = range(min(len(held), _COUNTED_COLUMNS))
    ordered = [number for number in counted if fields[number].kind in _ORDERED]
    aggregates += [f"count({held[number]})" for number in counted]
    aggregates += [f"{how}({held[number]})" for number in ordered for how in ("min", "max")]
    found = connection.execute(f"SELECT {', '.join(aggregates)} FROM {source}").fetchone()  # noqa: S608
    total, *rest = found or (0,)
    missing = {number: total - rest[number] for number in counted}
    pairs = rest[len(counted) :]
    extents = {
        number: (pairs[2 * place], pairs[2 * place + 1])
        for place, number in enumerate(ordered)
        if pairs[2 * place] is not None
    }
    return total, missing, extents


def _kind(name: str) -> ColumnKind | None:
    if name.startswith(("TIMESTAMP", "DATE")):
        return "time"
    if name.startswith("DECIMAL") or name.endswith(("INT", "INTEGER")) or name in ("FLOAT", "DOUBLE"):
        return "number"
    return _KINDS.get(name, "other")


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _reason(error: Exception) -> str:
    """What DuckDB says, without its advice about options that nobody here can give."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept: list[str] = []
    for line in lines:
        if line.startswith(("Possible ", "LINE ", "*", "Candidate")):
            break
        kept.append(line.replace("/proc/self/fd/0", "the file"))
    return " ".join(kept)[:_LONGEST_REASON] or type(error).__name__
