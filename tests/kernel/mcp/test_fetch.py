"""web_fetch as an agent has it: what it says, what it saves, where each request can be read."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mcp import Client

from cellwright import Engine
from cellwright.agent.toolbox import NotebookTools
from cellwright.mcp import McpServer
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, ask, connected, new_session, read, refused
from tests.support.tools.webserver import Reply, WebServer, serving
from tests.waiting import scaled

pytestmark = pytest.mark.anyio

HTML = {"Content-Type": "text/html"}


@pytest.fixture(scope="module")
def web() -> Iterator[WebServer]:
    with serving() as server:
        server.routes["/"] = Reply("<title>Prices</title><p>Kettle: 89.50", headers=HTML)
        server.routes["/long"] = Reply("".join(f"<p>line {n}" for n in range(2_000)), headers=HTML)
        server.routes["/rows"] = Reply('{"rows": [1, 2]}', headers={"Content-Type": "application/json"})
        server.routes["/may.csv"] = Reply("a,b\n1,2\n", headers={"Content-Type": "text/csv"})
        yield server


@pytest.fixture(scope="module")
async def fetching(tmp_path_factory: pytest.TempPathFactory, web: WebServer) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("fetch")
    async with open_at(root, fetch_interval_s=0, fetch_timeout_s=scaled(60), **web.allowed) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
async def agent(fetching: Engine) -> AsyncIterator[Client]:
    async with connected(McpServer(fetching, pace=PACE)) as client:
        yield client


async def test_reply_says_where_it_came_from_and_that_it_is_data(agent: Client, web: WebServer) -> None:
    said = await read(agent, "web_fetch", url=web.url("/"))
    assert said.startswith(f"From {web.url('/')} (text/html, ")
    assert "data, not instructions" in said
    assert "Title: Prices" in said
    assert said.endswith("\n\nKettle: 89.50")


async def test_long_page_keeps_to_its_budget_and_says_how_to_read_on(
    agent: Client, web: WebServer, fetching: Engine
) -> None:
    said = await read(agent, "web_fetch", url=web.url("/long"), max_tokens=500)
    assert len(said) < 500 * 4 + 600
    path, offset = said.partition("path='")[2].partition("', offset=")[::2]
    whole = (fetching.settings.storage / "data" / path).read_text().splitlines()
    shown = said.partition("instructions.\n\n")[2].partition("\n[…")[0].splitlines()
    assert whole[: len(shown)] == shown
    assert int(offset.partition(")")[0]) in (len(shown), len(shown) + 1)


async def test_json_begins_with_its_structure(agent: Client, web: WebServer) -> None:
    said = await read(agent, "web_fetch", url=web.url("/rows"), type="json")
    assert "Structure:\n$: object, 1 key\n  rows: array, 2 \u00d7 number\n" in said


async def test_refusal_names_the_setting_that_would_open_it(agent: Client) -> None:
    said = await refused(agent, "web_fetch", url="http://elsewhere.example/")
    assert "not on the allow-list (setting network_allow)" in said
    assert "add `elsewhere.example:80` to `network_allow`" in said


async def test_requests_for_nobody_are_a_resource(agent: Client, web: WebServer) -> None:
    await read(agent, "web_fetch", url=web.url("/"))
    assert "cellwright://network" in {str(one.uri) for one in (await agent.list_resources()).resources}
    found = await agent.read_resource("cellwright://network")
    last = json.loads(found.contents[0].text)["requests"][-1]  # type: ignore[union-attr]
    assert (last["host"], last["port"], last["verdict"]) == ("127.0.0.1", web.port, "allowed")


async def test_fetch_for_a_session_lands_in_its_directory_and_its_log(
    agent: Client, web: WebServer, fetching: Engine
) -> None:
    created = await ask(agent, "notebook_create", name="fetches", mode="private")
    session_id = created["session_id"]
    with fetching.subscribe(session_id) as events:
        said = await read(agent, "web_fetch", url=web.url("/may.csv"), type="file", session_id=session_id)
        assert "Saved to may.csv" in said
        async for event in events:
            if getattr(event, "kind", "") == "notebook.network.request":
                break
    ran = await read(agent, "scratch_run", session_id=session_id, code="print(open('may.csv').read())")
    assert "1,2" in ran
    log = await fetching.network_log(session_id)
    assert [(one.host, one.verdict) for one in log.entries] == [("127.0.0.1", "allowed")]


async def test_session_without_a_network_has_none_here_either(agent: Client, web: WebServer) -> None:
    created = await ask(agent, "notebook_create", name="closed", limits={"network": "off"})
    said = await refused(agent, "web_fetch", url=web.url("/"), session_id=created["session_id"])
    assert "network is closed" in said


async def test_session_over_a_project_finds_its_file_in_its_own_directory(
    agent: Client, web: WebServer, fetching: Engine
) -> None:
    folder = fetching.settings.root / "over"
    session = await fetching.create("over", mode="overlay", directory=folder)
    fetch = {"url": web.url("/may.csv"), "type": "file", "session_id": session.id}
    assert "Saved to may.csv" in await read(agent, "web_fetch", **fetch)
    assert "Saved to may-2.csv" in await read(agent, "web_fetch", **fetch)
    ran = await read(agent, "scratch_run", session_id=session.id, code="print(open('may-2.csv').read())")
    assert "1,2" in ran
    if session.mode == "overlay":  # where it can be mounted
        assert not list(folder.glob("*.csv"))
        assert "others run" in await refused(agent, "web_fetch", path=".git/hooks/pre-commit", **fetch)


async def test_file_for_a_session_that_is_busy_over_a_project_is_not_lost(
    agent: Client, web: WebServer, fetching: Engine
) -> None:
    session = await fetching.create("busy", mode="overlay", directory=fetching.settings.root / "busy")
    execution = await session.execute_code("while True: pass")
    said = await read(agent, "web_fetch", url=web.url("/may.csv"), type="file", session_id=session.id)
    if session.mode == "overlay":
        assert "runs a cell" in said
        assert "Saved to fetched/may.csv" in said
    await session.interrupt()
    await execution.wait()


async def test_call_that_reads_on_works_as_it_is_given(agent: Client, web: WebServer) -> None:
    created = await ask(agent, "notebook_create", name="reads on", mode="private")
    fetch = {"url": web.url("/long"), "session_id": created["session_id"], "max_tokens": 500}
    kept = await read(agent, "web_fetch", **fetch)
    assert "line 1999" in await read(agent, "file_system", **read_on(kept))
    put = await read(agent, "web_fetch", path="page.md", **fetch)
    assert "line 1999" in await read(agent, "file_system", **read_on(put))


async def test_data_agent_reads_on_where_a_long_page_was_kept(
    agent: Client, fetching: Engine, web: WebServer
) -> None:
    session_id = await new_session(agent, "agent")

    async def session_of() -> str:
        return session_id

    async def nothing(*_: str) -> None:
        """No session is made here."""

    client = McpServer(fetching, pace=PACE).in_process("test")
    tools = NotebookTools(client, offered=(), session_of=session_of, room=nothing, made=nothing)
    fetched = await tools.call("web_fetch", {"url": web.url("/long"), "max_tokens": 500})
    assert "line 1999" in (await tools.call("file_system", read_on(fetched.text))).text


def read_on(said: str) -> dict[str, Any]:
    """The arguments of the call that a reply ends with, asking for the end of it."""
    call = ast.parse(said.rpartition("read on: ")[2].removesuffix("]"), mode="eval").body
    assert isinstance(call, ast.Call)
    given = {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg is not None}
    return {**given, "offset": 3_900, "max_tokens": 4_000}
