"""Programs get data as structured content that keeps to its schema, models get it once as text."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from mcp.types import Implementation, TextContent

from cellwright.mcp import McpServer
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, Connect, connected, data_of, running

pytestmark = pytest.mark.anyio

CALLS = (
    ("notebook_create", {"name": "structured"}),
    ("cell_add", {"code": "# Words", "type": "markdown"}),
    ("cell_add_and_run", {"code": "print('out')\n6 * 7"}),
    ("cell_add_and_run", {"code": "1 / 0"}),
    ("scratch_run", {"code": "1"}),
    ("cell_execute", {"cell_id": "all"}),
    ("execution_list", {}),
    ("checkpoint_create", {}),
    ("checkpoint_list", {}),
    ("notebook_list", {}),
    ("calculator", {"expression": "1 / 3"}),
    ("kernel_restart", {}),
)


async def test_a_client_named_in_the_settings_gets_data_by_its_schema_and_no_text_beside_it(
    tmp_path: Path,
) -> None:
    runner = Implementation(name="agent-runner", version="1")
    async with (
        open_at(tmp_path, structured_clients=("agent-*",)) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face, client_info=runner) as client,
    ):
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, (tool, result)
            assert result.structured_content is not None, tool
            assert not [block for block in result.content if isinstance(block, TextContent)], tool
            schema = schemas[tool]
            assert schema is not None
            jsonschema.validate(result.structured_content, schema)
    end_host(tmp_path / "state")
    assert schemas["notebook_read"] is None


async def test_a_model_reads_of_a_new_notebook_what_it_did_not_say_itself(connect: Connect) -> None:
    async with connect() as client:
        made = data_of(await client.call_tool("notebook_create", {"name": "told once", "language": "python"}))
    assert {"session_id", "path", "cwd"} <= made.keys()
    assert "language" not in made
