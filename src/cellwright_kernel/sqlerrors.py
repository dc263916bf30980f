"""What DuckDB says of an error, as the cell's author can use it: the message, and the line with a caret below.

DuckDB is asked for its errors as JSON, which has the place as an offset into the cell. Pure: what lies around the
error, such as names that were perhaps meant, is told by the caller (``sql``).
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

__all__ = ["Fault", "advised", "fault_of", "in_words", "missing_extension", "rendered_as"]

EXCERPT = 120
"""How many characters of a long line are shown."""
MOST_CANDIDATES = 3
# DuckDB's own catalogue, which nobody means who misspells a table.
_INTERNAL = re.compile(r"(pg_|sqlite_|duckdb_|pragma_|information_schema)")
_MEANT = re.compile(r"\n?Did you mean (?P<names>[^\n]*)")
_UNCHANGEABLE = re.compile(r"is not an? table|Can only (?:update|delete from|merge into) base table")
_EXTENSION = re.compile(r"(?P<name>\w+)\.duckdb_extension")


@dataclass(frozen=True, slots=True)
class Fault:
    """What an exception of DuckDB's says."""

    message: str
    start: int | None = None
    """Where in the cell, in bytes of UTF-8."""
    length: int = 1
    subtype: str = ""
    thing: str = ""
    """What kind of thing it is about: a table, a function."""
    name: str = ""


def fault_of(text: str) -> Fault:
    """Read an exception's text; one that is no JSON is a message without a place."""
    about: object = None
    with contextlib.suppress(ValueError):
        about = json.loads(text[max(text.find("{"), 0) :])
    if not isinstance(about, dict) or "exception_message" not in about:
        return Fault(text)
    start, length = _place(about)
    return Fault(
        message=str(about["exception_message"]).strip(),
        start=start,
        length=length,
        subtype=str(about.get("error_subtype", "")),
        thing=str(about.get("type", "")),
        name=str(about.get("name", "")),
    )


def _place(about: dict[str, object]) -> tuple[int | None, int]:
    # Before DuckDB 2 there is a position without a length.
    with contextlib.suppress(KeyError, ValueError, TypeError):
        start, length = json.loads(str(about["location"]))
        return int(start), max(int(length), 1)
    with contextlib.suppress(KeyError, ValueError):
        return int(str(about["position"])), 1
    return None, 1


def advised(fault: Fault, tables: Iterable[str], type_of_variable: str | None) -> Fault:
    """The same with what to do about it: tables that were perhaps meant, or why an extension is not there.

    ``type_of_variable`` is that of a Python variable of the missing table's name, if there is one.
    """
    if fault.subtype == "MISSING_ENTRY" and fault.thing == "Table":
        return _missing_table(fault, list(tables), type_of_variable)
    if _UNCHANGEABLE.search(fault.message) or (
        fault.thing == "View" and fault.subtype == "ENTRY_ALREADY_EXISTS"
    ):
        note = "A variable can be read, not changed: `CREATE TABLE t AS FROM variable` makes a table of it"
        return (
            fault
            if type_of_variable is None and fault.name
            else replace(fault, message=f"{fault.message}\n{note}")
        )
    extension = _EXTENSION.search(fault.message)
    return fault if extension is None else replace(fault, message=missing_extension(extension["name"]))


def _missing_table(fault: Fault, tables: list[str], type_of_variable: str | None) -> Fault:
    base = _MEANT.sub("", fault.message)
    if type_of_variable is not None:
        kinds = "frames, Arrow tables, DuckDB relations, lists of records and record arrays are"
        return replace(
            fault, message=f"{base}\nThe variable {fault.name} is of type {type_of_variable}: {kinds} tables"
        )
    folded = {table.casefold(): table for table in tables}
    close = [folded[one] for one in get_close_matches(fault.name.casefold(), folded, MOST_CANDIDATES)]
    if close:
        return replace(fault, message=f"{base}\nDid you mean {' or '.join(close)}?")
    said = _MEANT.search(fault.message)
    return fault if said and not _INTERNAL.search(said["names"]) else replace(fault, message=base)


def missing_extension(name: str) -> str:
    """Why an extension is not there, and what to do without it."""
    told = f"DuckDB's extension {name} is not installed here, and nothing is downloaded."
    if name.startswith("sqlite"):
        told += (
            " Read the database in a Python cell, `df = pandas.read_sql_query(query, sqlite3.connect(path))`, and "
            "use the frame by its name. Or"
        )
    elif name == "httpfs":
        told += " Fetch the file in a Python cell, where the network's policy allows it, and read it by its path. Or"
    return f"{told} install it from a file that you have: `INSTALL '/path/to/{name}.duckdb_extension'`"


def in_words(fault: Fault, cell: str) -> str:
    """The message, the line that it is about, and a caret."""
    if fault.start is None:
        return fault.message
    source = cell.encode("utf-8", "replace")
    if fault.start > len(source):
        return fault.message
    before = source[: fault.start].decode("utf-8", "replace")
    marked = source[fault.start : fault.start + fault.length].decode("utf-8", "replace").partition("\n")[0]
    number = before.count("\n") + 1
    line = cell.split("\n")[number - 1].rstrip("\r")
    column = len(before) - (before.rfind("\n") + 1)
    first = max(0, column - EXCERPT // 2) if len(line) > EXCERPT else 0
    shown = line[first : first + EXCERPT]
    head = f"line {number}: {'…' if first else ''}"
    blank = "".join("\t" if letter == "\t" else " " * _width(letter) for letter in shown[: column - first])
    carets = "^" * max(1, sum(map(_width, marked[: EXCERPT - (column - first)])))
    tail = "…" if len(line) > first + EXCERPT else ""
    return f"{fault.message}\n\n{head}{shown}{tail}\n{' ' * len(head)}{blank}{carets}"


def _width(letter: str) -> int:
    """How many columns a letter takes up."""
    if unicodedata.combining(letter) or unicodedata.category(letter) in {"Cf", "Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def rendered_as(error: BaseException, text: str) -> BaseException:
    """Let IPython show this text in place of a Python traceback, which would lead through our own code only."""
    lines = f"{type(error).__name__}: {text}" if text else type(error).__name__
    with contextlib.suppress(AttributeError, TypeError):
        error._render_traceback_ = lambda: lines.split("\n")  # type: ignore[attr-defined]  # IPython asks for it
    return error
