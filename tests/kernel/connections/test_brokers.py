"""Brokers at real servers: what is read comes back typed and bounded, and nothing is written through one that only reads."""

from __future__ import annotations

import http.server
import json
import sqlite3
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cellwright.connections.broker import Broker
from cellwright.connections.known import known_connections
from cellwright.errors import ConnectionFailed
from cellwright.settings.model import ConnectionSettings
from tests.support.connections.servers import SECRET, Served
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

COUNT = "SELECT count(*) AS n FROM orders"


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Broker]:
    broker = Broker(known_connections({"sales": ConnectionSettings(**settings)})["sales"])
    try:
        with fail_after():
            yield broker
    finally:
        await broker.close()


def address(kind: str, served: Served) -> str:
    return f"{kind}://{served.user}:{quote(SECRET, safe='')}@{served.address}"


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "sales.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE orders (id INTEGER, customer TEXT, total NUMERIC, day TEXT)")
        made.executemany("INSERT INTO orders VALUES (?, 'c1', 2.5, '2026-01-02')", [(n,) for n in range(200)])
    made.close()
    return path


@pytest.fixture(scope="module")
def duckdb_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import duckdb

    path = tmp_path_factory.mktemp("duckdb") / "sales.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE orders AS SELECT i AS id, 'c1' AS customer, 2.5 AS total FROM range(200) r(i)"
        )
    return path


@pytest.fixture(params=["postgresql", "mysql", "sqlite", "duckdb"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql":
        return address("postgresql", request.getfixturevalue("postgresql"))
    if request.param == "mysql":
        return address("mariadb", request.getfixturevalue("mariadb"))
    return f"{request.param}:///{request.getfixturevalue(f'{request.param}_file')}"


async def asked(broker: Broker, sql: str, **more: Any) -> Any:
    return (await broker.ask({"do": "query", "sql": sql, **more})).value()


async def test_a_query_is_answered_typed_and_bounded_and_the_schema_is_told(url: str) -> None:
    async with opened(url=url, max_rows=50) as broker:
        held = await asked(
            broker,
            "SELECT id, customer, total FROM orders WHERE id > $least ORDER BY id",
            parameters={"least": 3},
        )
        assert next((one["name"], one["values"][0]) for one in held["columns"]) == ("id", 4)
        assert (held["rows"], held["truncated"]) == (50, "50 rows (max_rows)")
        assert (await asked(broker, COUNT))["columns"][0]["values"] == [200]
        schema = (await broker.ask({"do": "schema", "search": "CUSTOM"})).value()
        (orders,) = schema["tables"]
        assert orders["name"].endswith("orders")
        assert [name for name, _ in orders["columns"]][:3] == ["id", "customer", "total"]


WRITES = [
    "DELETE FROM orders",
    "CREATE TABLE mine (a INTEGER)",
    "COMMIT",
    "ROLLBACK",
]
OWN_WAYS = {
    "postgresql": [
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "SET TRANSACTION READ WRITE",
        "COMMIT; DELETE FROM orders",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM orders; END $$",
        "DO $$ BEGIN COMMIT; DELETE FROM orders; END $$",
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM gone",
    ],
    "mariadb": [
        "SET SESSION TRANSACTION READ WRITE",
        "START TRANSACTION READ WRITE",
        "COMMIT; DELETE FROM orders",
        "BEGIN NOT ATOMIC COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM orders; COMMIT; END",
        "EXECUTE IMMEDIATE 'BEGIN NOT ATOMIC COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM orders; END'",
        "SET STATEMENT tx_read_only = 0 FOR DELETE FROM orders",
        "/*! BEGIN NOT ATOMIC COMMIT; SET SESSION TRANSACTION READ WRITE; IF 1 THEN */ SHOW TABLES /*! ; DELETE FROM orders; END IF; END */",
    ],
    "sqlite": ["PRAGMA query_only = off", "ATTACH 'beside.db' AS other", "VACUUM INTO 'beside.db'", "BEGIN IMMEDIATE"],
    "duckdb": ["ATTACH 'beside.db' AS other", "COPY orders TO 'beside.csv'", "SET enable_external_access = true"],
}  # fmt: skip


async def test_nothing_is_written_through_a_connection_that_only_reads(url: str) -> None:
    async with opened(url=url) as broker:
        for sql in (*WRITES, *OWN_WAYS[url.partition(":")[0]]):
            for statement in (sql, "DELETE FROM orders"):
                answer = await broker.ask({"do": "query", "sql": statement})
                if statement == "DELETE FROM orders":
                    assert answer.kind == "error", (sql, answer)
            assert (await asked(broker, COUNT))["columns"][0]["values"] == [200], sql


async def test_one_that_may_write_does_and_says_how_much(url: str) -> None:
    async with opened(url=url, read_only=False) as broker:
        await asked(broker, "CREATE TABLE notes (a INTEGER)")
        if not url.startswith("duckdb"):  # which does not tell
            assert (await asked(broker, "INSERT INTO notes VALUES (1), (2)"))["changed"] == 2
        await asked(broker, "DROP TABLE notes")


async def test_a_wrong_password_is_told_without_it(postgresql: Served, mariadb: Served) -> None:
    for kind, served in (("postgresql", postgresql), ("mysql", mariadb)):
        async with opened(url=f"{kind}://ann:quite-wrong@{served.address}") as broker:
            with pytest.raises(ConnectionFailed, match=r"(?i)password") as failed:
                await asked(broker, COUNT)
            assert "quite-wrong" not in str(failed.value)


async def test_a_query_that_takes_too_long_ends_and_the_next_one_is_answered(postgresql: Served) -> None:
    async with opened(url=address("postgresql", postgresql), timeout_s=1) as broker:
        with pytest.raises(ConnectionFailed, match=r"statement timeout|within 1 s"):
            await asked(broker, "SELECT pg_sleep(600)")
        assert (await asked(broker, COUNT))["rows"] == 1


async def test_values_of_every_type_come_back_as_what_they_are(postgresql: Served) -> None:
    async with opened(url=address("postgresql", postgresql)) as broker:
        held = await asked(
            broker,
            "SELECT 1.10::numeric AS a, '\\x00ff'::bytea AS b, '2026-01-02T03:04:05Z'::timestamptz AS c, "
            "DATE '2026-01-02' AS d, '{\"k\": [1]}'::jsonb AS e, NULL::text AS f, 12345678901234567890::numeric AS g, "
            "true AS h, ARRAY[1, 2] AS i, 'NaN'::float8 AS j",
        )
        assert [(one["name"], one["type"], one["values"][0]) for one in held["columns"]] == [
            ("a", "decimal", "1.10"), ("b", "bytes", "AP8="), ("c", "instant", "2026-01-02T03:04:05+00:00"),
            ("d", "date", "2026-01-02"), ("e", "json", '{"k": [1]}'), ("f", "text", None),
            ("g", "decimal", "12345678901234567890"), ("h", "bool", True), ("i", "json", "[1, 2]"), ("j", "float", None),
        ]  # fmt: skip


async def test_objects_are_listed_read_in_parts_and_written_only_where_that_is_allowed(
    object_store: Served,
) -> None:
    own = {"username": served_key(object_store), "password_env": "CW_TEST_S3"}
    url = f"s3://lake/raw?endpoint={quote(object_store.address)}&region=us-east-1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CW_TEST_S3", SECRET)
        make_bucket(object_store)
        async with opened(url=url, read_only=False, **own) as broker:
            wrote = await broker.ask({"do": "write", "path": "2026/orders.csv", "data": b"a,b\n1,2\n"})
            assert wrote.value() == {"path": "2026/orders.csv", "bytes": 8}
        async with opened(url=url, max_bytes=1024, **own) as broker:
            listed = (await broker.ask({"do": "list", "path": "2026"})).value()
            assert [(one["path"], one["bytes"]) for one in listed["objects"]] == [("2026/orders.csv", 8)]
            read = await broker.ask({"do": "read", "path": "2026/orders.csv", "start": 4, "length": 100})
            assert (read.kind, read.payload) == ("bytes", b"1,2\n")
            for refused in (
                {"do": "write", "path": "x", "data": b""},
                {"do": "read", "path": "../other/secret"},
                {"do": "read", "path": "none"},
            ):
                assert (await broker.ask(refused)).kind == "error"


class Api(http.server.BaseHTTPRequestHandler):
    """Tells what it was asked with, the credential too, as no server should."""

    def do_GET(self) -> None:  # the standard library's name
        path = self.path.partition("?")[0]
        told = {"path": self.path, "signed": self.headers.get("Authorization")}
        self.send_response(302 if path == "/v1/away" else 200)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(json.dumps(DESCRIPTION if path == "/v1/openapi.json" else told).encode())

    def log_message(self, format: str, *args: object) -> None:  # the standard library's name
        """Say nothing."""


DESCRIPTION = {
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {
                "operationId": "orderById",
                "summary": "One order",
                "parameters": [{"name": "full", "in": "query"}],
            },
            "delete": {"operationId": "dropOrder"},
        },
        "/away": {"get": {}},
    },
    "components": {"parameters": {"id": {"name": "id", "in": "path", "required": True}}},
}


async def test_an_api_is_called_by_operation_signed_outside_and_only_reads() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            url = f"http://:{quote(SECRET, safe='')}@127.0.0.1:{server.server_port}/v1"
            async with opened(url=url) as broker:
                told = (await broker.ask({"do": "schema", "search": ""})).value()["operations"]
                assert [(one["name"], one["arguments"]) for one in told] == [
                    ("orderById", [["id", True], ["full", False]]),
                    ("GET /away", []),
                ]
                call = {"do": "call", "operation": "orderById", "arguments": {"id": "a/../b", "full": 1}}
                result = (await broker.ask(call)).value()["result"]
                assert result == {"path": "/v1/orders/a%2F..%2Fb?full=1", "signed": "Bearer [redacted]"}
                for operation, arguments, why in (
                    ("dropOrder", {"id": 1}, "read-only"),
                    ("orderById", {}, "needs id"),
                    ("orderById", {"id": ".."}, "no part of a path"),
                    ("orderById", {"id": 1, "x": 2}, "takes no x"),
                    ("GET /away", {}, "HTTP 302"),
                    ("none", {}, "no operation"),
                ):
                    with pytest.raises(ConnectionFailed, match=why):
                        (
                            await broker.ask({"do": "call", "operation": operation, "arguments": arguments})
                        ).value()
        finally:
            server.shutdown()


def served_key(_: Served) -> str:
    return "AKIATEST"


def make_bucket(served: Served) -> None:

    request = urllib.request.Request(f"{served.address}/lake", method="PUT")  # noqa: S310  # our own server
    urllib.request.urlopen(request).close()  # noqa: S310  # as above
