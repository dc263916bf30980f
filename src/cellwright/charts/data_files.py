"""Data files to tables: CSV in the forms that are about, and JSON as records, columns, split or lines.

Opens nothing: it is given bytes. Says by line what it cannot read. Standard library only: a million rows of three
columns take about a second, most of which any other reader would spend on making the same values.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

from cellwright.charts._labels import looks_like_time, parse_times, quoted
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

__all__ = ["read_table"]
_DELIMITERS = (",", ";", "\t", "|")

_SNIFFED_ROWS = 20

_SNIFFED_CHARACTERS = 20_000

MAX_COLUMNS = 1_000


def read_table(content: bytes, name: str) -> Table:
    """Read a data file; its name tells what it is.

    Raises:
        ChartRefused: it cannot be read; the message has the line and the reason.
    """
    text = _decoded(content, name)
    ending = name.lower().rpartition(".")[2]
    if ending in ("json", "ndjson", "jsonl", "geojson"):
        return table_from_json(text, name)
    if ending in ("csv", "tsv", "txt", "tab"):
        return _table_from_csv(text, name, "\t" if ending in ("tsv", "tab") else None)
    if text.lstrip()[:1] in ("{", "["):
        return table_from_json(text, name)
    return _table_from_csv(text, name, None)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ChartRefused(
            f"{name}: line {line} is not UTF-8 (byte {error.start:,}); write the file with encoding='utf-8'"
        ) from None


def _table_from_csv(text: str, name: str, delimiter: str | None) -> Table:
    delimiter = delimiter or _delimiter_of(text)
    header, columns = _plain_columns(text, delimiter) or _quoted_columns(text, delimiter, name)
    if len(header) > MAX_COLUMNS:
        raise ChartRefused(f"{name}: {len(header):,} columns are more than {MAX_COLUMNS:,}")
    names, notices = _distinct(header)

    def line_of(row: int) -> int:
        return _line_of(text, delimiter, row + 1)

    typed = [
        text_column(title, column, line_of=line_of) for title, column in zip(names, columns, strict=True)
    ]
    return table_of(typed, notices)


def _plain_columns(text: str, delimiter: str) -> tuple[list[str], list[list[str]]] | None:
    """Columns of a file without quotes, whose rows are all alike; None for any other. Three times as fast as parsing."""
    if '"' in text or "\r" in text or "\0" in text:
        return None
    lines = [line for line in text.split("\n") if line]
    if not lines or len(set(map(str.count, lines, repeat(delimiter)))) != 1:
        return None
    header = lines[0].split(delimiter)
    fields = delimiter.join(lines).split(delimiter)
    return header, [fields[place + len(header) :: len(header)] for place in range(len(header))]


def _quoted_columns(text: str, delimiter: str, name: str) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise ChartRefused(f"{name}: line {reader.line_num:,}: {error}") from None
    if not rows:
        raise ChartRefused(f"{name}: it is empty; its first line must name the columns")
    header, *rows = rows
    _check_widths(text, delimiter, name, len(header), rows)
    return header, [[row[place] for row in rows] for place in range(len(header))]


def _delimiter_of(text: str) -> str:
    """The one that cuts the first rows into the most columns, of those that cut them all alike."""
    head = text[:_SNIFFED_CHARACTERS]
    best, most = ",", 0.0
    for delimiter in _DELIMITERS:
        try:
            rows = list(islice(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), _SNIFFED_ROWS))
        except csv.Error:
            continue
        widths = [len(row) for row in rows if row]
        if not widths or widths[0] == 1:
            continue
        alike = widths.count(widths[0]) / len(widths)
        if widths[0] * alike**4 > most:
            best, most = delimiter, widths[0] * alike**4
    return best


def _distinct(header: Sequence[str]) -> tuple[list[str], list[str]]:
    """Every column gets a name of its own: an index that was written without one, and what occurs twice."""
    names: list[str] = []
    notices: list[str] = []
    for index, title in enumerate(header):
        plain = title.strip() or ("index" if index == 0 else f"column {index + 1}")
        name, count = plain, 2
        while name in names:
            name, count = f"{plain} ({count})", count + 1
        if name != plain:
            notices.append(
                f"the column name {quoted(plain)} occurs twice; the later is called {quoted(name)}"
            )
        names.append(name)
    return names, notices


def _check_widths(text: str, delimiter: str, name: str, width: int, rows: Sequence[list[str]]) -> None:
    ragged = [index for index, row in enumerate(rows) if len(row) != width]
    if not ragged:
        return
    first = ragged[0]
    line = _line_of(text, delimiter, first + 1)
    more = f", and {len(ragged) - 1:,} more such lines" if len(ragged) > 1 else ""
    raise ChartRefused(f"{name}: line {line:,} has {len(rows[first])} fields, the header has {width}{more}")


def _line_of(text: str, delimiter: str, index: int) -> int:
    """The line on which a row begins; rows may span lines, and empty lines are no rows."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    begun = 1
    for row in reader:
        if row:
            if index == 0:
                return begun
            index -= 1
        begun = reader.line_num + 1
    return begun


# JSON data to tables: records, columns, pandas' split, one value a line, and graphs of nodes and links.

_LINKS = ("links", "edges")

_ENVELOPES = ("data", "records", "rows", "values", "items", "results")


def table_from_json(text: str, name: str) -> Table:
    """Read JSON as a table; NaN and Infinity may stand in it as Python writes them.

    Raises:
        ChartRefused: it is no JSON, or no table.
    """
    held = _parsed(text, name)
    try:
        return table_of([json_column(title, values) for title, values in _columns(held, name).items()])
    except RecursionError:
        raise ChartRefused(f"{name}: its values are nested too deeply") from None


def graph_columns(nodes: Sequence[Any], links: Sequence[Any]) -> dict[str, list[object]]:
    """A graph as a table: a row for every link, and one without a target for every node."""
    rows: list[dict[str, object]] = []
    for node in nodes:
        held = node if isinstance(node, Mapping) else {"id": node}
        identity = next(
            (held[key] for key in ("id", "key", "name", "label") if held.get(key) is not None), None
        )
        kept = {key: value for key, value in held.items() if key not in ("id", "key", "source", "target")}
        rows.append({"source": identity, "target": None, **kept})
    for link in links:
        if isinstance(link, Mapping):
            ends = {"source": _end(link, "source", "from"), "target": _end(link, "target", "to")}
            rows.append({**{key: value for key, value in link.items() if key not in ("from", "to")}, **ends})
        elif isinstance(link, Sequence) and not isinstance(link, str):
            rows.append(dict(zip(("source", "target", "value"), link, strict=False)))
    return _from_records(rows, {"source": [], "target": []})


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ChartRefused(f"{name}: its values are nested too deeply") from None
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise ChartRefused(f"{name}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise ChartRefused(f"{name}: {error}") from None
    return _lines(text, name)


def _lines(text: str, name: str) -> list[Any]:
    records = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                raise ChartRefused(f"{name}: line {number:,}: {reason}") from None
    return records


def _columns(held: Any, name: str) -> dict[str, list[object]]:
    if isinstance(held, list):
        return _from_list(held, name)
    if isinstance(held, Mapping):
        return _from_mapping(held, name)
    raise ChartRefused(
        f"{name}: it holds a single value; a table is a list of records or an object of columns"
    )


def _from_list(held: list[Any], name: str) -> dict[str, list[object]]:
    if not held:
        raise ChartRefused(f"{name}: it is an empty list")
    if all(isinstance(entry, Mapping) for entry in held):
        return _from_records(held, {})
    if all(isinstance(entry, list) for entry in held):
        width = max(map(len, held))
        return {
            f"column {index + 1}": [entry[index] if index < len(entry) else None for entry in held]
            for index in range(width)
        }
    stray = next((index for index, entry in enumerate(held) if isinstance(entry, Mapping | list)), None)
    if stray is not None:
        raise ChartRefused(f"{name}: it mixes records with other values (the first at [{stray}])")
    return {"value": held}


def _from_records(
    records: Sequence[Mapping[str, Any]], columns: dict[str, list[object]]
) -> dict[str, list[object]]:
    titles = dict.fromkeys([*columns, *(key for record in records for key in record)])
    return {title: [record.get(title) for record in records] for title in titles}


def _from_mapping(held: Mapping[str, Any], name: str) -> dict[str, list[object]]:
    links = next((held[key] for key in _LINKS if isinstance(held.get(key), list)), None)
    if links is not None and isinstance(held.get("nodes", []), list):
        return graph_columns(held.get("nodes", []), links)
    if isinstance(held.get("columns"), list) and isinstance(held.get("data"), list):
        return _from_split(held["columns"], held["data"], name)
    for envelope in _ENVELOPES:
        if isinstance(held.get(envelope), list) and held[envelope] and isinstance(held[envelope][0], Mapping):
            return _from_list(held[envelope], name)
    if held and all(isinstance(column, list) for column in held.values()):
        return _of_one_length({str(title): list(column) for title, column in held.items()}, name)
    if held and all(isinstance(column, Mapping) for column in held.values()):
        return _from_indexed(held)
    if held and not any(isinstance(value, Mapping | list) for value in held.values()):
        return {"name": list(held), "value": list(held.values())}
    raise ChartRefused(f"{name}: it is neither a list of records nor an object of columns")


def _from_split(titles: list[Any], data: list[Any], name: str) -> dict[str, list[object]]:
    for index, row in enumerate(data):
        if not isinstance(row, list) or len(row) != len(titles):
            raise ChartRefused(
                f"{name}: data[{index}] has not one value for each of the {len(titles)} columns"
            )
    return {str(title): [row[index] for row in data] for index, title in enumerate(titles)}


def _from_indexed(held: Mapping[str, Mapping[str, Any]]) -> dict[str, list[object]]:
    """Pandas' own default: columns of values by index."""
    index = dict.fromkeys(key for column in held.values() for key in column)
    named = not all(key.isdecimal() for key in index)
    columns: dict[str, list[object]] = {"index": list(index)} if named else {}
    return {**columns, **{str(title): [column.get(key) for key in index] for title, column in held.items()}}


def _of_one_length(columns: dict[str, list[object]], name: str) -> dict[str, list[object]]:
    lengths = {title: len(column) for title, column in columns.items()}
    if len(set(lengths.values())) > 1:
        lengths_text = ", ".join(f"{title} {length:,}" for title, length in list(lengths.items())[:6])
        raise ChartRefused(f"{name}: its columns differ in length: {lengths_text}")
    return columns


def _end(link: Mapping[str, Any], *names: str) -> object:
    return next((link[name] for name in names if link.get(name) is not None), None)


# Raw columns to typed ones: what a list of texts, or of JSON's values, holds. Knows no files (see
# ``data_files``).

_MISSING_NUMBERS = frozenset(("", "na", "n/a", "#n/a", "null", "none", "<na>", "nat"))

_FLAGS = {"true": True, "false": False}

_CODE = re.compile(r"\n0\d|_")

_LOOKED_AT = 50

# Less than this share of numbers and a column of text was never meant to hold them.
_MOSTLY = 0.9

_LONGEST_OTHER = 500


@dataclass(frozen=True, slots=True)
class TypedColumn:
    name: str
    kind: ColumnKind
    values: Sequence[Value]
    notices: tuple[str, ...] = ()


def table_of(columns: Sequence[TypedColumn], notices: Sequence[str] = ()) -> Table:
    rows = tuple(zip(*(column.values for column in columns), strict=True))
    return Table(
        tuple(Column(column.name, column.kind, "", column.values.count(None)) for column in columns),
        rows,
        len(rows),
        (*notices, *(notice for column in columns for notice in column.notices)),
    )


def text_column(name: str, texts: Sequence[str], *, line_of: Callable[[int], int]) -> TypedColumn:
    """A column of a CSV file; ``line_of`` tells the line of a row."""
    whole = _whole_numbers(texts)
    if whole is not None:
        return TypedColumn(name, "number", whole)
    floats = _floats(texts)
    if floats is not None:
        return _finite(name, floats)
    first = next((text for text in texts if text), None)
    if first is None:
        return TypedColumn(name, "text", [None] * len(texts))
    if first.lower() in _FLAGS and all(text.lower() in _FLAGS for text in texts if text):
        return TypedColumn(name, "bool", [_FLAGS.get(text.lower()) for text in texts])
    if _are_times(texts):
        return TypedColumn(name, "time", [text or None for text in texts])
    return TypedColumn(name, "text", [text or None for text in texts], _stray(name, texts, line_of))


def json_column(name: str, values: Sequence[object]) -> TypedColumn:
    """A column of a JSON file."""
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return TypedColumn(name, "text", [None] * len(values))
    if kinds <= {int, float}:
        return _finite(name, values)  # type: ignore[arg-type]  # as just found out
    if kinds == {bool}:
        return TypedColumn(name, "bool", values)  # type: ignore[arg-type]  # as just found out
    texts = [
        None if value is None else value if type(value) is str else _json_text(value) for value in values
    ]
    if kinds == {str}:
        filled = ["" if text is None else text for text in texts]
        return TypedColumn(name, "time" if _are_times(filled) else "text", [text or None for text in filled])
    return TypedColumn(name, "other" if kinds & {dict, list} else "text", texts)


def _whole_numbers(texts: Sequence[str]) -> list[int] | None:
    try:
        numbers = list(map(int, texts))
    except ValueError:
        return None
    return None if _hold_codes(texts) else numbers


def _floats(texts: Sequence[str]) -> list[float | None] | None:
    try:
        numbers: list[float | None] = list(map(float, texts))
    except ValueError:
        return _floats_with_gaps(texts)
    return None if _hold_codes(texts) else numbers


def _floats_with_gaps(texts: Sequence[str]) -> list[float | None] | None:
    sample = list(islice((text for text in texts if text), _LOOKED_AT))
    if not all(map(_is_number, sample)):
        return None
    filled = [text for text in texts if text.strip().lower() not in _MISSING_NUMBERS]
    try:
        numbers = list(map(float, filled))
    except ValueError:
        return None
    if not filled or _hold_codes(filled):
        return None
    # Counts stay counts where some are missing.
    counts = all(text.strip().lstrip("+-").isdecimal() for text in filled)
    along: Iterator[float] = iter(map(int, filled)) if counts else iter(numbers)
    return [None if text.strip().lower() in _MISSING_NUMBERS else next(along) for text in texts]


def _hold_codes(texts: Sequence[str]) -> bool:
    """Whether there are names among the numbers: 007, and what Python alone takes for one, 1_000."""
    return _CODE.search("\n" + "\n".join(texts)) is not None


def _finite(name: str, numbers: Sequence[float | None]) -> TypedColumn:
    if _are_finite(numbers):
        return TypedColumn(name, "number", numbers)
    kept = [number if number is not None and _is_finite(number) else None for number in numbers]
    lost = kept.count(None) - sum(number is None for number in numbers)
    if not lost:
        return TypedColumn(name, "number", kept)
    values = "1 value is" if lost == 1 else f"{lost:,} values are"
    return TypedColumn(name, "number", kept, (f"{quoted(name)}: {values} NaN or infinite, and left out",))


def _are_finite(numbers: Sequence[Any]) -> bool:
    try:
        return all(map(math.isfinite, numbers))
    except (TypeError, OverflowError):  # something is missing, or beyond every float
        return False


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond every float
        return False


def _are_times(texts: Sequence[str]) -> bool:
    filled = (text for text in texts if text)
    if not all(looks_like_time(text) for text in islice(filled, _LOOKED_AT)):
        return False
    try:
        parse_times([text for text in texts if text] if "" in texts else texts)
    except ValueError:
        return False
    return any(texts)


def _stray(name: str, texts: Sequence[str], line_of: Callable[[int], int]) -> tuple[str, ...]:
    """What keeps a column that is nearly all numbers from being one."""
    sample = [text for text in islice(texts, _LOOKED_AT) if text]
    if not sample or sum(map(_is_number, sample)) < _MOSTLY * len(sample):
        return ()
    strays = [index for index, text in enumerate(texts) if text and not _is_number(text)]
    if not strays or len(strays) > (1 - _MOSTLY) * len(texts):
        return ()
    first = strays[0]
    share = f"{len(strays):,} of {len(texts):,} values are no numbers"
    return (
        f"{quoted(name)} holds text: {share}, the first is {quoted(texts[first])} in line {line_of(first):,}",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip().lower() in _MISSING_NUMBERS
    return True


def _json_text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_OTHER else f"{text[:_LONGEST_OTHER]}…"
