"""What every kind of connection has in common inside a broker: what it is given, what it answers, how tables are sent."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import ipaddress
import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

__all__ = [
    "Given",
    "Refused",
    "Reply",
    "Service",
    "described",
    "json_reply",
    "named_parameters",
    "pieces",
    "table_reply",
    "tables_reply",
]

_PIECE = 1_000
_MOST_TABLES = 2_000


class Given(msgspec.Struct, frozen=True):
    """A connection with its credential, as the broker's process has it."""

    name: str
    kind: str
    url: str
    read_only: bool
    username: str
    timeout_s: float
    max_rows: int
    max_bytes: int
    query: dict[str, str]
    auth: str = ""
    openapi: str = ""
    command: tuple[str, ...] = ()
    directory: str = ""
    password: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered to one request."""

    kind: Literal["json", "bytes", "error"]
    payload: bytes
    rows: int = 0
    also_secret: tuple[bytes, ...] = ()


class Refused(Exception):
    """The request cannot be done as asked; said to whoever asked, with what to do instead."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Service(Protocol):
    """One server, with the connection to it."""

    def answer(self, request: dict[str, Any]) -> Reply:
        """Do what a request asks for.

        Raises:
            Refused: it is not among what this kind of server can do, or may do here.
        """


def described(request: Mapping[str, Any], kind: str, does: Mapping[str, Callable[..., Reply]]) -> Reply:
    """The reply of the function that does what the request asks for."""
    operation = str(request.get("do"))
    if operation not in does:
        raise Refused(f"A {kind} connection has no {operation!r}", f"It has: {', '.join(sorted(does))}")
    return does[operation](request)


def json_reply(value: Any, rows: int = 0) -> Reply:
    return Reply("json", msgspec.json.encode(value), rows)


# Tables as they go to a kernel: column by column, JSON's own values where they say all, else text and the column's type.


def table_reply(
    given: Given, names: Sequence[str], rows: Iterator[Sequence[Any]], *, wanted: int | None = None
) -> Reply:
    """Rows as columns of JSON, as many as limits let through; ``truncated`` says by which the rest was left out."""
    most = min(given.max_rows, wanted or given.max_rows)
    columns = [_Column(name) for name in _distinct(names)]
    count, size, truncated = 0, 0, ""
    for row in rows:
        if count == most:
            truncated = f"{most:,} rows (max_rows)"
            break
        size += sum(column.add(value) for column, value in zip(columns, row, strict=True))
        if size > given.max_bytes:
            truncated = f"{given.max_bytes:,} bytes (max_bytes)"
            for column in columns:
                del column.values[count:]
            break
        count += 1
    held = {"columns": [column.told() for column in columns], "rows": count, "truncated": truncated}
    return json_reply(held, rows=count)


def _distinct(names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}_{seen[name]}"


class _Column:
    """One column on its way: its type is that of its first value, and text where values differ."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.type: str | None = None
        self.values: list[Any] = []

    def add(self, value: Any) -> int:
        """Take a value in; roughly how many bytes it is."""
        kind, made = _plain(value)
        if kind is not None and kind != self.type:
            self.type = kind if self.type is None else _wider(self.type, kind)
        self.values.append(made)
        return len(made) + 4 if isinstance(made, str) else 10

    def told(self) -> dict[str, Any]:
        mixed = self.type == "text"
        values = [one if one is None or isinstance(one, str) else json.dumps(one) for one in self.values]
        return {"name": self.name, "type": self.type or "text", "values": values if mixed else self.values}


def _wider(one: str, other: str) -> str:
    return "float" if {one, other} == {"int", "float"} else "text"


def _float(value: float) -> tuple[str, Any]:
    return "float", value if math.isfinite(value) else None


def _integer(value: int) -> tuple[str, Any]:
    return ("int", value) if value.bit_length() <= 63 else ("decimal", str(value))


_MAKERS: dict[type, Callable[[Any], tuple[str, Any]]] = {
    bool: lambda value: ("bool", value),
    int: _integer,
    float: _float,
    str: lambda value: ("text", value),
    decimal.Decimal: lambda value: ("decimal", str(value)),
    dt.datetime: lambda value: ("instant" if value.tzinfo is not None else "time", value.isoformat()),
    dt.date: lambda value: ("date", value.isoformat()),
    dt.timedelta: lambda value: ("seconds", value.total_seconds()),
    dt.time: lambda value: ("text", value.isoformat()),
    uuid.UUID: lambda value: ("text", str(value)),
    ipaddress.IPv4Address: lambda value: ("text", str(value)),
    ipaddress.IPv6Address: lambda value: ("text", str(value)),
}


def _plain(value: Any) -> tuple[str | None, Any]:
    if value is None:
        return None, None
    maker = _MAKERS.get(type(value))
    if maker is not None:
        return maker(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", base64.b64encode(bytes(value)).decode()
    if isinstance(value, list | tuple | dict | set):
        return "json", json.dumps(value, default=str)
    return "text", str(value)


def pieces(fetch: Callable[[int], Sequence[Sequence[Any]]]) -> Iterator[Sequence[Any]]:
    """The rows of a cursor, a piece at a time."""
    while piece := fetch(_PIECE):
        yield from piece


# What a database has: rows of (schema, table, column, type, estimate of rows), as its catalogue tells them.


def tables_reply(rows: Iterable[Sequence[Any]], search: str) -> Reply:
    """The tables with their columns, all or those with a word in a name."""
    found: dict[str, dict[str, Any]] = {}
    for schema, table, column, kind, estimate in rows:
        name = f"{schema}.{table}" if schema else str(table)
        entry = found.setdefault(name, {"name": name, "columns": [], "rows": estimate})
        entry["columns"].append([str(column), str(kind)])
    word = search.casefold()
    tables = [
        table
        for table in found.values()
        if not word
        or word in table["name"].casefold()
        or any(word in one[0].casefold() for one in table["columns"])
    ]
    return json_reply({"tables": tables[:_MOST_TABLES], "more": max(0, len(tables) - _MOST_TABLES)})


def named_parameters(sql: str, parameters: Mapping[str, Any]) -> str:
    """The statement with ``$name`` as DB-API's ``%(name)s``; unchanged where nothing is given."""
    from cellwright_kernel.sqltext import tokens_of

    if not parameters:
        return sql
    made, done = [], 0
    for token in tokens_of(sql):
        if token.kind == "parameter" and token.text[1:] in parameters:
            made += [sql[done : token.start].replace("%", "%%"), f"%({token.text[1:]})s"]
            done = token.end
    return "".join([*made, sql[done:].replace("%", "%%")])
