"""Finds the data file that a problem is about in a folder, and reads its format and columns off its first bytes.

Pure: whoever calls has listed the folder and read the heads. It guesses, for drafts; nothing that runs relies on it.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

__all__ = [
    "FORMATS",
    "HEAD_BYTES",
    "Column",
    "DataFile",
    "chosen_file",
    "column_of",
    "data_files",
    "described",
    "folded",
    "folded_words",
]
HEAD_BYTES = 64 * 1024
"""As much of a file as is worth looking at."""

_MAX_ROWS = 500

_SEPARATORS = ",;\t|"

_LEFT_OUT = frozenset({"results", "notebooks", "node_modules", "__pycache__"})

_sqlite_table = re.compile(
    rb"CREATE TABLE\s+(?:\"([^\"\0]+)\"|\[([^\]\0]+)\]|`([^`\0]+)`|(\w+))\s*\(", re.IGNORECASE
)

_plural = re.compile(r"(?<=[^\Ws]{3})s$")

_accents = re.compile(r"[\u0300-\u036f]")

_decimal_comma = re.compile(r"-?\d+,\d+")


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that a step can load."""

    name: str
    step: str
    """What the step that loads it is called."""
    suffixes: tuple[str, ...]
    words: tuple[str, ...]
    """How a problem's text names it."""


FORMATS = (
    Format("csv", "Load CSV file", (".csv",), ("csv",)),
    Format("tsv", "Load TSV file", (".tsv", ".tab"), ("tsv",)),
    Format(
        "excel", "Load Excel file", (".xlsx", ".xls"), ("excel", "xlsx", "xls", "spreadsheet", "spreadsheets")
    ),
    Format("parquet", "Load Parquet file", (".parquet",), ("parquet",)),
    Format("jsonl", "Load JSON lines file", (".jsonl", ".ndjson"), ("jsonl", "ndjson")),
    Format("json", "Load JSON file", (".json",), ("json",)),
    Format(
        "sqlite", "Load SQLite database", (".sqlite", ".sqlite3", ".db"), ("sqlite", "sqlite3", "database")
    ),
)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, and how to read it as far as its head tells."""

    path: str
    format: Format
    columns: tuple[Column, ...] = ()
    """None where they are not known before it is read."""
    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    has_header: bool = True
    inner: str | None = None
    """Of a JSON object, the key of the list of records; of a database, the table."""
    nested: bool = False
    long: bool = False
    """Whether there is more of it than its head."""


def data_files(files: Iterable[str]) -> list[str]:
    """Those that a draft could be about: neither hidden nor a result of an earlier one."""
    return sorted(
        name
        for name in files
        if _format(name) is not None and not any(_is_left_out(part) for part in PurePosixPath(name).parts)
    )


def _is_left_out(part: str) -> bool:
    return part in _LEFT_OUT or (part.startswith(".") and part != "..")


def chosen_file(problem: str, files: Iterable[str]) -> tuple[str | None, list[str]]:
    """The file that the problem names, or the only one; where there are several, none and all that are possible."""
    candidates = data_files(files)
    lowered = problem.lower()
    named = [
        name for name in candidates if name.lower() in lowered or PurePosixPath(name).name.lower() in lowered
    ]
    if named:
        # A longer name holds a shorter one: "old_sales.csv" also says "sales.csv".
        longest = max(len(PurePosixPath(name).name) for name in named)
        return _only([name for name in named if len(PurePosixPath(name).name) == longest])
    words = set(folded_words(problem))
    asked = [name for name in candidates if (kind := _format(name)) and words.intersection(kind.words)]
    candidates = asked or candidates
    shared = {name: len(words.intersection(folded_words(PurePosixPath(name).stem))) for name in candidates}
    best = max(shared.values(), default=0)
    return _only([name for name in candidates if shared[name] == best])


def folded_words(text: str) -> list[str]:
    """The words of a text without case, accents and the plural's s, so that words and columns' names can be compared."""
    return [_plural.sub("", word) for word in re.findall(r"[^\W_]+", folded(text))]


def folded(text: str) -> str:
    """The text without case and accents."""
    return unicodedata.normalize("NFC", _accents.sub("", unicodedata.normalize("NFKD", text).casefold()))


def described(path: str, head: bytes) -> DataFile:
    """What the head of a file tells of it."""
    kind = _format(path)
    if kind is None:
        raise ValueError(path)
    match kind.name:
        case "csv" | "tsv":
            return _delimited(path, kind, head)
        case "json" | "jsonl":
            return _json(path, kind, head)
        case "sqlite":
            tables = {
                next(filter(None, groups)).decode(errors="replace") for groups in _sqlite_table.findall(head)
            }
            tables = {table for table in tables if not table.startswith("sqlite_")}
            return DataFile(path, kind, inner=tables.pop() if len(tables) == 1 else None)
    return DataFile(path, kind)


def _format(name: str) -> Format | None:
    suffix = PurePosixPath(name).suffix.lower()
    return next((kind for kind in FORMATS if suffix in kind.suffixes), None)


def _only(names: list[str]) -> tuple[str | None, list[str]]:
    return (names[0] if len(names) == 1 else None), names


def _delimited(path: str, kind: Format, head: bytes) -> DataFile:
    encoding, text = _decoded(head)
    lines = text.splitlines(keepends=True)
    long = len(head) >= HEAD_BYTES
    if long and len(lines) > 1:
        lines.pop()
    separator = _separator(lines, default="\t" if kind.name == "tsv" else ",")
    rows = [row for row in csv.reader(lines[: _MAX_ROWS + 1], delimiter=separator) if row]
    plain = DataFile(path, kind, separator=separator, encoding=encoding, long=long)
    if not rows[1:] or any(len(row) > len(rows[0]) for row in rows):
        return plain
    decimal = "," if separator == ";" and _has_decimal_comma(rows[1:]) else "."
    has_header = not any(_is_number(cell, decimal) for cell in rows[0])
    names = rows[0] if has_header else [f"column_{number}" for number in range(1, len(rows[0]) + 1)]
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        return plain
    body = rows[1:] if has_header else rows
    columns = tuple(
        column_of(name, [row[place] for row in body if place < len(row)], decimal=decimal)
        for place, name in enumerate(names)
    )
    return DataFile(path, kind, columns, separator, encoding, decimal, has_header, long=long)


def _decoded(head: bytes) -> tuple[str, str]:
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return encoding, head.decode(encoding, errors="ignore")
    try:
        # A head may end within a character, which is no fault of it.
        return "utf-8", codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        return "cp1252", head.decode("cp1252", errors="replace")


def _separator(lines: Sequence[str], *, default: str) -> str:
    """The one that cuts most lines into as many fields as the first, of several the one that makes most fields."""
    best, best_score = default, (0.0, 0)
    for separator in _SEPARATORS:
        counts = [len(row) for row in csv.reader(lines[:50], delimiter=separator) if row]
        if not counts or counts[0] == 1:
            continue
        score = (Counter(counts)[counts[0]] / len(counts), counts[0])
        if score > best_score:
            best, best_score = separator, score
    return best


def _has_decimal_comma(rows: Iterable[Sequence[str]]) -> bool:
    return any(_decimal_comma.fullmatch(cell.strip()) for row in rows for cell in row)


def _is_number(text: str, decimal: str) -> bool:
    try:
        float(text.strip().replace(decimal, "."))
    except ValueError:
        return False
    return True


def _json(path: str, kind: Format, head: bytes) -> DataFile:
    text = _decoded(head)[1].lstrip()
    inner = None
    if kind.name == "json" and text.startswith("{"):
        inner = _list_key(text)
        if inner is None:
            return DataFile(path, kind, nested=True)
        text = text[text.index("[", text.index(json.dumps(inner, ensure_ascii=False))) :]
    records = _records(text.removeprefix("["))
    names = list(dict.fromkeys(name for record in records for name in record))
    nested = not records or any(
        isinstance(value, dict | list) for record in records for value in record.values()
    )
    columns = (
        ()
        if nested
        else tuple(column_of(name, [_cell(record.get(name)) for record in records]) for name in names)
    )
    return DataFile(path, kind, columns, inner=inner, nested=nested, long=len(head) >= HEAD_BYTES)


def _list_key(text: str) -> str | None:
    """The key of the one list in an object, where the head has the whole object."""
    try:
        whole: Any = json.loads(text)
    except ValueError:
        return None
    lists = [
        key
        for key, value in whole.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    return lists[0] if len(lists) == 1 else None


def _records(text: str) -> list[Mapping[str, Any]]:
    """The objects at the beginning of a list or of lines, as far as the head has them whole."""
    decoder = json.JSONDecoder()
    records: list[Mapping[str, Any]] = []
    place = 0
    while len(records) < _MAX_ROWS:
        place = next((index for index in range(place, len(text)) if text[index] not in " \t\r\n,"), len(text))
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError:
            break
        if not isinstance(value, dict):
            return []
        records.append(value)
    return records


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


# What a column of a table holds, by the values at its beginning: numbers, dates, years, categories, or text.
# Pure.

ColumnKind: TypeAlias = Literal["number", "date", "year", "category", "label", "text"]
"""A ``label`` looks like a number and is none to reckon with: an id, a postcode."""

# What pandas reads as missing.
_MISSING = frozenset(
    {
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
    }
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)

_ENOUGH = 0.9

_MAX_CATEGORIES = 30

_MAX_LABEL = 60

_FEW_VALUES = 4

_REPEATED = 0.5

_YEARS = range(1000, 3000)

_label = re.compile(
    r"(?:^|[\W_])(?:id|key|index|idx|nr|no|number|code|zip|zipcode|postcode|plz|phone|isbn|ean|sku|uuid)$",
    re.IGNORECASE,
)

_camel_id = re.compile(r"[a-z]I[dD]$")

_year_name = re.compile(r"year|jahr|ann[ée]e|año|anno|ano$", re.IGNORECASE)

_iso = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")

_FORMATS = (
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m-%d-%Y",
    "%d-%m-%Y",
    "%Y-%m",
    "%Y%m%d",
)

_FORMATS_OF_NAMES = ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%b %Y", "%B %Y")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: ColumnKind
    distinct: int = 0
    date_format: str | None = None
    """For ``pandas.to_datetime``."""
    zoned: bool = False
    ambiguous: bool = False
    """Whether its dates can be read with the day first and with the month first."""


def column_of(name: str, values: Sequence[str], *, decimal: str = ".") -> Column:
    """What a column holds, by some of its values as they stand in the file."""
    present = [value.strip() for value in values if value.strip() not in _MISSING]
    distinct = len(set(present))
    if not present:
        return Column(name, "text")
    numbers = [number for value in present if (number := _number(value, decimal)) is not None]
    if len(numbers) >= _ENOUGH * len(present):
        return _numeric(name, present, numbers, distinct)
    formats, zoned = _date_formats(present)
    if len(formats) == 1:
        return Column(name, "date", distinct, formats[0], zoned)
    repeated = distinct <= min(max(_FEW_VALUES, len(present) * _REPEATED), _MAX_CATEGORIES)
    kind: ColumnKind = "category" if repeated and max(map(len, present)) <= _MAX_LABEL else "text"
    return Column(name, "text" if formats else kind, distinct, ambiguous=bool(formats))


def _number(text: str, decimal: str) -> float | None:
    try:
        return float(text.replace(decimal, ".")) if "_" not in text else None
    except ValueError:
        return None


def _numeric(name: str, present: Sequence[str], numbers: Sequence[float], distinct: int) -> Column:
    whole = all(number.is_integer() for number in numbers)
    if whole and _year_name.search(name) and all(number in _YEARS for number in numbers):
        return Column(name, "year", distinct)
    padded = any(len(value) > 1 and value.startswith("0") and value.isdigit() for value in present)
    if padded or (whole and (_label.search(name.strip()) or _camel_id.search(name.strip()))):
        return Column(name, "label", distinct)
    if set(numbers) == {0.0, 1.0} and len(numbers) > _FEW_VALUES:
        return Column(name, "category", distinct)
    return Column(name, "number", distinct)


def _date_formats(present: Sequence[str]) -> tuple[list[str], bool]:
    """The formats in which almost all of the values can be read as dates, and whether they have time zones."""
    matches = [match for value in present if (match := _iso.fullmatch(value))]
    if len(matches) >= _ENOUGH * len(present):
        return ["ISO8601"], any(match[1] for match in matches)
    if not any(char.isdigit() for char in present[0]):
        return [], False
    some = present[:100]
    return [
        form
        for form in (*_FORMATS, *_FORMATS_OF_NAMES)
        if sum(_reads(value, form) for value in some) >= _ENOUGH * len(some)
    ][:2], False


def _reads(text: str, form: str) -> bool:
    try:
        time.strptime(text, form)
    except ValueError:
        return False
    return True
