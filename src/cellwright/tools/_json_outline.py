"""JSON for readers who pay by the token: the shape of a value, and its beginning. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.errors import FileUnreadable

__all__ = ["outline", "parsed_json", "parsed_lines", "records_in", "written_out"]

MAX_DEPTH = 4
MAX_KEYS = 30
MAX_LINES = 60
_LOOKED_AT = 200
_LONGEST_TEXT = 40


def parsed_json(text: str) -> Any:
    """A JSON text's value; numbers of any length stay texts of digits, since nobody computes here.

    Raises:
        FileUnreadable: it is none, with line and column; or it is nested beyond reason.
    """
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise FileUnreadable("its values are nested too deep to be read") from None
    except json.JSONDecodeError as error:
        raise FileUnreadable(
            f"it is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None


def parsed_lines(text: str) -> list[Any]:
    """The values of JSON Lines.

    Raises:
        FileUnreadable: a line is none.
    """
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                found.append(json.loads(line, parse_int=_integer))
            except (ValueError, RecursionError) as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
                raise FileUnreadable(f"it is no JSON Lines: line {number:,}: {reason}") from None
    return found


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) < 400 else digits  # beyond every float


def records_in(value: Any) -> list[dict[str, Any]] | None:
    """The rows, if a value is a list of objects of plain values for the most part; None for any other."""
    if not isinstance(value, list) or len(value) < 2:  # one object is better shown as such
        return None
    return value if all(isinstance(entry, dict) for entry in value) else None


def written_out(value: Any) -> str:
    """A value as text that can be read by the line: a line for each record, however many fields it has."""
    if isinstance(value, dict) and value:
        inside = [
            f"{json.dumps(key, ensure_ascii=False)}: {_by_item(entry, ' ')}" for key, entry in value.items()
        ]
        return "{\n " + ",\n ".join(inside) + "\n}"
    return _by_item(value, "")


def _by_item(value: Any, pad: str) -> str:
    if not isinstance(value, list) or not any(isinstance(entry, dict | list) for entry in value):
        return json.dumps(value, ensure_ascii=False)
    items = [json.dumps(entry, ensure_ascii=False) for entry in value]
    return f"[\n{pad} " + f",\n{pad} ".join(items) + f"\n{pad}]"


def outline(value: Any) -> str:
    """The structure of a value, a line for each place."""
    lines: list[str] = []
    _describe("$", value, 0, lines)
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES:,} more lines"]
    return "\n".join(lines)


def _describe(name: str, value: Any, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    if len(lines) > 10 * MAX_LINES:
        return
    if isinstance(value, Mapping):
        lines.append(f"{pad}{name}: object, {len(value):,} key{'s' * (len(value) != 1)}")
        if depth < MAX_DEPTH:
            for key in list(value)[:MAX_KEYS]:
                _describe(_cut(str(key)), value[key], depth + 1, lines)
            if len(value) > MAX_KEYS:
                lines.append(f"{pad}  … {len(value) - MAX_KEYS:,} more keys")
    elif isinstance(value, list):
        kinds = dict.fromkeys(_kind(entry) for entry in value[:_LOOKED_AT])
        lines.append(f"{pad}{name}: array, {len(value):,} \u00d7 {' | '.join(kinds) or 'nothing'}")
        nested = _nested(value[:_LOOKED_AT])
        if nested and depth < MAX_DEPTH:
            _describe("[]", nested, depth + 1, lines)
    else:
        lines.append(f"{pad}{name}: {_kind(value)} {_cut(json.dumps(value, ensure_ascii=False))}")


def _nested(entries: Sequence[Any]) -> dict[str, Any] | list[Any]:
    """What a list holds: of objects every key, each with the first value that says something; else its first list."""
    merged: dict[str, Any] = {}
    for record in entries:
        if isinstance(record, Mapping):
            merged |= {key: value for key, value in record.items() if merged.get(key) is None}
    if merged:
        return merged
    return next((entry for entry in entries if isinstance(entry, list)), [])


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "number", float: "number", str: "text", dict: "object", list: "array"}
    return kinds.get(type(value), "number")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[: _LONGEST_TEXT - 1]}…"
