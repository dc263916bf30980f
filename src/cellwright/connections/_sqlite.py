"""A SQLite file, inside a broker: opened read-only, with no way to another file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cellwright.connections._services import (
    Given,
    Refused,
    Reply,
    described,
    json_reply,
    pieces,
    table_reply,
    tables_reply,
)

__all__ = ["Sqlite", "file_of"]


def file_of(given: Given) -> str:
    """The file that an address names: ``sqlite:////data/sales.db``.

    Raises:
        Refused: it names none, or not from the root.
    """
    from pathlib import Path

    _, _, path = given.url.partition("://")
    found = Path(
        path.removeprefix("/") if path.startswith("//") else path.removeprefix("/") or path
    ).expanduser()
    if not found.is_absolute():
        raise Refused(
            f"Connection {given.name!r}: {given.url} names no file from the root",
            f"Write {given.kind}:////data/file, with four slashes, or {given.kind}:///~/file",
        )
    return str(found)


class Sqlite:
    """The file, open."""

    def __init__(self, given: Given) -> None:
        self._given = given
        mode = "ro" if given.read_only else "rw"
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(file_of(given))}?mode={mode}", uri=True, timeout=10, isolation_level=None
            )
        except sqlite3.OperationalError as error:
            raise Refused(f"{given.url} cannot be opened: {error}", "Check its path and rights") from None
        self._connection.execute(f"PRAGMA query_only = {'on' if given.read_only else 'off'}")
        # Neither ATTACH nor VACUUM INTO: one file was named, and no other is meant.
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        if given.read_only:
            self._connection.set_authorizer(_only_reading)

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        return described(request, "sqlite", {"query": self._query, "schema": self._schema})

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        rows = self._connection.execute(
            "SELECT '', m.name, c.name, coalesce(nullif(c.type, ''), 'any'), NULL FROM sqlite_schema m "
            "JOIN pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' "
            "ORDER BY m.name, c.cid"
        )
        return tables_reply(rows, str(request.get("search", "")))

    def _query(self, request: Mapping[str, Any]) -> Reply:
        cursor = self._connection.execute(str(request["sql"]), request.get("parameters") or {})
        if cursor.description is None:
            return json_reply({"changed": max(cursor.rowcount, 0), "status": ""})
        names = [str(column[0]) for column in cursor.description]
        return table_reply(self._given, names, pieces(cursor.fetchmany), wanted=request.get("max_rows"))


def _only_reading(action: int, first: str | None, second: str | None, *_: object) -> int:
    """What switches ``query_only`` off is a pragma with a value, which nobody needs to read."""
    if action == sqlite3.SQLITE_PRAGMA and second is not None and first == "query_only":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
