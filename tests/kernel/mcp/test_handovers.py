"""What agents see of a session that a person takes over: refusals, news, and what changed once it is given back."""

from __future__ import annotations

import json
import warnings
from typing import Any

import anyio
import pytest
from mcp import Client, MCPDeprecationWarning
from mcp.types import LoggingMessageNotificationParams, TextContent

from cellwright import Engine
from cellwright.engine.records import Handback, Meanwhile
from cellwright.mcp.context import handback_note
from cellwright.notebook.document import Comment, with_comment
from tests.kernel.mcp.conftest import Connect
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def call(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    result = await client.call_tool(tool, arguments)
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    return bool(result.is_error), "\n".join(texts)


async def made(client: Client, name: str) -> str:
    failed, text = await call(client, "notebook_create", name=name)
    assert not failed
    session_id: str = json.loads(text)["session_id"]
    return session_id


CHANGING: list[tuple[str, dict[str, Any]]] = [
    ("cell_add", {"content": "1"}),
    ("cell_add_and_run", {"content": "1"}),
    ("cell_execute", {"cell_id": "all"}),
    ("cell_update", {"cell_id": "problem", "content": "1"}),
    ("cell_delete", {"cell_id": "problem"}),
    ("scratch_run", {"code": "1"}),
    ("plan_create", {"problem": "p", "todos": [{"description": "one", "code": "1"}]}),
    ("plan_verify", {}),
    ("checkpoint_create", {}),
    ("session_branch", {}),
    ("kernel_interrupt", {}),
    ("kernel_restart", {}),
    ("session_suspend", {}),
    ("notebook_delete", {}),
    ("file_system", {"action": "write", "path": "a.txt", "content": "a"}),
]
READING: list[tuple[str, dict[str, Any]]] = [
    ("notebook_read", {}),
    ("session_context", {}),
    ("kernel_inspect", {}),
    ("execution_list", {}),
    ("checkpoint_list", {}),
    ("notebook_export", {"format": "markdown"}),
    ("file_system", {"action": "list", "path": "."}),
]


async def test_a_session_that_was_taken_over_can_be_read_and_not_changed(
    connect: Connect, engine: Engine
) -> None:
    async with connect() as client:
        session_id = await made(client, "taken")
        session = engine.session(session_id)
        await session.take_over("ann")
        before = session.document.to_bytes()
        for tool, arguments in CHANGING:
            failed, text = await call(client, tool, session_id=session_id, **arguments)
            assert failed, tool
            assert "ann took this session over" in text, tool
            assert "wait until it is given back" in text, tool
        for tool, arguments in READING:
            failed, text = await call(client, tool, session_id=session_id, **arguments)
            assert not failed, f"{tool}: {text}"
        assert (session.document.to_bytes(), session.state) == (before, "active")
        told = json.loads((await call(client, "session_context", session_id=session_id))[1])
        assert told["held"]["by"] == "ann"


async def test_a_branch_is_not_taken_back_into_a_session_that_a_person_has(
    connect: Connect, engine: Engine
) -> None:
    async with connect() as client:
        session_id = await made(client, "origin")
        branch = json.loads((await call(client, "session_branch", session_id=session_id))[1])["branches"][0]
        await engine.session(session_id).take_over("ann")
        failed, text = await call(client, "branch_adopt", session_id=branch["session_id"])
        assert failed
        assert "ann took this session over" in text


async def test_clients_are_told_at_once_and_each_hears_once_what_a_person_did(
    connect: Connect, engine: Engine
) -> None:
    heard: list[Any] = []
    arrived = anyio.Event()

    async def hear(message: LoggingMessageNotificationParams) -> None:
        heard.append(message.data)
        if message.data["event"] == "notebook.session.taken":
            arrived.set()

    async with connect(logging_callback=hear) as client, connect() as other, connect() as third:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await client.set_logging_level("info")
        session_id = await made(client, "news")
        await call(other, "cell_add", session_id=session_id, content="x = 1")
        session = engine.session(session_id)
        await session.take_over("ann")
        with fail_after():
            await arrived.wait()
        assert {"event": "notebook.session.taken", "session_id": session_id, "by": "ann"} in heard
        cell = await session.add_cell("y = 2")
        await session.run(cell.id)
        await session.give_back("ann", "Use y, not x")
        for one in (client, other):
            failed, text = await call(one, "cell_add", session_id=session_id, content="y")
            assert not failed
            assert f"added {cell.id}; ran {cell.id}" in text
            assert "ann says: Use y, not x" in text
            assert "had this session" not in (await call(one, "notebook_read", session_id=session_id))[1]
        assert "had this session" not in (await call(third, "notebook_read", session_id=session_id))[1]


async def test_a_call_that_fails_tells_the_news_as_well(connect: Connect, engine: Engine) -> None:
    async with connect() as client:
        session_id = await made(client, "failing")
        session = engine.session(session_id)
        cell = await session.add_cell("1")
        await session.take_over("ann")
        await session.delete_cell(cell.id)
        await session.give_back("ann")
        failed, text = await call(client, "cell_update", session_id=session_id, cell_id=cell.id, content="2")
        assert failed
        assert f"deleted {cell.id}" in text


async def test_a_session_has_the_name_of_the_program_that_works_on_it(
    connect: Connect, engine: Engine
) -> None:
    async with connect() as client:
        session_id = await made(client, "named")
        assert engine.session(session_id).record.client == "mcp"


async def test_agents_read_what_people_remark_on_cells(connect: Connect, engine: Engine) -> None:
    async with connect() as client:
        session_id = await made(client, "remarks")
        session = engine.session(session_id)
        cell = await session.add_cell("mean = 1")
        await session.apply([with_comment(cell, Comment("ann", 1.0, "Median, please"))])
        await session.run(cell.id)
        outlined = (await call(client, "notebook_read", session_id=session_id))[1]
        assert "(1 comment)" in outlined
        read = (await call(client, "notebook_read", session_id=session_id, cell_id=cell.id))[1]
        assert "comment by ann:\nMedian, please" in read
        told = json.loads((await call(client, "session_context", session_id=session_id))[1])
        assert told["comments"] == [f"{cell.id}, ann: Median, please"]


def test_a_long_list_of_changed_cells_is_cut() -> None:
    note = handback_note(Handback("ann", "", 1, Meanwhile(edited=tuple(f"c{n}" for n in range(30)))))
    assert "c19 and 10 more" in note
    assert "c20" not in note
