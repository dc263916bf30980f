from __future__ import annotations

import json
import warnings
from typing import Any

import anyio
import pytest
from mcp import Client, MCPDeprecationWarning, MCPError
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.types import (
    LoggingMessageNotificationParams,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
)

from cellwright import Engine
from cellwright.mcp import server
from tests.kernel.mcp.conftest import Connect, ask, new_session, read
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def text_at(client: Client, uri: str) -> str:
    return (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]


async def test_state_history_context_and_every_output_are_listed_one_by_one(client: Client) -> None:
    session = await new_session(client)
    run = await ask(client, "cell_add_and_run", content="print('shown')\n7", response_format="json")
    listed = {str(resource.uri): resource for resource in (await client.list_resources()).resources}
    base = f"notebook://session/{session}"
    cell = f"{base}/cells/{run['cell_id']}/outputs"
    assert {f"{base}/state", f"{base}/history", f"{base}/context", f"{cell}/0", f"{cell}/1"} <= set(listed)
    assert all(listed[uri].description for uri in listed)
    assert await text_at(client, f"{cell}/0") == "shown\n"
    assert await text_at(client, f"{cell}/1") == "7"


async def test_state_and_history_tell_cells_and_executions(client: Client) -> None:
    session = await new_session(client)
    run = await ask(client, "cell_add_and_run", content="1 / 0", response_format="json")
    state = json.loads(await text_at(client, f"notebook://session/{session}/state"))
    assert (state["session_id"], state["state"]) == (session, "active")
    cell = state["cells"][1]
    assert (cell["id"], cell["state"], cell["content"]) == (run["cell_id"], "error", "1 / 0")
    assert "ZeroDivisionError" in await text_at(client, cell["outputs"][0]["uri"])
    history = json.loads(await text_at(client, f"notebook://session/{session}/history"))
    assert history["executions"][0]["execution_id"] == run["execution_id"]
    assert history["executions"][0]["error"]["ename"] == "ZeroDivisionError"


async def test_templates_name_what_can_be_read(client: Client) -> None:
    templates = {
        template.uri_template for template in (await client.list_resource_templates()).resource_templates
    }
    assert "notebook://session/{session_id}/state" in templates
    assert "notebook://session/{session_id}/cells/{cell_id}/outputs/{index}" in templates


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s-nothing/state", "There is no session"),
        ("{session}/nonsense", "There is no resource"),
        ("{session}/cells/nope/outputs/0", "No cell has the id"),
        ("{session}/cells/problem/outputs/3", "There is no output 3"),
        ("{session}/executions/x-nothing/outputs/0", "There is no execution"),
        ("{session}/export/docx", "There is no format 'docx'"),
    ],
)
async def test_what_is_not_there_is_told(client: Client, engine: Engine, path: str, said: str) -> None:
    session = (engine.sessions() or [await engine.create("resources")])[0].id
    with pytest.raises(MCPError, match=said):
        await client.read_resource(f"notebook://session/{path.format(session=session)}")


async def test_a_client_of_the_handshake_era_is_told_of_what_it_subscribed_to(connect: Connect) -> None:
    told: list[str] = []
    wanted: list[str] = []
    heard = anyio.Event()

    async def handle(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.append(str(message.params.uri))
            if set(told) >= set(wanted):
                heard.set()

    async with connect("legacy", message_handler=handle) as client:
        session = await new_session(client)
        cell = (await ask(client, "cell_add", content="print('new')"))["cell_id"]
        wanted += [
            f"notebook://session/{session}/state",
            f"notebook://session/{session}/cells/{cell}/outputs/0",
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            for uri in wanted:
                await client.subscribe_resource(uri)
        await read(client, "cell_execute", session_id=session, cell_id=cell)
        with fail_after():
            await heard.wait()
        assert set(told) == set(wanted)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_arguments_of_prompts_and_addresses_are_completed_and_long_lists_come_in_pages(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(server, "_PAGE", 3)
    async with connect(mode) as client:
        session = await new_session(client, "penguins")
        run = await ask(client, "cell_add_and_run", content="print('shown')\n7", response_format="json")
        of_cell = ResourceTemplateReference(
            uri="notebook://session/{session_id}/cells/{cell_id}/outputs/{index}"
        )
        of_export = ResourceTemplateReference(uri="notebook://session/{session_id}/export/{format}")
        given = {"session_id": session}

        async def values(ref: Any, name: str, begun: str, given: dict[str, str] | None = None) -> list[str]:
            found = await client.complete(ref, {"name": name, "value": begun}, given)
            return found.completion.values

        names = await values(PromptReference(name="show_status"), "session", "peng")
        assert "_penguins" in names[0]
        assert await values(of_cell, "session_id", session[:4]) == [session]
        assert await values(of_cell, "cell_id", run["cell_id"][:3], given) == [run["cell_id"]]
        assert await values(of_cell, "index", "", {**given, "cell_id": run["cell_id"]}) == ["0", "1"]
        assert await values(of_export, "format", "ht") == ["html"]
        assert await values(of_cell, "cell_id", "", {"session_id": "s-nothing"}) == []

        page = await client.list_resources()
        uris = [str(one.uri) for one in page.resources]
        assert len(uris) == 3
        while page.next_cursor is not None:
            page = await client.list_resources(cursor=page.next_cursor)
            uris += [str(one.uri) for one in page.resources]
        assert len(uris) == len(set(uris))
        assert f"notebook://session/{session}/cells/{run['cell_id']}/outputs/1" in uris
        with pytest.raises(MCPError, match="There is no cursor 'x'"):
            await client.list_resources(cursor="x")


async def test_a_client_of_the_stateless_era_listens(connect: Connect) -> None:
    async with connect("2026-07-28") as client, connect() as other:
        session = await new_session(other)
        uri = f"notebook://session/{session}/history"
        async with client.listen(resource_subscriptions=[uri], resources_list_changed=True) as events:
            await read(other, "cell_add_and_run", session_id=session, content="print(1)")
            seen: set[type] = set()
            with fail_after():
                async for event in events:
                    if isinstance(event, ResourceUpdated):
                        assert event.uri == uri
                    seen.add(type(event))
                    if {ResourceUpdated, ResourcesListChanged} <= seen:
                        break


async def test_log_messages_tell_a_handshake_client_what_happens_in_its_sessions(connect: Connect) -> None:
    entries: list[LoggingMessageNotificationParams] = []
    completed = anyio.Event()

    async def log(entry: LoggingMessageNotificationParams) -> None:
        entries.append(entry)
        if entry.data["event"] == "notebook.cell.completed":
            completed.set()

    async with connect("legacy", logging_callback=log) as client, connect() as other:
        await new_session(client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await client.set_logging_level("info")
        await new_session(other)
        await read(other, "scratch_run", code="'of no concern'")
        await read(client, "scratch_run", code="1 / 0")
        with fail_after():
            await completed.wait()
    sessions = {entry.data["session_id"] for entry in entries}
    assert len(sessions) == 1
    (ended,) = (entry for entry in entries if entry.data["event"] == "notebook.cell.completed")
    assert ended.level == "warning"


async def test_log_messages_of_a_stateless_clients_call_arrive_before_its_answer(connect: Connect) -> None:
    entries: list[str] = []
    said: list[tuple[str, str]] = []

    async def log(entry: LoggingMessageNotificationParams) -> None:
        entries.append(entry.data["event"])
        if entry.data["event"] == "notebook.cell.output":
            said.append((entry.data["output"], entry.data["text"]))

    async with connect("2026-07-28", logging_callback=log, log_level="debug") as client:
        await new_session(client)
        await read(client, "scratch_run", code="print('a' * 5_000)\n1 / 0")
        assert entries.index("notebook.cell.output") < entries.index("notebook.cell.completed")
    assert [kind for kind, _ in said] == ["stdout", "error"]
    assert said[0][1].startswith("aaa")
    assert len(said[0][1]) < 2_100
    assert "ZeroDivisionError" in said[1][1]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_client_can_show_what_a_cell_puts_out_while_it_runs(
    connect: Connect, engine: Engine, era: str
) -> None:
    shown = anyio.Event()

    async def log(entry: LoggingMessageNotificationParams) -> None:
        if entry.data["event"] == "notebook.cell.output" and "step 1" in entry.data.get("text", ""):
            shown.set()

    options = {} if era == "legacy" else {"log_level": "debug"}
    async with connect(era, logging_callback=log, **options) as client:
        session = await new_session(client)
        if era == "legacy":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                await client.set_logging_level("debug")
        code = "import time\nprint('step 1', flush=True)\ntime.sleep(3_600)"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "cell_add_and_run", {"session_id": session, "content": code})
            with fail_after():
                await shown.wait()
            await engine.session(session).interrupt()


async def test_prompts_carry_the_sessions_context(client: Client) -> None:
    session = await new_session(client, "prompted")
    await read(client, "cell_add_and_run", session_id=session, content="carried = 1\n1 / 0")
    for name in ("continue_notebook", "fix_and_retry", "skip_cell", "show_status"):
        got = await client.get_prompt(name, {"session": session})
        text = got.messages[0].content.text  # type: ignore[union-attr]
        assert "ZeroDivisionError" in text
        assert session in text
