"""Clients that say anything: over MCP to the real MCP server, over HTTP to the real page. Each has an answer; nothing fails inside."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from hypothesis import strategies as st
from mcp import Client

from cellwright import Engine, Session
from cellwright.daemon._mcp_servers import McpServers
from cellwright.daemon._ports import Entry, page_for_people
from cellwright.mcp import McpServer
from cellwright.unixstreams import UnixStream, lines
from tests.support.fuzzing import each_effort, mutated_json, mutated_values, seeds, try_all
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

# What costs a kernel's work or a model's, or waits: the call as such is the same.
LEFT_OUT = ("run_script", "fetch", "ask", "verify", "review", "replay", "wait", "install", "execution_follow")
PING = b'{"jsonrpc":"2.0","id":"mark","method":"ping"}\n'
KEY = "a token for the page"


@pytest.fixture
async def session(engine: Engine) -> Session:
    session = await engine.create("fuzzed")
    cell = await session.add_cell("print(1)\n{'a': 1}")
    await (await session.execute(cell.id)).wait()
    return session


def drawn(strategy: st.SearchStrategy[Any], *, examples: int, effort: float) -> list[Any]:
    """Inputs, drawn before the loop that they are tried in."""
    found: list[Any] = []

    def keep(value: Any) -> None:
        found.append(value)

    try_all(keep, strategy, examples=examples, effort=effort)
    return found


def inner_failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.getMessage()} {record.exc_info}" for record in caplog.records if record.exc_info]


async def call_of(client: Client, session: Session) -> list[dict[str, Any]]:
    """Two calls of each tool that only reads: with an argument for each parameter, and with those that are known."""
    known = {"session_id": session.id, "cell_id": session.cells[0].id}
    calls = []
    for tool in (await client.list_tools()).tools:
        reads = tool.annotations is not None and tool.annotations.read_only_hint
        if not reads or tool.name.startswith(LEFT_OUT):
            continue
        names = tool.input_schema.get("properties", {})
        calls.append({"name": tool.name, "arguments": {name: known.get(name, 1) for name in names}})
        calls.append({"name": tool.name, "arguments": {name: known[name] for name in names if name in known}})
    return calls


@each_effort
async def test_whatever_a_client_calls_it_is_answered_and_so_is_the_next(
    effort: float, face: McpServer, client: Client, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        for call in await call_of(client, session)
    ]
    assert len(calls) > 10
    said = drawn(mutated_json([*seeds("mcp.json"), *calls]), examples=120, effort=effort)
    mine, theirs = (UnixStream(end) for end in socket.socketpair())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(face.serve, mine, mine)
        replies = lines(theirs)
        for opening in seeds("mcp.json")[:2]:
            await theirs.send(json.dumps(opening).encode() + b"\n")
        done = 0
        for line in (*(json.dumps(call).encode() for call in calls), *said):
            await theirs.send(line.replace(b"\n", b" ") + b"\n" + PING)
            with fail_after():
                async for reply in replies:
                    told = json.loads(reply)
                    done += "content" in told.get("result", {})
                    if told.get("id") == "mark":
                        break
                else:
                    pytest.fail(f"the connection ended: {line!r}")
            assert not inner_failures(caplog), line
        assert done, "no call came as far as its tool"
        await theirs.aclose()
        tasks.cancel_scope.cancel()
    await mine.aclose()


@each_effort
async def test_whatever_is_asked_of_the_page_it_does_not_fail(
    effort: float, engine: Engine, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    at = f"/sessions/{session.id}"
    cell = f"{at}/cells/{session.cells[0].id}"
    paths = [
        *("/", "/enter", "/chats", "/assets/page.js", "/verified/x", at, f"{at}/history", f"{at}/files"),
        *(f"{at}/events", f"{at}/executions/x/outputs", f"{cell}/outputs/0", f"{cell}/outputs/9/table"),
        *(f"{at}/cells", f"{cell}/edit", f"{cell}/move", f"{cell}/comments", f"{cell}/again"),
    ]
    fields = {"cell": "x", "state": "ok", "before": "3", "sort": "a", "page": "2", "rows": "5"}
    fields |= {"source": "1", "version": "1", "where": "up", "text": "why", "kind": "code", "beside": "x"}
    requests = st.tuples(
        st.sampled_from(["GET", "POST", "HEAD", "PUT"]),
        st.sampled_from(paths),
        st.one_of(st.just([]), st.lists(st.text(max_size=6), max_size=2)),
        mutated_values([fields]),
    )
    said = drawn(requests, examples=120, effort=effort)
    async with McpServers(engine) as faces:
        app = await page_for_people(KEY, Entry(), engine, faces)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=True)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as browser:
            entered = await browser.post("/enter", data={"token": KEY})
            assert entered.status_code < 400
            first = await browser.get(at)
            assert first.status_code == 200
            browser.headers["x-cellwright-page"] = first.text.partition('name="csrf" content="')[2].partition(
                '"'
            )[0]
            for method, path, more, fields in said:
                await _ask(
                    browser,
                    method,
                    "/".join([path, *(quote(part, safe="", errors="replace") for part in more)]),
                    fields,
                )
                assert not inner_failures(caplog), (method, path, more, fields)


async def _ask(browser: httpx2.AsyncClient, method: str, url: str, fields: Any) -> None:
    if url.endswith("/events") or not isinstance(fields, dict):
        fields = {}
    values = {
        str(key).encode("utf-8", "replace").decode(): str(value)[:2_000].encode("utf-8", "replace").decode()
        for key, value in fields.items()
    }
    sent: dict[str, Any] = {"data": values} if method == "POST" else {"params": values}
    with anyio.move_on_after(5):  # a stream of events has no end
        answer = await browser.request(method, url, **sent)
        assert answer.status_code < 500, (method, url, values)
