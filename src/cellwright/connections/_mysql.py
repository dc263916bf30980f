"""MySQL and MariaDB, inside a broker. Each statement has a transaction of its own, which the server keeps read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pymysql.cursors

from cellwright.connections._services import (
    Given,
    Refused,
    Reply,
    described,
    json_reply,
    named_parameters,
    pieces,
    table_reply,
    tables_reply,
)

__all__ = ["Mysql"]

_CATALOGUE = """
    SELECT IF(c.table_schema = DATABASE(), '', c.table_schema), c.table_name, c.column_name, c.column_type, t.table_rows
    FROM information_schema.columns c
    JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
    WHERE c.table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
    ORDER BY c.table_schema = DATABASE() DESC, c.table_schema, c.table_name, c.ordinal_position
"""


_SYNTAX_ERROR = 1064

# No comment of the other kind before it: what stands in ``/*! … */`` the server runs.
_TELLS = re.compile(r"(?:\s|--[ \t][^\n]*\n)*(?:SHOW|DESC|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)


class Mysql:
    """A connection that is opened with the first request, and again after it broke."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._connection: pymysql.Connection[Any] | None = None

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        return described(request, "mysql", {"query": self._query, "schema": self._schema})

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        with self._transaction() as cursor:
            cursor.execute(_CATALOGUE)
            return tables_reply(cursor.fetchall(), str(request.get("search", "")))

    def _query(self, request: Mapping[str, Any]) -> Reply:
        parameters = request.get("parameters") or {}
        sql = named_parameters(str(request["sql"]), parameters)
        with self._transaction() as cursor:
            if self._given.read_only and not _TELLS.match(sql):
                _refuse_compound(cursor, sql, parameters)
            cursor.execute(sql, parameters or None)
            if cursor.description is None:
                return json_reply({"changed": cursor.rowcount, "status": ""})
            names = [str(column[0]) for column in cursor.description]
            return table_reply(self._given, names, pieces(cursor.fetchmany), wanted=request.get("max_rows"))

    @contextmanager
    def _transaction(self) -> Iterator[pymysql.cursors.Cursor]:
        connection = self._connection or self._connect()
        # Put back only once all went well: a connection that is in the midst of rows is of no use.
        self._connection = None
        with connection.cursor() as cursor:
            if self._given.read_only:
                cursor.execute("ROLLBACK")
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
                cursor.execute("START TRANSACTION READ ONLY")
            else:
                cursor.execute("START TRANSACTION")
        try:
            with connection.cursor(pymysql.cursors.SSCursor) as cursor:
                yield cursor
            connection.rollback() if self._given.read_only else connection.commit()
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _connect(self) -> pymysql.Connection[Any]:
        given, parts = self._given, urlsplit(self._given.url)
        query = given.query
        secured = {"ssl_ca": query["ssl_ca"]} if "ssl_ca" in query else {}
        connection: pymysql.Connection[Any] = pymysql.connect(
            host=parts.hostname or "localhost",
            port=parts.port or 3306,
            unix_socket=query.get("unix_socket"),
            user=given.username or None,
            password=(given.password or "").encode(),  # text it would take for Latin-1
            database=unquote(parts.path.lstrip("/")) or None,
            charset="utf8mb4",
            connect_timeout=10,
            read_timeout=int(given.timeout_s) + 1,
            local_infile=False,
            program_name=f"cellwright {given.name}",
            **secured,
        )
        with connection.cursor() as cursor:
            if "MariaDB" in str(connection.get_server_info()):
                cursor.execute("SET SESSION max_statement_time = %s", (given.timeout_s,))
            else:
                cursor.execute("SET SESSION max_execution_time = %s", (int(given.timeout_s * 1000),))
        return connection


def _refuse_compound(cursor: pymysql.cursors.Cursor, sql: str, parameters: Mapping[str, Any]) -> None:
    """Have the server say that it is one plain statement: a compound one could end the transaction in its midst.

    It explains queries and changes of rows, which the transaction refuses, and nothing else.
    """
    try:
        cursor.execute(f"EXPLAIN\n{sql}", parameters or None)
        cursor.fetchall()
    except pymysql.err.ProgrammingError as error:
        if error.args[0] != _SYNTAX_ERROR:
            raise
        raise Refused(
            f"The server cannot explain this statement, so it is no query: {error.args[1]}",
            "A connection that only reads answers SELECT, WITH, SHOW, DESCRIBE and EXPLAIN",
        ) from None
