from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest
from mcp import Client
from mcp.types import Tool

from cellwright import Engine, Settings
from cellwright.mcp import McpServer, every_dialect
from cellwright.mcp._arguments import former_names
from cellwright.mcp.toolsets import TOOLSETS
from scripts.reference_pages import reference_pages
from tests.kernel.engine.conftest import open_at
from tests.kernel.mcp.conftest import PACE, Connect, connected, running

pytestmark = pytest.mark.anyio

# As first published: where a name has changed since, the former one is taken still.
ISSUED = {
    "notebook_create": ({"name", "language", "description", "tsconfig"}, {"name"}),
    "notebook_list": ({"filter"}, set()),
    "notebook_delete": ({"session_id"}, {"session_id"}),
    "cell_add": ({"session_id", "content", "type", "position"}, {"session_id", "content"}),
    "cell_execute": ({"session_id", "cell_id", "timeout", "on_error"}, {"session_id", "cell_id"}),
    "cell_update": ({"session_id", "cell_id", "content"}, {"session_id", "cell_id", "content"}),
    "cell_delete": ({"session_id", "cell_id"}, {"session_id", "cell_id"}),
    "notebook_export": ({"session_id", "format", "include_outputs"}, {"session_id"}),
    "notebook_import": ({"content", "format"}, {"content"}),
    "checkpoint_create": ({"session_id", "name"}, {"session_id"}),
    "checkpoint_list": ({"session_id"}, {"session_id"}),
    "session_rollback": ({"session_id", "checkpoint", "cell_id"}, {"session_id"}),
    "session_branch": ({"session_id", "checkpoint", "count"}, {"session_id"}),
    "branch_adopt": ({"session_id"}, {"session_id"}),
    "plan_create": ({"problem", "todos", "session_id"}, {"problem"}),
    "plan_run": ({"session_id"}, {"session_id"}),
    "plan_status": ({"session_id"}, {"session_id"}),
    "plan_fix": ({"session_id", "code"}, {"session_id"}),
    "plan_skip": ({"session_id"}, {"session_id"}),
    "plan_verify": ({"session_id"}, {"session_id"}),
    "cell_visualize": ({"session_id", "cell_id", "type", "options"}, {"session_id", "cell_id"}),
    "python_execute": ({"code", "packages", "workingDir", "timeout"}, {"code"}),
    "node_execute": ({"code", "packages", "workingDir", "timeout"}, {"code"}),
    "file_system": ({"action", "path", "content"}, {"action", "path"}),
    "web_fetch": ({"url", "type"}, {"url"}),
    "calculator": ({"expression"}, {"expression"}),
    "visualize": (set(), set()),
    "ask": ({"question", "data", "pattern", "model", "budget"}, {"question"}),
}


def tokens(tools: Sequence[Tool]) -> float:
    """What definitions cost a model: it reads neither titles nor icons."""
    unread = {"title", "icons"}
    sent = [tool.model_dump(by_alias=True, exclude_none=True, mode="json", exclude=unread) for tool in tools]
    return len(json.dumps(sent, ensure_ascii=False, separators=(",", ":"))) / 4


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_all_definitions_together_cost_less_than_6000_tokens(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        listed = await client.list_tools()
    assert 20 <= len(listed.tools) <= 50
    assert tokens(listed.tools) < 6_000


async def test_a_client_that_fills_in_published_defaults_keeps_to_the_operators_limits(
    tmp_path: Path,
) -> None:
    async with (
        open_at(tmp_path, cell_timeout_s=0.75, run_timeout_s=7) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    published = {
        tool: tools[tool]["properties"]["timeout_s"]["default"]
        for tool in ("cell_execute", "cell_add_and_run", "scratch_run", "python_execute", "node_execute")
    }
    assert published == {
        "cell_execute": 0.75,
        "cell_add_and_run": 0.75,
        "scratch_run": 0.75,
        "python_execute": 7,
        "node_execute": 7,
    }


async def test_the_named_tools_have_the_named_arguments(client: Client, engine: Engine) -> None:
    tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    definitions = {made.name: made for group in TOOLSETS.values() for made in group}
    for name, (arguments, required) in ISSUED.items():
        schema, former = tools[name], former_names(definitions[name].arguments)
        issued = {now: former[now].name if now in former else now for now in schema["properties"]}
        assert arguments <= set(issued.values()), name
        assert {issued[now] for now in schema.get("required", ())} == required, name
    assert tools["cell_execute"]["properties"]["timeout_s"]["default"] == engine.settings.cell_timeout_s
    assert Settings.model_fields["cell_timeout_s"].default == 30
    assert tools["cell_execute"]["properties"]["on_error"]["enum"] == ["keep", "rollback"]
    assert tools["session_branch"]["properties"]["count"]["default"] == 1
    assert tools["notebook_list"]["properties"]["filter"]["enum"] == ["active", "suspended", "all"]
    todo = tools["plan_create"]["$defs"]["TodoArgument"]
    assert {"description", "code", "accept", "depends_on"} <= set(todo["properties"])
    assert todo["required"] == ["description"]
    assert tools["cell_visualize"]["properties"]["type"]["enum"] == ["chart", "table", "graph", "auto"]


async def test_every_tool_is_described_and_hinted_and_none_declares_an_output_schema(
    client: Client,
) -> None:
    for tool in (await client.list_tools()).tools:
        assert tool.description, tool.name
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not None, tool.name
        assert tool.output_schema is None, tool.name


async def test_tools_prompts_and_templates_have_a_title_of_their_own_and_an_icon(client: Client) -> None:
    for listed in (
        (await client.list_tools()).tools,
        (await client.list_prompts()).prompts,
        (await client.list_resource_templates()).resource_templates,
    ):
        titles = [one.title for one in listed]
        assert all(titles)
        assert len(titles) == len(set(titles))
        for one in listed:
            assert one.icons, one.name
            assert unquote(one.icons[0].src).startswith("data:image/svg+xml,<svg xmlns=")


async def test_reading_is_marked_as_reading_and_losing_as_destructive(client: Client) -> None:
    hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    reads = {name for name, hint in hints.items() if hint is not None and hint.read_only_hint}
    assert {"notebook_list", "notebook_read", "session_context", "execution_wait", "execution_list"} <= reads
    assert "plan_status" in reads
    assert not {"plan_create", "plan_run", "plan_fix", "plan_skip"} & reads
    destroys = {name for name, hint in hints.items() if hint is not None and hint.destructive_hint}
    assert {
        "notebook_delete",
        "cell_delete",
        "kernel_restart",
        "session_rollback",
        "branch_adopt",
    } <= destroys
    assert not reads & destroys


async def test_every_prompt_is_described_and_speaks_of_tools_that_there_are(client: Client) -> None:
    prompts = (await client.list_prompts()).prompts
    assert [prompt.name for prompt in prompts] == [
        "new_notebook",
        "continue_notebook",
        "fix_and_retry",
        "skip_cell",
        "show_status",
    ]
    assert all(prompt.description for prompt in prompts)
    got = await client.get_prompt("new_notebook", {"problem": "How many primes are there below 100?"})
    text = got.messages[0].content.text  # type: ignore[union-attr]
    assert "How many primes" in text
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"plan_create", "plan_run", "plan_fix", "plan_skip"} <= {
        word.strip(".,;") for word in text.split()
    } & tools


@functools.cache
def words_of_the_reference() -> set[str]:
    return set(re.findall(r"\w+", reference_pages()["reference/generated/tools.md"]))


@pytest.mark.parametrize("dialect", [None, *every_dialect()])
async def test_every_tool_is_in_the_reference(engine: Engine, dialect: str | None) -> None:
    tools = await McpServer(engine, dialect=dialect).server.list_tools()
    assert not {tool.name for tool in tools} - words_of_the_reference()
    assert all(tool.description for tool in tools)
    assert tokens(tools) < 6_000
