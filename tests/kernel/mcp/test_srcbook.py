"""The two usage examples of the Srcbook specification, as they are written there."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from cellwright import Engine
from cellwright.mcp.server import McpServer
from tests.kernel.mcp.conftest import PACE, ask, connected, running
from tests.support.typescript.srcbook_examples import ANALYSIS, BENCHMARK, BUBBLE_SORT, QUICK_SORT, SALES

pytestmark = pytest.mark.anyio


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    if tool == "cell_execute":
        arguments["response_format"] = "json"
    return await ask(client, tool, **arguments)


async def test_a_data_analysis_over_three_cells(engine: Engine) -> None:
    async with running(McpServer(engine, dialect="srcbook", pace=PACE)) as face, connected(face) as client:
        created = await call(
            client,
            "notebook_create",
            name="Sales Analysis Q4 2024",
            description="Quarterly sales data analysis",
        )
        session_id = created["session_id"]
        loading = await call(client, "cell_add", session_id=session_id, content=SALES)
        loaded = await call(client, "cell_execute", session_id=session_id, cell_id=loading["cell_id"])
        await call(client, "cell_add", session_id=session_id, content=ANALYSIS)
        results = await call(client, "cell_execute", session_id=session_id, cell_id="all")

    assert loaded["stdout"] == "Data loaded: 3 months\n"
    assert results["status"] == "ok"
    assert "- Total Revenue: $445,000\n- Average Monthly: $148,333.333\n" in results["stdout"]


async def test_a_comparison_of_two_sorts(engine: Engine) -> None:
    async with running(McpServer(engine, dialect="srcbook", pace=PACE)) as face, connected(face) as client:
        created = await call(client, "notebook_create", name="Algorithm Comparison", language="typescript")
        session_id = created["session_id"]
        for content in (BUBBLE_SORT, QUICK_SORT, BENCHMARK):
            await call(client, "cell_add", session_id=session_id, content=content)
        compared = await call(client, "cell_execute", session_id=session_id, cell_id="all")

    assert compared["status"] == "ok"
    assert "Bubble Sort: " in compared["stdout"]
    assert "Quick Sort: " in compared["stdout"]
    assert "ms" in compared["stdout"]
