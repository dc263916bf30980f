"""Sets of tools by name: what a client sees, and what it is told about them."""

from __future__ import annotations

import re

import pytest

from cellwright import Engine
from cellwright.mcp import McpServer
from cellwright.mcp.toolsets import ALL, TOOLSETS, UnknownToolset, chosen_sets
from tests.kernel.mcp.conftest import PACE, connected, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", TOOLSETS)
async def test_a_toolset_shows_its_own_tools_and_speaks_of_no_others(engine: Engine, name: str) -> None:
    every = {definition.name for tools in TOOLSETS.values() for definition in tools}
    async with running(McpServer(engine, toolset=name, pace=PACE)) as face, connected(face) as client:
        seen = {tool.name for tool in (await client.list_tools()).tools}
        told = client.instructions or ""
    assert seen == {definition.name for definition in TOOLSETS[name]}
    assert set(re.findall(r"\w+", told)) & every <= seen


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
