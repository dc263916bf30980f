"""Tables that are held whole: Excel sheets, JSON records, and CSV where DuckDB is not installed. As frames.

Runs in the process that reads (see ``reader``), whose memory is limited; knows no descriptors.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

from cellwright.errors import ChartRefused, FileUnreadable, MissingExtra
from cellwright_kernel.framefields import Extent, Field, Frame, unique_names
from cellwright_kernel.scalars import count_missing, kind_of, label
from cellwright_kernel.tables import Table

__all__ = ["csv_frame", "excel_frame", "records_frame"]

_MOST_UNPACKED = 400 << 20
_MOST_PACKED_RATIO = 200
_MOST_CELLS = 20_000_000


def csv_frame(content: bytes, name: str, *, encoding: str) -> Frame:
    """A CSV file by the standard library."""
    # What charts read and what is read here is one thing.
    from cellwright.charts.data_files import read_table  # noqa: PLC0415  # not where DuckDB is there

    text = content.decode(encoding, "replace")
    try:
        return _of_table(
            "CSV", read_table(text.encode(), f"{name.rpartition('.')[0] or name}.{_ending(name)}")
        )
    except ChartRefused as error:
        raise FileUnreadable("; ".join(error.problems).removeprefix(f"{name}: ")) from None


def records_frame(records: Sequence[dict[str, Any]], called: str) -> Frame:
    """Objects of JSON, one a row."""
    titles = list(dict.fromkeys(key for record in records for key in record))
    return _of_columns(called, titles, [[record.get(title) for record in records] for title in titles])


def excel_frame(content: bytes, sheet: str | None) -> tuple[Frame, list[str]]:
    """One sheet of a workbook, the first unless it is named, and the names of all.

    Raises:
        FileUnreadable: it is no workbook, unpacks to more than is sensible, or has no such sheet.
        MissingExtra: what reads it is not installed.
    """
    _refuse_bomb(content)
    try:
        import python_calamine as calamine  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtra("Excel", error, extra="files") from None
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        names = list(workbook.sheet_names)
        if not names:
            raise FileUnreadable("it has no sheets")
        if sheet is not None and sheet not in names:
            raise FileUnreadable(f"it has no sheet {sheet!r}; it has {', '.join(names[:20])}")
        found = workbook.get_sheet_by_name(sheet or names[0])
        if found.total_height * found.total_width > _MOST_CELLS:
            raise FileUnreadable(
                f"{found.total_height:,} \u00d7 {found.total_width:,} cells are too many to look at"
            )
        rows = found.to_python(skip_empty_area=True)
    except (calamine.CalamineError, ValueError, OSError) as error:
        raise FileUnreadable(f"it is no Excel workbook that can be read: {str(error)[:200]}") from None
    return _of_rows(rows), names


def _refuse_bomb(content: bytes) -> None:
    """Refuse what says of itself that it unpacks to very much; what lies meets the limit on memory."""
    if not content.startswith(b"PK"):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise FileUnreadable(f"it is no Excel workbook that can be read: {error}") from None
    if unpacked > _MOST_UNPACKED or unpacked > _MOST_PACKED_RATIO * max(len(content), 1 << 16):
        raise FileUnreadable(
            f"it unpacks from {len(content):,} to {unpacked:,} bytes, which looks like a bomb"
        )


def _of_rows(rows: list[list[Any]]) -> Frame:
    """A sheet: its first row names the columns."""
    if not rows:
        return _of_columns("Excel", [], [])
    header, *body = rows
    titles = [
        label(title) if title not in ("", None) else f"column {place + 1}"
        for place, title in enumerate(header)
    ]
    columns = [[None if row[place] == "" else row[place] for row in body] for place in range(len(titles))]
    return _of_columns("Excel", titles, [[_whole(value) for value in column] for column in columns])


def _whole(value: Any) -> Any:
    """A sheet knows no whole numbers; people who typed 3 mean 3."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _of_table(called: str, table: Table) -> Frame:
    held = [list(column) for column in zip(*table.rows, strict=True)] or [[] for _ in table.columns]
    fields = tuple(Field(column.name, column.kind, column.kind) for column in table.columns)
    return _held(called, fields, held, table.notices)


def _of_columns(called: str, titles: Sequence[str], columns: list[list[Any]]) -> Frame:
    kinds = [kind_of(column) for column in columns]
    names = unique_names(label(title) for title in titles)
    fields = tuple(Field(name, kind, kind) for name, kind in zip(names, kinds, strict=True))
    return _held(called, fields, columns)


def _held(
    called: str, fields: tuple[Field, ...], columns: list[list[Any]], notices: tuple[str, ...] = ()
) -> Frame:
    total = len(columns[0]) if columns else 0

    def take(rows: range, wanted: Sequence[int]) -> list[list[Any]]:
        return [columns[number][rows.start : rows.stop : rows.step] for number in wanted]

    def extent(number: int) -> Extent | None:
        values = [value for value in columns[number] if value is not None]
        try:
            return (
                (min(values), max(values)) if values and fields[number].kind in ("number", "time") else None
            )
        except TypeError:
            return None

    return Frame(
        called,
        fields,
        total,
        take,
        lambda number: count_missing(columns[number]),
        lambda number: columns[number],
        extent,
        notices,
    )


def _ending(name: str) -> str:
    ending = name.lower().rpartition(".")[2]
    return ending if ending in ("csv", "tsv", "tab") else "csv"
