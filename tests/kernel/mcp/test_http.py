from __future__ import annotations

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cellwright import Engine
from cellwright.mcp import McpServer
from tests.kernel.mcp.conftest import PACE, ask, new_session, read, refused

pytestmark = pytest.mark.anyio


async def test_a_client_without_a_connection_names_its_session_in_every_call(engine: Engine) -> None:
    app = McpServer(engine, pace=PACE).http_app()
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http,
        Client(streamable_http_client("http://localhost/mcp", http_client=http), mode="2026-07-28") as client,
    ):
        session = await new_session(client)
        text = await read(client, "cell_add_and_run", session_id=session, content="6 * 7")
        assert text.startswith("ok | cell "), "which session it was, whoever named it knows"
        assert "\n42" in text
        assert session in await refused(client, "cell_add", content="1")
        assert session in {entry["session_id"] for entry in (await ask(client, "notebook_list"))["sessions"]}
