"""What a connection has to offer, in few tokens: tables with columns, objects, or operations. Pure.

Where not all fits, columns go first, then names; what was left out is counted, and can be searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellwright.connections.known import Connection
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_tail

__all__ = ["answer_digest", "schema_digest", "use_of"]

_MOST_COLUMNS = (1_000, 12, 4, 0)
_LONGEST_VALUE = 200
_LONGEST_ABOUT = 120
_LONGEST_END = 80

_USES = {
    "s3": 'connect("{0}").list(path), .read(path), .fetch(path) -> local file',
    "http": 'connect("{0}").call(operation, **arguments)',
    "mcp": 'connect("{0}").call(operation, **arguments)',
}


def use_of(connection: Connection) -> str:
    """How code reaches it, in a line."""
    sql = '-- connection: {0} (first line of a SQL cell), connect("{0}").query(sql)'
    return _USES.get(connection.kind, sql).format(connection.name)


def schema_digest(schema: Mapping[str, Any], max_tokens: int) -> str:
    """What a broker said of a schema, within a budget."""
    limit = max_tokens * CHARACTERS_PER_TOKEN
    if "tables" in schema:
        return _tables(schema["tables"], limit, int(schema.get("more", 0)))
    what, one_line = ("objects", _object) if "objects" in schema else ("operations", _operation)
    return _lines([one_line(one) for one in schema[what]], limit, int(schema.get("more", 0)), what)


def _tables(tables: Sequence[Mapping[str, Any]], limit: int, more: int) -> str:
    for most in _MOST_COLUMNS:
        lines = [_table(one, most) for one in tables]
        if sum(len(line) + 1 for line in lines) <= limit:
            break
    return _lines(lines, limit, more, "tables")


def _table(table: Mapping[str, Any], most: int) -> str:
    columns = [f"{name} {kind}" for name, kind in table["columns"][:most]]
    left = len(table["columns"]) - len(columns)
    columns += [f"{left} more" if columns else f"{left} columns"] if left else []
    rows = f" ~{table['rows']:,} rows" if table.get("rows") is not None else ""
    return f"{table['name']}({', '.join(columns)}){rows}"


def _object(one: Mapping[str, Any]) -> str:
    return f"{one['path']} {one['bytes']:,} bytes" if "bytes" in one else str(one["path"])


def _operation(one: Mapping[str, Any]) -> str:
    arguments = ", ".join(
        name + ("*" if needed else "") + (f": {kind[0]}" if any(kind) else "")
        for name, needed, *kind in one["arguments"]
    )
    about = cut_tail(one["about"], _LONGEST_ABOUT)
    return f"{one['name']}({arguments})" + (f": {about}" if about else "")


def _lines(lines: Sequence[str], limit: int, more: int, what: str) -> str:
    total = sum(len(line) + 1 for line in lines)
    # The last line has its own room.
    room = limit if total <= limit and not more else limit - _LONGEST_END
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left = len(lines) - len(kept) + more
    if left:
        kept.append(f"… {left:,} more {what}: search for a word, or raise max_tokens")
    return "\n".join(kept) or f"no {what}"


def answer_digest(answer: Mapping[str, Any], max_tokens: int, as_text: Callable[[Any], str]) -> str:
    """What an operation answered, within a budget; a table as lines of values."""
    limit = max_tokens * CHARACTERS_PER_TOKEN
    if "columns" not in answer:
        text = as_text(answer.get("result", answer))
        if len(text) <= limit:
            return text
        shown = text[: limit - _LONGEST_END]
        return f"{shown}\n[… {len(text) - len(shown):,} characters left out: raise max_tokens, or use Python]"
    columns = answer["columns"]
    rows = zip(*(column["values"] for column in columns), strict=True)
    lines = [" | ".join(column["name"] for column in columns)]
    lines += [
        " | ".join(cut_tail("" if one is None else str(one), _LONGEST_VALUE) for one in row) for row in rows
    ]
    truncated = f" (cut at {answer['truncated']})" if answer["truncated"] else ""
    shown = _lines(lines, limit - _LONGEST_END, 0, "rows")
    return f"{shown}\n{answer['rows']:,} rows{truncated}"
