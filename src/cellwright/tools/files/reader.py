"""The process that reads one file of anybody's making and ends: the file on standard input, a digest on standard output.

It has no network, opens no file but that one, and has time and memory up to a limit; ``digests`` starts it. Run as
``python -m cellwright.tools.files.reader ORDER``.
"""

from __future__ import annotations

import ast
import codecs
import io
import os
import resource
import sqlite3
import struct
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import msgspec

from cellwright.errors import CellwrightError, ChartRefused, FileUnreadable, MissingExtra
from cellwright.tools import _json_outline
from cellwright.tools.files import _duckdb_frames
from cellwright.tools.files._reader_wire import Answer, Order
from cellwright.tools.files.kinds import HEAD_BYTES, FileKind, kind_of_file
from cellwright_kernel.confinement import confine
from cellwright_kernel.digests import cut
from cellwright_kernel.frames import Extent, Field, Frame, unique_names
from cellwright_kernel.tabledigests import MAX_NAME, frame_digest, value_text
from cellwright_kernel.tables import Table, count_missing, kind_of, label

_PATH = "/proc/self/fd/0"

_MOST_HELD = 128 << 20

_MOST_JSON = 64 << 20

_SHOWN_COLUMNS = 40

_CSV_ENCODINGS = {
    "utf-8": "utf-8",
    "utf-8-sig": "utf-8",
    "utf-16": "utf-16",
    "cp1252": "latin-1",
    "latin-1": "latin-1",
}


def main() -> None:
    """Read what is ordered."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    # A second between the two: by the first of them it can be told what ended this.
    resource.setrlimit(resource.RLIMIT_CPU, (order.cpu_s, order.cpu_s + 1))
    confine(order.memory_bytes, files=[_PATH])
    with answers:
        answers.write(msgspec.json.encode(_answer(order)))


def _answer(order: Order) -> Answer:
    try:
        with open(0, "rb", closefd=False) as file:  # a descriptor
            head = file.read(HEAD_BYTES)
            kind = kind_of_file(order.name, head)
            file.seek(0)
            return _read(order, kind, head, file)
    except MissingExtra as error:
        return Answer(error=error.message, hint=error.hint)
    except CellwrightError as error:
        return Answer(error=f"{order.name}: {error.message}", hint=error.hint)
    except MemoryError:
        return Answer(
            error=f"{order.name}: there is not enough memory to look at it", hint="Read it in code, by parts"
        )
    except Exception as error:  # noqa: BLE001  # boundary: whatever a library meets in a hostile file
        return Answer(error=f"{order.name}: {type(error).__name__}: {str(error)[:200]}")


def _read(order: Order, kind: FileKind, head: bytes, file: BinaryIO) -> Answer:
    lie = f"despite its name it is: {kind.called}" if kind.contradicts else ""
    match kind.form:
        case "csv":
            answer = _table_or_text(order, kind, head, file)
        case "jsonl":
            answer = _paged(order, kind, _json_lines(file))
        case "json":
            answer = _json(order, kind, head, file)
        case "parquet":
            answer = _paged(order, kind, _parquet(), (lie,) if lie else ())
        case "excel":
            answer = _excel(order, kind, file)
        case "text":
            answer = _text(order, kind, head, file, lie)
        case "image" | "binary":
            answer = _described(kind, head, file, lie)
    return answer


def _excel(order: Order, kind: FileKind, file: BinaryIO) -> Answer:
    frame, names = excel_frame(_held(file), order.sheet)
    shown = order.sheet or (names[0] if names else "")
    others = f"; sheet= reads another: {', '.join(map(repr, names[:20]))}" if len(names) > 1 else ""
    return _paged(order, kind, frame, (f"sheet {shown!r}{others}",))


def _table_or_text(order: Order, kind: FileKind, head: bytes, file: BinaryIO) -> Answer:
    encoding = encoding_of(head)
    if not head.strip():
        return Answer("(empty)", kind.form, kind.called, total=0)
    try:
        frame = _csv(order, encoding, file, tabs=kind.called == "TSV")
    except FileUnreadable as error:
        file.seek(0)
        return _text(order, FileKind("text", "text"), head, file, f"no table: {error.message}")
    notices = () if encoding.startswith("utf-8") else (f"encoding {encoding}",)
    return _paged(order, kind, frame, notices)


def _csv(order: Order, encoding: str, file: BinaryIO, *, tabs: bool) -> Frame:
    if _has_duckdb() and encoding in _CSV_ENCODINGS:
        return _duckdb_frames.csv_frame(_PATH, encoding=_CSV_ENCODINGS[encoding], tabs=tabs)
    return csv_frame(_held(file), order.name, encoding=encoding)


def _parquet() -> Frame:
    try:
        return _duckdb_frames.parquet_frame(_PATH)
    except ImportError as error:
        raise MissingExtra("Parquet", error, extra="files") from None


def _json_lines(file: BinaryIO) -> Frame:
    if _has_duckdb():
        try:
            return _duckdb_frames.lines_frame(_PATH)
        except FileUnreadable:
            file.seek(0)
    values = _json_outline.parsed_lines(_held(file).decode("utf-8-sig", "replace"))
    records = [value if isinstance(value, dict) else {"value": value} for value in values]
    return records_frame(records, "JSON Lines")


def _json(order: Order, kind: FileKind, head: bytes, file: BinaryIO) -> Answer:
    content = _held(file, _MOST_JSON)
    text = content.decode(encoding_of(head), "replace")
    try:
        value = _json_outline.parsed_json(text)
    except FileUnreadable as error:
        if "Extra data" not in error.message:
            raise
        value = _json_outline.parsed_lines(text)
    records = _json_outline.records_in(value)
    if records is not None:
        return _paged(order, kind, records_frame(records, "JSON records"))
    shape = _json_outline.outline(value) if order.offset == 0 else ""
    pretty = _pretty(value)
    lines = pretty.split("\n")
    chosen = [cut_line(line) for line in lines[order.offset : order.offset + order.limit]]
    page, shown = _fitting(chosen, order.max_characters - len(shape))
    return _page_answer(order, kind, [shape, *page], shown, len(lines))


def _pretty(value: Any) -> str:
    import json  # of the standard library; not needed elsewhere

    return json.dumps(value, ensure_ascii=False, indent=1)


def _text(order: Order, kind: FileKind, head: bytes, file: BinaryIO, notice: str) -> Answer:
    encoding = encoding_of(head)
    found = read_lines(
        file, encoding, offset=order.offset, limit=order.limit, max_characters=order.max_characters
    )
    about = [
        part for part in (notice, "" if encoding.startswith("utf-8") else f"encoding {encoding}") if part
    ]
    total = "?" if found.total is None else f"{found.total:,}"
    head_line = f"{kind.called}, {total} lines" + (f" ({'; '.join(about)})" if about else "")
    return _page_answer(order, kind, [head_line, found.text], found.shown, found.total)


def _described(kind: FileKind, head: bytes, file: BinaryIO, lie: str) -> Answer:
    lines = [kind.called + (f" ({lie})" if lie else "")]
    if kind.form == "image" and (size := picture_size(head, file)) is not None:
        lines[0] += f", {size[0]:,} \u00d7 {size[1]:,} pixels"
    file.seek(0)
    lines += described(kind.called, file, _PATH)
    return Answer("\n".join(lines), kind.form, kind.called)


def _paged(order: Order, kind: FileKind, frame: Frame, notices: Sequence[str] = ()) -> Answer:
    """A digest of the whole at its beginning, and a page of rows."""
    lines: list[str] = []
    if order.offset == 0:
        lines.append(frame_digest(frame, rows_shown=0, counted=True))
        lines += [f"note: {notice}" for notice in (*notices, *frame.notices)]
    stop = min(order.offset + order.limit, frame.total_rows)
    shown = list(range(min(len(frame.fields), _SHOWN_COLUMNS)))
    rows = range(order.offset, max(stop, order.offset))
    taken = frame.take(rows, shown)
    header = " | ".join(cut(frame.fields[number].name, MAX_NAME) for number in shown)
    texts = [" | ".join(value_text(value) for value in row) for row in zip(*taken, strict=True)]
    capacity = order.max_characters - sum(map(len, lines)) - len(header)
    page, count = _fitting(texts, capacity)
    if count:
        lines += [f"rows {order.offset:,}…{order.offset + count - 1:,}: {header}", *page]
    return _page_answer(order, kind, lines, count, frame.total_rows)


def _page_answer(order: Order, kind: FileKind, lines: list[str], shown: int, total: int | None) -> Answer:
    end = order.offset + shown
    more = end if shown and (total is None or end < total) else None
    return Answer("\n".join(line for line in lines if line), kind.form, kind.called, more, total)


def _fitting(lines: list[str], capacity: int) -> tuple[list[str], int]:
    """As many of the first as there is room for, but one at least."""
    kept: list[str] = []
    for line in lines:
        capacity -= len(line) + 1
        if capacity < 0 and kept:
            break
        kept.append(line)
    return kept, len(kept)


def _held(file: BinaryIO, most: int = _MOST_HELD) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise FileUnreadable(f"it is larger than {most:,} bytes", hint="Read it in code, by parts")
    return content


def _has_duckdb() -> bool:
    try:
        import duckdb  # noqa: F401  # an extra
    except ImportError:
        return False
    return True


# Text files by the line, in whatever encoding: some lines with their numbers, and where to go on.

MAX_LINE = 2_000

_CHUNK = 65_536

_COUNTED_BYTES = 512 << 20

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines, and how many there are in all; ``None`` where nobody went so far."""

    text: str
    shown: int
    total: int | None


def encoding_of(head: bytes) -> str:
    """How the text that begins like this is encoded: by its mark, else UTF-8 if it can be, else a guess."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if head.count(0) > len(head) // 4:
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    try:
        # The last character may be cut in two.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        # What Windows wrote; the few bytes that mean nothing there are letters of ISO 8859-1.
        return "cp1252" if not any(byte in head for byte in b"\x81\x8d\x8f\x90\x9d") else "latin-1"
    return "utf-8"


def read_lines(file: BinaryIO, encoding: str, *, offset: int, limit: int, max_characters: int) -> Lines:
    """At most ``limit`` lines from a line on, as many as there is room for, each with its number from 1 on."""
    reader = io.TextIOWrapper(file, encoding, errors="replace", newline=None)
    kept: list[str] = []
    number, capacity, full = 0, max_characters, False
    while (line := reader.readline(_CHUNK)) != "":
        rest = 0
        while not line.endswith("\n") and (more := reader.readline(_CHUNK)):
            # A line may be as long as the file: its beginning will do.
            rest += len(more.rstrip("\n"))
            line = line if not more.endswith("\n") else f"{line}\n"
        if number >= offset and not full:
            shown = _numbered(number + 1, line.rstrip("\n"), rest)
            capacity -= len(shown) + 1
            full = len(kept) >= limit or (capacity < 0 and bool(kept))
            if not full:
                kept.append(shown)
        number += 1
        if full and file.tell() > _COUNTED_BYTES:
            return Lines("\n".join(kept), len(kept), None)
    return Lines("\n".join(kept), len(kept), number)


def _numbered(number: int, line: str, rest: int) -> str:
    return f"{number:>6}\t{cut_line(line, rest)}"


def cut_line(line: str, rest: int = 0) -> str:
    """A line's beginning, which may be all of it; ``rest`` counts the characters that it has besides."""
    if len(line) + rest <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]}… ({len(line) + rest - MAX_LINE:,} more characters)"


# What can be said of a file that is no text: size of a picture, contents of an archive, tables of a
# database.

_MOST_LISTED = 30

_MOST_TABLES = 30

_LONGEST_NAME = 120

_NPY_HEAD = 10

# Those of 0xC0 to 0xCF that begin a frame, whatever its coding.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def described(called: str, file: BinaryIO, path: str) -> list[str]:
    """Lines about a file; ``path`` is for a library that must open it itself.

    What is broken is said, since the head of a broken file looks like that of a good one.
    """
    describe = {
        "ZIP archive": _zip,
        "tar archive": _tar,
        "SQLite database": lambda _: _sqlite(path),
        "NumPy array": _numpy,
    }.get(called)
    if describe is None:
        return []
    try:
        return list(describe(file))
    except (
        OSError,
        ValueError,
        EOFError,
        SyntaxError,
        NotImplementedError,
        zipfile.BadZipFile,
        tarfile.TarError,
        sqlite3.Error,
        struct.error,
    ) as error:
        return [f"it is broken: {type(error).__name__}: {str(error)[:200]}"]


def picture_size(head: bytes, file: BinaryIO) -> tuple[int, int] | None:
    """Width and height of a picture, by its head."""
    if head.startswith(b"\x89PNG") and head[12:16] == b"IHDR":
        return struct.unpack(">II", head[16:24])
    if head.startswith(b"GIF8"):
        return struct.unpack("<HH", head[6:10])
    if head.startswith(b"BM"):
        width, height = struct.unpack("<ii", head[18:26])
        return width, abs(height)
    if head[8:12] == b"WEBP":
        return _webp(head)
    if head.startswith(b"\xff\xd8"):
        return _jpeg(file)
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _jpeg(file: BinaryIO) -> tuple[int, int] | None:
    """The frame's segment says it; the ones before it are stepped over."""
    file.seek(2)
    for _ in range(1_000):
        mark = file.read(4)
        if len(mark) < 4 or mark[0] != 0xFF:  # a marker and a length
            return None
        if mark[1] in _JPEG_FRAMES:
            _, height, width = struct.unpack(">BHH", file.read(5))
            return width, height
        file.seek(int.from_bytes(mark[2:], "big") - 2, 1)
    return None


def _zip(file: BinaryIO) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        yield f"{len(parts):,} entries, {unpacked:,} bytes unpacked"
        for part in parts[:_MOST_LISTED]:
            yield f"{part.file_size:>12,}  {_shown(part.filename)}"
        if len(parts) > _MOST_LISTED:
            yield f"… {len(parts) - _MOST_LISTED:,} more entries"


def _tar(file: BinaryIO) -> Iterator[str]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        found = list(islice(archive, _MOST_LISTED + 1))
    for member in found[:_MOST_LISTED]:
        yield f"{member.size:>12,}  {_shown(member.name)}"
    if len(found) > _MOST_LISTED:
        yield "… and more entries"


def _sqlite(path: str) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        named = database.execute(
            "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name LIMIT ?",
            (_MOST_TABLES + 1,),
        ).fetchall()
    for name, kind, made_by in named[:_MOST_TABLES]:
        yield f"{kind} {_shown(str(name))}: {_shown(str(made_by))}"
    if len(named) > _MOST_TABLES:
        yield "… and more tables"


def _numpy(file: BinaryIO) -> Iterator[str]:
    file.seek(0)
    head = file.read(_NPY_HEAD)
    # The length of what follows takes two bytes more since version 2.
    length = int.from_bytes(head[8:10] if head[6] == 1 else head[8:10] + file.read(2), "little")
    about = ast.literal_eval(file.read(min(length, 10_000)).decode("latin-1"))
    yield f"shape {about['shape']}, dtype {about['descr']}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    kept = line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in kept)


# Tables that are held whole: Excel sheets, JSON records, and CSV where DuckDB is not installed. As frames.

_MOST_UNPACKED = 400 << 20

_MOST_PACKED_RATIO = 200

_MOST_CELLS = 20_000_000


def csv_frame(content: bytes, name: str, *, encoding: str) -> Frame:
    """A CSV file by the standard library."""
    # What charts read and what is read here is one thing.
    from cellwright.charts.data_files import read_table  # not where DuckDB is there

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
        import python_calamine as calamine  # an extra
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
    return _held_whole(called, fields, held, table.notices)


def _of_columns(called: str, titles: Sequence[str], columns: list[list[Any]]) -> Frame:
    kinds = [kind_of(column) for column in columns]
    names = unique_names(label(title) for title in titles)
    fields = tuple(Field(name, kind, kind) for name, kind in zip(names, kinds, strict=True))
    return _held_whole(called, fields, columns)


def _held_whole(
    called: str, fields: tuple[Field, ...], columns: list[list[Any]], notices: tuple[str, ...] = ()
) -> Frame:
    total = len(columns[0]) if columns else 0

    def take(rows: range, numbers: Sequence[int]) -> list[list[Any]]:
        return [columns[number][rows.start : rows.stop : rows.step] for number in numbers]

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


if __name__ == "__main__":
    main()
