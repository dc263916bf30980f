"""The calculator as agents and people call it."""

from __future__ import annotations

import json

import pytest

from tests.kernel.mcp.conftest import Connect, ask, refused
from tests.kernel.mcp.test_definitions import tokens

pytestmark = pytest.mark.anyio


async def test_an_agent_calculates_and_is_told_both_forms(connect: Connect) -> None:
    async with connect() as client:
        answer = await ask(client, "calculator", expression="5 km/h to m/s")
        assert answer["exact"] == "25/18 m/s"
        assert answer["unit"] == "m/s"
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == "calculator"]
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert not tool.annotations.open_world_hint
        assert tokens([tool]) <= 150, json.dumps(tool.input_schema)


async def test_what_explodes_reaches_the_agent_as_its_bound(connect: Connect) -> None:
    async with connect() as client:
        assert "at most 12,000" in await refused(client, "calculator", expression="9**9**9")
        assert "[length]" in await refused(client, "calculator", expression="3 m + 2 s")
