"""A DuckDB file, inside a broker: opened read-only, with no way to other files or the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from cellwright.connections._services import (
    Given,
    Reply,
    described,
    json_reply,
    pieces,
    table_reply,
    tables_reply,
)
from cellwright.connections._sqlite import file_of

__all__ = ["Duckdb"]

_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": "1GB",
    "threads": "2",
    "python_enable_replacements": "false",
    "temp_directory": "",
}


class Duckdb:
    """The file, open."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._connection = duckdb.connect(file_of(given), read_only=given.read_only, config=dict(_SETTINGS))
        self._connection.execute("SET lock_configuration = true")

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        return described(request, "duckdb", {"query": self._query, "schema": self._schema})

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        found = self._connection.execute(
            "SELECT CASE c.schema_name WHEN 'main' THEN '' ELSE c.schema_name END, c.table_name, c.column_name, "
            "c.data_type, t.estimated_size FROM duckdb_columns() c "
            "LEFT JOIN duckdb_tables() t ON t.table_oid = c.table_oid AND t.database_oid = c.database_oid "
            "WHERE NOT c.internal ORDER BY c.schema_name, c.table_name, c.column_index"
        )
        return tables_reply(found.fetchall(), str(request.get("search", "")))

    def _query(self, request: Mapping[str, Any]) -> Reply:
        found = self._connection.execute(str(request["sql"]), request.get("parameters") or None)
        if found.description is None:
            return json_reply({"changed": 0, "status": ""})
        names = [str(column[0]) for column in found.description]
        return table_reply(self._given, names, pieces(found.fetchmany), wanted=request.get("max_rows"))
