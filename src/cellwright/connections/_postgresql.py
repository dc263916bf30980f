"""PostgreSQL, inside a broker. Each statement has a transaction of its own, which the server keeps read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

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

__all__ = ["Postgresql"]

_PIECE = 500
_CATALOGUE = """
    SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
           CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND has_table_privilege(c.oid, 'SELECT')
    ORDER BY n.nspname = 'public' DESC, n.nspname, c.relname, a.attnum
"""


class Postgresql:
    """A connection that is opened with the first request, and again after it broke."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._connection: psycopg.Connection[Any] | None = None

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        return described(request, "postgresql", {"query": self._query, "schema": self._schema})

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        with self._transaction() as connection:
            rows = connection.execute(_CATALOGUE).fetchall()
        return tables_reply(rows, str(request.get("search", "")))

    def _query(self, request: Mapping[str, Any]) -> Reply:
        parameters = request.get("parameters") or {}
        sql = named_parameters(str(request["sql"]), parameters)
        with self._transaction() as connection, connection.cursor() as cursor:
            if self._given.read_only:
                # The extended protocol, which takes one statement alone; rows come as they are read.
                rows = cursor.stream(sql, parameters or None, size=_PIECE)
                return self._table(cursor, rows, request)
            cursor.execute(sql, parameters or None, prepare=True)
            if cursor.description is None:
                return json_reply({"changed": max(cursor.rowcount, 0), "status": cursor.statusmessage})
            return self._table(cursor, pieces(cursor.fetchmany), request)

    def _table(
        self, cursor: psycopg.Cursor[Any], rows: Iterator[Sequence[Any]], request: Mapping[str, Any]
    ) -> Reply:
        # The columns are known once a first row was asked for.
        try:
            first = next(rows, None)
        except psycopg.ProgrammingError as error:
            if cursor.description is not None or error.sqlstate is not None:
                raise
            raise Refused(
                "The statement has no rows", "A connection that only reads answers statements that have some"
            ) from None
        names = [column.name for column in cursor.description or ()]
        every = _again(first, rows) if first is not None else iter(())
        return table_reply(self._given, names, every, wanted=request.get("max_rows"))

    def _transaction(self) -> _Transaction:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return _Transaction(self._connection, read_only=self._given.read_only)

    def _connect(self) -> psycopg.Connection[Any]:
        given = self._given
        limit_ms = int(given.timeout_s * 1000)
        options = f"-c statement_timeout={limit_ms} -c idle_in_transaction_session_timeout={limit_ms}"
        if given.read_only:
            options += " -c default_transaction_read_only=on"
        credentials = {"user": given.username, "password": given.password}
        return psycopg.connect(
            given.url,
            autocommit=True,
            prepare_threshold=None,  # what is set back between statements forgets what was prepared
            **{  # libpq's own words
                "application_name": f"cellwright {given.name}",
                "connect_timeout": "10",
                **given.query,
                **{name: value for name, value in credentials.items() if value},
                "options": options,
            },
        )


def _again(first: Sequence[Any], rest: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    yield first
    yield from rest


class _Transaction:
    """One transaction: read-only ones are begun so, and had a statement before the caller's, after which no ``SET
    TRANSACTION`` opens them; they are always rolled back, with whatever was set in them."""

    def __init__(self, connection: psycopg.Connection[Any], *, read_only: bool) -> None:
        self._connection = connection
        self._read_only = read_only

    def __enter__(self) -> psycopg.Connection[Any]:
        self._connection.execute("BEGIN READ ONLY" if self._read_only else "BEGIN")
        self._connection.execute("SELECT 1")
        return self._connection

    def __exit__(self, kind: object, *_: object) -> None:
        if self._connection.closed:
            return
        if self._connection.info.transaction_status == TransactionStatus.ACTIVE:
            self._connection.close()
            return
        keeps = kind is None and not self._read_only
        self._connection.execute("COMMIT" if keeps else "ROLLBACK")
        if self._read_only:
            # A statement that ended the transaction may have begun to set things for good.
            self._connection.execute("DISCARD ALL")
            self._connection.execute("SET default_transaction_read_only = on")
