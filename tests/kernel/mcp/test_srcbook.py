"""The two usage examples of the Srcbook specification, as they are written there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from cellwright import Engine
from cellwright.mcp.server import McpServer
from tests.kernel.mcp.conftest import PACE, ask, connected, read, refused, running
from tests.support.typescript.srcbook_examples import ANALYSIS, BENCHMARK, BUBBLE_SORT, QUICK_SORT, SALES

pytestmark = pytest.mark.anyio


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
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


SPECIFIED = {
    "notebook_create": {"language": "typescript"},
    "notebook_list": {"filter": "active"},
    "cell_add": {"type": "code"},
    "notebook_export": {"format": "json", "include_outputs": True},
    "notebook_import": {"format": "json"},
    "cell_visualize": {"type": "auto"},
}
PAGE = """<!-- srcbook:{"language":"typescript"} -->

# Greeting

###### package.json

```json
{"type": "module"}
```

###### hello.ts

```typescript
console.log("hello");
```
"""


async def test_schemas_and_imports_are_as_specified(engine: Engine) -> None:
    async with running(McpServer(engine, dialect="srcbook", pace=PACE)) as face, connected(face) as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        cells = [{"type": "code", "content": "const x: number = 1"}]
        plain = await call(client, "notebook_import", content=json.dumps(cells))
        book = await call(client, "notebook_import", content=PAGE, format="markdown")
        options = {"strict": True}
        created = await call(client, "notebook_create", name="Typed", tsconfig=options)
        exported = await read(client, "notebook_export", session_id=created["session_id"], format="src.md")
        wrong = await refused(client, "notebook_create", name="x", tsconfig={"strcit": True})

    assert tools["notebook_create"]["language"]["enum"] == ["typescript", "javascript"]
    for tool, defaults in SPECIFIED.items():
        assert {name: tools[tool][name]["default"] for name in defaults} == defaults, tool
    assert (plain["language"], book["language"], book["notebook"][16:]) == (
        "typescript",
        "typescript",
        "greeting",
    )
    assert [cell.filename for cell in engine.session(book["session_id"]).cells if cell.runs] == ["hello.ts"]
    assert '"tsconfig.json":{"compilerOptions":{"strict":true}}' in exported.replace(" ", "").replace(
        "\n", ""
    )
    assert "Did you mean strict?" in wrong
