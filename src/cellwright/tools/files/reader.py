"""The process that reads one file of anybody's making and ends: the file on standard input, a digest on standard output.

It has no network, opens no file but that one, and has time and memory up to a limit; ``reading`` starts it. Run as
``python -m cellwright.tools.files.reader ORDER``.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import msgspec

from cellwright.errors import CellwrightError, FileUnreadable, MissingExtra
from cellwright.tools import outlines
from cellwright.tools.files import binaries, ducked, plain
from cellwright.tools.files.kinds import HEAD_BYTES, FileKind, kind_of_file
from cellwright.tools.files.orders import Answer, Order
from cellwright.tools.files.texts import cut_line, encoding_of, read_lines
from cellwright_kernel.confinement import confine
from cellwright_kernel.digests import cut
from cellwright_kernel.framefields import Frame
from cellwright_kernel.tabledigests import MAX_NAME, frame_digest, value_text

__all__ = ["main"]

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
    frame, names = plain.excel_frame(_held(file), order.sheet)
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
        return ducked.csv_frame(_PATH, encoding=_CSV_ENCODINGS[encoding], tabs=tabs)
    return plain.csv_frame(_held(file), order.name, encoding=encoding)


def _parquet() -> Frame:
    try:
        return ducked.parquet_frame(_PATH)
    except ImportError as error:
        raise MissingExtra("Parquet", error, extra="files") from None


def _json_lines(file: BinaryIO) -> Frame:
    if _has_duckdb():
        try:
            return ducked.lines_frame(_PATH)
        except FileUnreadable:
            file.seek(0)
    values = outlines.parsed_lines(_held(file).decode("utf-8-sig", "replace"))
    records = [value if isinstance(value, dict) else {"value": value} for value in values]
    return plain.records_frame(records, "JSON Lines")


def _json(order: Order, kind: FileKind, head: bytes, file: BinaryIO) -> Answer:
    content = _held(file, _MOST_JSON)
    text = content.decode(encoding_of(head), "replace")
    try:
        value = outlines.parsed_json(text)
    except FileUnreadable as error:
        if "Extra data" not in error.message:
            raise
        value = outlines.parsed_lines(text)
    records = outlines.records_in(value)
    if records is not None:
        return _paged(order, kind, plain.records_frame(records, "JSON records"))
    shape = outlines.outline(value) if order.offset == 0 else ""
    pretty = _pretty(value)
    lines = pretty.split("\n")
    asked = [cut_line(line) for line in lines[order.offset : order.offset + order.limit]]
    page, shown = _fitting(asked, order.max_characters - len(shape))
    return _page_answer(order, kind, [shape, *page], shown, len(lines))


def _pretty(value: Any) -> str:
    import json  # noqa: PLC0415  # of the standard library; not needed elsewhere

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
    if kind.form == "image" and (size := binaries.picture_size(head, file)) is not None:
        lines[0] += f", {size[0]:,} \u00d7 {size[1]:,} pixels"
    file.seek(0)
    lines += binaries.described(kind.called, file, _PATH)
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
    told = [" | ".join(value_text(value) for value in row) for row in zip(*taken, strict=True)]
    room = order.max_characters - sum(map(len, lines)) - len(header)
    page, count = _fitting(told, room)
    if count:
        lines += [f"rows {order.offset:,}…{order.offset + count - 1:,}: {header}", *page]
    return _page_answer(order, kind, lines, count, frame.total_rows)


def _page_answer(order: Order, kind: FileKind, lines: list[str], shown: int, total: int | None) -> Answer:
    end = order.offset + shown
    more = end if shown and (total is None or end < total) else None
    return Answer("\n".join(line for line in lines if line), kind.form, kind.called, more, total)


def _fitting(lines: list[str], room: int) -> tuple[list[str], int]:
    """As many of the first as there is room for, but one at least."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0 and kept:
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
        import duckdb  # noqa: F401, PLC0415  # an extra
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
