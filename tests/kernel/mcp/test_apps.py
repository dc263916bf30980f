"""Who is told of apps, and who is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import ClientExtension
from mcp.types import Implementation, ReadResourceResult, TextResourceContents

from cellwright import Engine
from cellwright.mcp import McpServer
from cellwright.mcp.apps.shell import ABOUT
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, connected, new_session, running

pytestmark = pytest.mark.anyio


class Apps(ClientExtension):
    """A client that shows apps."""

    identifier = "io.modelcontextprotocol/ui"

    def settings(self) -> dict[str, Any]:
        return {"mimeTypes": ["text/html;profile=mcp-app"]}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_only_a_client_that_shows_apps_is_told_of_them(engine: Engine, mode: str) -> None:
    async with running(McpServer(engine, toolset="core", pace=PACE)) as face:
        async with connected(face, mode) as plain:
            usual = (await plain.list_tools()).tools
            session = await new_session(plain)
            listed = await plain.call_tool("checkpoint_list", {"session_id": session})
        async with connected(face, mode, extensions=[Apps()]) as able:
            told = {tool.name: tool for tool in (await able.list_tools()).tools}
            shown = await able.call_tool("checkpoint_list", {"session_id": session})
            about = told["session_rollback"].meta
            assert about is not None
            page = await able.read_resource(about["ui"]["resourceUri"])
    assert all(tool.meta is None for tool in usual)
    assert "ui" not in str(listed.meta or {})
    # What its model is told of is the same, but for what a host keeps from models.
    for_models = [
        tool for tool in told.values() if (tool.meta or {}).get("ui", {}).get("visibility") != ["app"]
    ]
    assert [tool.model_copy(update={"meta": None}) for tool in for_models] == usual
    assert {"app_view", "app_rows", "session_branch", "plan_run"} < set(told) - {tool.name for tool in usual}
    assert shown.content == listed.content
    assert shown.meta is not None
    assert shown.meta[ABOUT] == {"session_id": session}
    assert_whole(page)


async def test_a_client_that_does_not_say_so_is_told_of_them_where_it_is_named(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path, app_clients=("MCP Apps *",)) as engine,
        running(McpServer(engine, toolset="core", pace=PACE)) as face,
    ):
        named = Implementation(name="MCP Apps Host", version="1")
        async with connected(face, "legacy", client_info=named) as host:
            told = {tool.name: tool.meta for tool in (await host.list_tools()).tools}
            shown = await host.call_tool("checkpoint_list", {"session_id": await new_session(host)})
        async with connected(face, "legacy") as other:
            assert all(tool.meta is None for tool in (await other.list_tools()).tools)
    end_host(tmp_path / "state")
    assert "app_view" in told
    assert ABOUT in (shown.meta or {})


def assert_whole(page: ReadResourceResult) -> None:
    """A page of its own, which may reach nothing."""
    [held] = page.contents
    assert held.mime_type == "text/html;profile=mcp-app"
    assert held.meta is not None
    assert set(map(tuple, held.meta["ui"]["csp"].values())) == {()}
    assert isinstance(held, TextResourceContents)
    text = held.text
    assert "default-src 'none'; script-src 'nonce-" in text
    assert not any(sign in text for sign in ("http://", "https://", " src=", "href=", "@import", "url("))
