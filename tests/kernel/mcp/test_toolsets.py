"""Sets of tools by name: what a client sees, and what it is told about them."""

from __future__ import annotations

import re

import pytest

from cellwright import Engine
from cellwright.mcp import DIALECTS, McpServer
from cellwright.mcp.toolsets import ALL, TOOLSETS, UnknownToolset, chosen_sets
from tests.kernel.mcp.conftest import PACE, connected, refused, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", TOOLSETS)
async def test_a_toolset_shows_its_own_tools_and_speaks_of_no_others(engine: Engine, name: str) -> None:
    every = {definition.name for tools in TOOLSETS.values() for definition in tools}
    async with running(McpServer(engine, toolset=name, pace=PACE)) as face, connected(face) as client:
        seen = {tool.name for tool in (await client.list_tools()).tools}
        told = client.instructions or ""
    assert seen == {definition.name for definition in TOOLSETS[name]}
    assert set(re.findall(r"\w+", told)) & every <= seen


CALLS = {
    "jlab": ("execute_code", {"code": "1"}, "session_id"),
    "jupyter": ("execute_code", {"code": "1"}, "kernel_id"),
    "monadic": ("add_jupyter_cells", {"cells": [{"source": "1"}]}, "filename"),
    "srcbook": ("cell_execute", {"cell_id": "all"}, "session_id"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
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


async def test_several_sets_are_named_with_commas_and_nothing_is_all() -> None:
    assert chosen_sets("history, notebooks") == ("notebooks", "history")
    assert chosen_sets(None) == chosen_sets(ALL) == chosen_sets(f"plans,{ALL}") == tuple(TOOLSETS)


async def test_no_tool_is_in_two_sets() -> None:
    names = [definition.name for tools in TOOLSETS.values() for definition in tools]
    assert len(names) == len(set(names))


async def test_a_set_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownToolset, match="no toolset 'everything'") as refused:
        chosen_sets("plans,everything")
    assert "notebooks" in (refused.value.hint or "")
