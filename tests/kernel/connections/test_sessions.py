"""Connections of real sessions: cells, scripts and agents ask by name, within limits, and the audit log has it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client

from cellwright import Engine, Session
from cellwright.agent.data_agent import DataAgent
from cellwright.agent.models.chain import Chain
from cellwright.agent.questions import Question
from cellwright.audit import read_lines
from cellwright.mcp import McpServer
from cellwright.notebook.languages import cell_metadata
from tests.kernel.connections.test_brokers import address, make_bucket, opened
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, connected, running, text_of
from tests.support.agent.scripting import Call, Script, told
from tests.support.connections.servers import SECRET, TRACKER, Served
from tests.waiting import UNHURRIED, scaled

pytestmark = pytest.mark.anyio


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
    (root / "token").write_text(SECRET)
    own = {"auth": "env:TRACKER_TOKEN", "password_file": root / "token"}
    connections = {
        "tracker": {"command": TRACKER, "timeout_s": scaled(50), **own},
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
    assert (
        "There are: tracker, shop, sales, lake"
        in (await run(session, "connect('none').query('SELECT 1')")).text
    )
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


async def test_tools_of_another_mcp_server_are_called_from_cells_scripts_and_by_agents(
    engine: Engine, client: Client
) -> None:
    async def said(tool: str, **arguments: Any) -> str:
        return text_of(await client.call_tool("toolset_enable", {"tool": tool, "arguments": arguments}))

    session = await engine.create("issues", mode="private")
    execution = await run(
        session, "from cellwright_kernel import connect\nconnect('tracker').call('issues', state='closed')"
    )
    assert execution.text == "{'issues': ['Lost']}\n"
    script = (
        "from cellwright_kernel import connect\nprint(connect('tracker').call('issue', operation='Slow'))"
    )
    assert "Slow: all is said" in await said("python_execute", code=script)
    listed = await said("connection_list", connection="tracker", search="issue")
    assert 'issues(state: "open"|"closed"): The issues in a state.' in listed
    asked = await said("connection_call", connection="tracker", operation="issues")
    assert asked == '{"issues":["Slow"]}'
    refused = await said("connection_call", connection="tracker", operation="add", arguments={"title": "x"})
    assert "not annotated as read-only" in refused

    calls = [
        Call("tracker_issues"),
        Call("connection_call", {"connection": "tracker", "operation": "issues"}),
    ]
    model = Script({"main/act": [calls, "Slow is open."]})
    question = Question(
        "What is open?",
        directory=engine.settings.root,
        verify=False,
        servers=(engine.connections.known["tracker"],),
    )
    async with running(McpServer(engine, pace=PACE)) as face:

        async def connect(_: Question) -> Chain:
            return Chain((model,))

        outcome = await DataAgent(face, connect=connect).ask(question, ())
    assert outcome.answer == "Slow is open."
    assert told(model.prompts[1]).count('"issues"') >= 2

    lines = [json.loads(line) for line in read_lines(engine.settings.storage)]
    asked_of = [line["about"] for line in lines if line["kind"] == "connection"]
    tracked = [(one["did"], one.get("operation")) for one in asked_of if one["connection"] == "tracker"]
    assert tracked == [
        ("call", "issues"), ("call", "issue"), ("schema", None), ("call", "issues"), ("call", "add"),
        ("tools", None), ("show", "issues"), ("call", "issues"),
    ]  # fmt: skip
    assert SECRET not in json.dumps(lines) + listed
