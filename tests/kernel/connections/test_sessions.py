"""Connections of real sessions: an agent reads a database and a store by name, and no credential is found anywhere."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client

from cellwright import Engine, Session
from cellwright.audit import read_lines
from cellwright.mcp import McpServer
from cellwright.notebook.languages import cell_metadata
from tests.kernel.connections.test_brokers import address, make_bucket, opened
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, connected, running, text_of
from tests.support.connections.servers import SECRET, Served
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

# No longer text than its letters, each in a class of its own: what looks for the credential does not hold it.
SEARCH = """
import os, re
needle = re.compile(b"".join(b"[%c]" % letter for letter in {letters}))
found = []
for line in open("/proc/self/maps"):
    span, rights = line.split()[:2]
    if "r" not in rights or "[v" in line:
        continue
    start, end = (int(one, 16) for one in span.split("-"))
    with open("/proc/self/mem", "rb", 0) as memory:
        memory.seek(start)
        try:
            found += needle.findall(memory.read(end - start))
        except OSError:
            pass
print(len(found), sum(bool(needle.search(open(f"/proc/{{pid}}/environ", "rb").read())) for pid in os.listdir("/proc") if pid.isdigit()))
"""


@pytest.fixture(scope="module")
async def engine(
    tmp_path_factory: pytest.TempPathFactory, postgresql: Served, object_store: Served
) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("connections")
    with sqlite3.connect(root / "shop.db") as made:
        made.execute("CREATE TABLE orders (id INTEGER, customer TEXT, total REAL)")
        made.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)", [(n, f"c{n % 3}", n * 1.5) for n in range(1000)]
        )
    made.close()
    lake = f"s3://AKIATEST:{quote(SECRET, safe='')}@lake/raw?endpoint={quote(object_store.address)}"
    make_bucket(object_store)
    async with opened(url=lake, read_only=False) as broker:
        await broker.ask(
            {"do": "write", "path": "customers.csv", "data": b"customer,city\nc0,Oslo\nc1,Bonn\nc2,Rome\n"}
        )
    connections = {
        "shop": {"url": f"sqlite:///{root}/shop.db", "max_rows": 500},
        "sales": {"url": address("postgresql", postgresql)},
        "lake": {"url": lake},
    }
    async with open_at(root, connections=connections, standby_kernels=1, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[Client]:
    face = McpServer(engine, toolset="core", pace=PACE)
    async with running(face) as face, connected(face) as client:
        yield client


async def run(session: Session, code: str, language: str | None = None) -> Any:
    cell = await session.add_cell(code, metadata=cell_metadata(language=language))
    return await session.run(cell.id)


async def test_cells_read_by_name_and_rows_are_bounded_and_audited(engine: Engine) -> None:
    session = await engine.create("by name", mode="private")
    await run(session, "least = 1494")
    asked = "-- connection: shop\n-- result: top\nSELECT id FROM orders WHERE total > $least ORDER BY id"
    assert (await run(session, asked, "sql")).text.split() == ["id", "0", "997", "1", "998", "2", "999"]
    execution = await run(
        session,
        "from cellwright_kernel import connect\nshop = connect('shop')\n"
        "print(len(top), shop.query('SELECT count(*) AS n FROM orders').n[0], len(shop.query('SELECT * FROM orders')))\n"
        "print([table['name'] for table in shop.schema('customer')])",
    )
    assert execution.ok, execution.text
    assert "3 1000 500\n['orders']" in execution.text
    assert "only 500 rows" in execution.text
    failed = await run(session, "-- connection: shop\nDELETE FROM orders", "sql")
    assert failed.state == "error"
    assert "readonly" in failed.text or "read-only" in failed.text, failed.text
    assert "There are: shop, sales, lake" in (await run(session, "connect('none').query('SELECT 1')")).text
    lines = [json.loads(line) for line in read_lines(engine.settings.storage)]
    told = [line["about"] for line in lines if line["kind"] == "connection" and line["session"] == session.id]
    assert [(one["connection"], one["did"], one["rows"], one["failed"]) for one in told] == [
        ("shop", "query", 3, False),
        ("shop", "query", 1, False),
        ("shop", "query", 500, False),
        ("shop", "schema", 0, False),
        ("shop", "query", 0, True),
    ]
    assert "SELECT" not in json.dumps(told)


async def test_other_hosts_stay_closed_and_nobody_else_is_asked_for(engine: Engine) -> None:
    session = await engine.create("closed", mode="private")
    execution = await run(
        session,
        "import http.client, os\n"
        "def ask(url, **headers):\n"
        "    proxy = http.client.HTTPConnection('127.0.0.1', 3128)\n"
        "    proxy.request('POST', url, '{}', headers)\n"
        "    return proxy.getresponse().status\n"
        "print(ask('http://192.0.2.7/'), ask('http://shop.connections.cellwright/none'),"
        " ask('http://shop.connections.cellwright/schema', **{'X-Cellwright-Kernel': 's-1.1'}), 'HTTP_PROXY' in os.environ)",
    )
    assert execution.text.split() == ["403", "422", "200", "False"]


async def test_an_interrupted_query_ends_and_the_next_is_answered(engine: Engine) -> None:
    session = await engine.create("interrupted", mode="private")
    await run(
        session,
        "from cellwright_kernel import connect\nsales = connect('sales')\nsales.query('SELECT 1 AS a')",
    )
    execution = await session.execute_code("print('asked', flush=True)\nsales.query('SELECT pg_sleep(600)')")
    while "asked" not in execution.text:
        await asyncio.sleep(0.01)
    await session.interrupt()
    assert (await execution.wait()).state == "interrupted"
    assert "1" in (await run(session, "sales.query('SELECT 1 AS a')")).text


def anywhere(root: Path) -> Iterator[str]:
    """The files below a directory that hold the credential, in any spelling."""
    plain = SECRET.encode()
    spellings = (
        plain,
        quote(SECRET, safe="").encode(),
        base64.b64encode(plain),
        json.dumps(SECRET)[1:-1].encode(),
    )
    for path in root.rglob("*"):
        if path.is_file() and any(one in path.read_bytes() for one in spellings):
            yield str(path)


async def test_an_agent_works_on_a_database_and_a_store_and_no_credential_is_found(
    engine: Engine, client: Client, record_property: Any
) -> None:
    read = 0

    async def call(tool: str, /, **arguments: Any) -> str:
        nonlocal read
        text = text_of(await client.call_tool(tool, arguments))
        read += len(text)
        return text

    async def other(tool: str, /, **arguments: Any) -> str:
        return await call("toolset_enable", tool=tool, arguments=arguments)

    listed = await other("connection_list", max_tokens=400)
    assert (
        "public.orders(id integer, customer character varying(20), total numeric(10,2), day date)" in listed
    )
    assert "customers.csv" in listed
    assert "c0 | 66" in await other(
        "connection_call",
        connection="sales",
        operation="query",
        arguments={"sql": "SELECT customer, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1"},
    )
    await call("notebook_create", name="sales by city")
    cells = [
        ("sql", "-- connection: sales\n-- result: orders\nSELECT * FROM orders"),
        ("python", "orders.dtypes"),
        ("python", "from cellwright_kernel import connect\nlake = connect('lake')\nlake.list()"),
        ("python", "lake.read('customers.csv')[:13]"),
        ("python", "import pandas as pd\ncustomers = pd.read_csv(lake.fetch('customers.csv'))\ncustomers"),
        ("python", "since = '2026-01-20'"),
        ("sql", "-- connection: sales\n-- result: late\nSELECT count(*) AS n FROM orders WHERE day >= $since::date"),
        ("python", "joined = orders.merge(customers)\njoined['total'] = joined.total.astype(float)\nlen(joined)"),
        ("sql", "-- result: by_city\nSELECT city, sum(total) AS total FROM joined GROUP BY city ORDER BY city"),
        ("python", "assert by_city.total.sum() == joined.total.sum()"),
        ("sql", "-- connection: sales\nSELECT current_user, current_setting('transaction_read_only') AS read_only"),
        ("python", SEARCH.format(letters=list(SECRET.encode()))),
    ]  # fmt: skip
    replies = [await call("cell_add_and_run", code=code, language=language) for language, code in cells]
    assert all(reply.startswith("ok") for reply in replies), replies
    assert "Bonn" in replies[4]
    assert "ann" in replies[10]
    assert "on" in replies[10]
    assert "0 0" in replies[11]
    record_property("tokens", read // 4)
    assert read // 4 < 1_000, f"{read // 4} tokens"
    await engine.sessions()[-1].save()
    assert not [*anywhere(engine.settings.storage.parent)]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"cellwright" in (process / "cmdline").read_bytes():
                assert (
                    SECRET.encode()
                    not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
                )
        except OSError:
            continue
