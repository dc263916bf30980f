"""Sets of tools by name: what a client sees, and what it is told about them."""

from __future__ import annotations

import json
import re

import anyio
import pytest
from mcp.types import ToolListChangedNotification

from cellwright import Engine
from cellwright.mcp import McpServer, every_dialect
from cellwright.mcp.toolsets import ALL, CORE, TOOLSETS, UnknownToolset, chosen_sets, tools_of
from tests.kernel.mcp.conftest import PACE, ask, connected, data_of, read, refused, running, text_of
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", [CORE, *TOOLSETS])
async def test_a_toolset_shows_its_own_tools_and_speaks_of_no_others(engine: Engine, name: str) -> None:
    every = {definition.name for tools in TOOLSETS.values() for definition in tools}
    async with running(McpServer(engine, toolset=name, pace=PACE)) as face, connected(face) as client:
        seen = {tool.name for tool in (await client.list_tools()).tools}
        told = client.instructions or ""
    assert seen == {definition.name for definition in tools_of((name,))}
    assert set(re.findall(r"\w+", told)) & every <= seen


CALLS = {
    "jlab": ("execute_code", {"code": "1"}, "session_id"),
    "jupyter": ("execute_code", {"code": "1"}, "kernel_id"),
    "monadic": ("add_jupyter_cells", {"cells": [{"source": "1"}]}, "filename"),
    "srcbook": ("cell_execute", {"cell_id": "all"}, "session_id"),
}


@pytest.mark.parametrize("dialect", every_dialect())
async def test_a_dialect_speaks_only_of_tools_that_it_has(engine: Engine, dialect: str) -> None:
    every = {definition.name for tools in TOOLSETS.values() for definition in tools if "_" in definition.name}
    session = await engine.create("spoken of")
    async with running(McpServer(engine, dialect=dialect, pace=PACE)) as face, connected(face) as client:
        tools = (await client.list_tools()).tools
        seen = {tool.name for tool in tools}
        prompts = [
            await client.get_prompt("new_notebook", {"problem": "x"}),
            *[
                await client.get_prompt(name, {"session": session.id})
                for name in ("continue_notebook", "fix_and_retry", "skip_cell", "show_status")
            ],
        ]
        tool, arguments, key = CALLS[dialect]
        texts = [
            client.instructions or "",
            *(tool.model_dump_json() for tool in tools),
            *(prompt.model_dump_json() for prompt in prompts),
            (await client.list_resource_templates()).model_dump_json(),
            (await client.list_resources()).model_dump_json(),
            await refused(client, tool, **{**arguments, key: "s-nothing"}),
            await refused(client, "execution_wait", execution_id="x-nothing"),
        ]
        dies = await session.execute_code("import os; os._exit(7)")
        await dies.wait()
        for name, given in (
            ("execution_wait", {"execution_id": dies.id}),
            (tool, {**arguments, key: session.id}),
        ):
            texts.append((await client.call_tool(name, given)).model_dump_json())
    for text in texts:
        assert set(re.findall(r"\w+", text)) & every <= seen, text
    assert texts[0]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_core_is_few_tools_and_brings_the_rest_on_demand(engine: Engine, mode: str) -> None:
    heard: list[object] = []
    told = anyio.Event()

    async def handle(message: object) -> None:
        heard.append(message)
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with (
        running(McpServer(engine, toolset="core", pace=PACE)) as face,
        connected(face, mode, message_handler=handle) as client,
        connected(face, mode) as other,
    ):
        first = (await client.list_tools()).tools
        made = await ask(client, "notebook_create", name="first")
        assert await read(client, "cell_add_and_run", content="kept = 1; kept") != ""
        enabled = await read(client, "toolset_enable", toolset="history")
        if mode == "legacy":
            with fail_after():
                await told.wait()
        second = {tool.name for tool in (await client.list_tools()).tools}
        kept = await ask(client, "checkpoint_create")
        inner = {"session_id": made["session_id"], "query": "kept"}
        called = await other.call_tool("toolset_enable", {"tool": "kernel_inspect", "arguments": inner})
        unlisted = {tool.name for tool in (await other.list_tools()).tools}
        wrong = await refused(other, "toolset_enable", toolset="everything")
        unknown = await other.call_tool("toolset_enable", {"tool": "toolset_disable"})
    names = {tool.name for tool in first}
    assert len(names) <= 13
    assert unlisted == names
    said = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in first
    ]
    # o200k has 4.3 characters of these for a token.
    assert len(json.dumps(said, ensure_ascii=False, separators=(",", ":"))) / 4 <= 1_300
    assert not [tool.name for tool in first if "session_id" in tool.input_schema.get("required", ())]
    assert second == names | {definition.name for definition in TOOLSETS["history"]}
    assert "checkpoint_create(session_id, name): " in enabled
    assert kept["session_id"] == made["session_id"]
    assert data_of(called)["variables"] == ["kept: int = 1"]
    assert "notebooks, plans, history" in wrong
    assert "There is no tool 'toolset_disable'" in text_of(unknown)


async def test_several_sets_are_named_with_commas_and_nothing_is_all() -> None:
    assert chosen_sets("history, notebooks") == ("notebooks", "history")
    useful = tuple(name for name in TOOLSETS if name != "connections")
    assert chosen_sets(None) == chosen_sets(ALL) == chosen_sets(f"plans,{ALL}") == useful
    assert chosen_sets(ALL, connections=True) == tuple(TOOLSETS)


async def test_no_tool_is_in_two_sets() -> None:
    names = [definition.name for tools in TOOLSETS.values() for definition in tools]
    assert len(names) == len(set(names))


async def test_a_set_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownToolset, match="no toolset 'everything'") as refused:
        chosen_sets("plans,everything")
    assert "notebooks" in (refused.value.hint or "")
