"""What an agent is told of a notebook that lies on a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cellwright.mcp import McpServer
from tests.kernel.engine.conftest import OpenEngine
from tests.kernel.mcp.conftest import connected, running
from tests.support.livedocs.visiting import new_notebook, sources_on
from tests.support.servers.server import Server
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_an_agent_opens_and_makes_notebooks_on_a_server_and_hears_where_they_lie(
    open_here: OpenEngine, collaboration_server: Server, told: Callable[[Server], dict[str, Any]]
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    async with (
        open_here(**told(collaboration_server)) as engine,
        running(McpServer(engine)) as face,
        connected(face) as client,
    ):

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result
            return json.loads(result.content[0].text)  # type: ignore[union-attr,no-any-return]

        opened = await call("notebook_open", path=path, host="jupyter")
        assert opened["lies_at"] == f"{path} on jupyter"
        again = await call("notebook_open", path=path, host="jupyter")
        assert again["session_id"] == opened["session_id"]
        made = await call("notebook_create", name="Made there", host="jupyter")
        deleted = await call("notebook_delete", session_id=made["session_id"])
        assert deleted["kept"] == made["lies_at"]
        path = made["lies_at"].removesuffix(" on jupyter")
        await until(lambda: sources_on(collaboration_server, path) == ["# Made there"])
