"""python_execute as an agent meets it: fields in words, charts as pictures, progress, and a stop that stops."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp import Client
from mcp.types import ImageContent, ResourceLink, TextContent, TextResourceContents

from cellwright import Engine
from tests.kernel.mcp.conftest import Connect, data_of
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

CHARTED = """
import json
open('sales.csv', 'w').write('month,sum\\nJan,1\\nFeb,3\\n')
output = {'id': 'sales', 'type': 'bar_chart', 'dataFile': 'sales.csv', 'config': {'xColumn': 'month', 'yColumn': 'sum'}}
json.dump({'version': '1.0', 'outputs': [output]}, open('visualization_manifest.json', 'w'))
"""


async def test_a_run_is_told_in_words_with_its_charts_as_pictures(client: Client) -> None:
    result = await client.call_tool("python_execute", {"code": "print('hi')" + CHARTED})
    assert not result.is_error
    assert result.structured_content is None
    text, picture, *links = result.content
    assert isinstance(text, TextContent)
    assert text.text.startswith("success: true · returnCode: 0 · executionTime: ")
    assert "stdout:\nhi\n" in text.text
    assert "/sales.csv (csv, " in text.text
    assert "visualization sales: " in text.text
    assert isinstance(picture, ImageContent)
    for link in links:
        assert isinstance(link, ResourceLink)
        assert link.annotations is not None
        assert link.annotations.audience == ["user"]
        held = (await client.read_resource(link.uri)).contents[0]
        assert isinstance(held, TextResourceContents)
        assert len(held.text) == link.size
    assert [link.name for link in links] == ["sales.csv", "visualization_manifest.json"]


async def test_a_failing_script_is_a_result_and_no_error(client: Client) -> None:
    result = await client.call_tool("python_execute", {"code": "import sys; sys.exit(3)"})
    assert not result.is_error
    assert isinstance(result.content[0], TextContent)
    assert "success: false · returnCode: 3" in result.content[0].text


async def test_all_fields_have_the_names_that_callers_expect(client: Client) -> None:
    arguments = {"code": CHARTED, "workingDir": "named", "response_format": "json"}
    data = data_of(await client.call_tool("python_execute", arguments))
    assert data is not None
    assert {"success", "stdout", "stderr", "returnCode", "files", "visualizations", "executionTime"} <= set(
        data
    )
    assert data["files"][0] == {
        "filename": "sales.csv",
        "path": "named/sales.csv",
        "type": "csv",
        "size": 22,
    }
    assert "digest" in data["visualizations"]["outputs"][0]


async def test_long_output_is_cut_and_kept_beside_the_files(client: Client, engine: Engine) -> None:
    result = await client.call_tool("python_execute", {"code": "for n in range(20000): print(n)"})
    assert isinstance(result.content[0], TextContent)
    text = result.content[0].text
    assert len(text) < 10_000
    path = text.partition("all of it: ")[2].partition(" ")[0]
    whole = (engine.settings.storage / "data" / path).read_text()
    assert whole == "".join(f"{n}\n" for n in range(20000))


async def test_long_output_replaces_no_file_of_the_script(client: Client, engine: Engine) -> None:
    code = "open('stdout.txt', 'w').write('mine'); print('x' * 100_000)"
    result = await client.call_tool("python_execute", {"code": code})
    assert isinstance(result.content[0], TextContent)
    path = engine.settings.storage / "data" / result.content[0].text.partition("all of it: ")[2].split()[0]
    assert path.read_text() == "x" * 100_000 + "\n"
    assert (path.parent / "stdout.txt").read_text() == "mine"


async def test_progress_says_the_last_line(client: Client) -> None:
    told: list[str] = []
    heard = anyio.Event()

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        told.append(message or "")
        if "step one" in told[-1]:
            heard.set()

    async def run() -> None:
        code = "print('step one')\nimport time; time.sleep(1000)"
        await client.call_tool("python_execute", {"code": code}, progress_callback=hear)

    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await heard.wait()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_that_is_taken_back_stops_the_run(connect: Connect, engine: Engine, mode: str) -> None:
    begun = anyio.Event()

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        if message and message.startswith("{") and json.loads(message)["text"]:
            begun.set()

    async def run(client: Client) -> None:
        code = "print('begun')\nimport time; time.sleep(1000)"
        arguments = {"code": code, "stream": True}
        await client.call_tool("python_execute", arguments, progress_callback=hear)

    with fail_after():
        async with connect(mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, client)
                await begun.wait()
                # Those of runs that were taken back before may still be on their way out.
                session = next(reversed(engine._sessions.values()))
                tasks.cancel_scope.cancel()
            with engine.subscribe(session.id) as events:
                if session.id in engine._sessions:
                    async for event in events:
                        if getattr(event, "data", {}).get("session") == "deleted":
                            break
        assert session.id not in engine._sessions


async def test_what_is_not_approved_is_refused_with_the_list(client: Client) -> None:
    result = await client.call_tool("python_execute", {"code": "pass", "packages": ["leftpad"]})
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    assert "leftpad is not on the list of approved packages" in result.content[0].text


async def test_a_run_that_showed_nothing_says_how_to_show_something(client: Client) -> None:
    silent = await client.call_tool("python_execute", {"code": "sum([1, 2])"})
    assert "no output: print what is to be seen" in silent.content[0].text  # type: ignore[union-attr]  # text comes first
    spoken = await client.call_tool("python_execute", {"code": "print(sum([1, 2]))"})
    assert "no output" not in spoken.content[0].text  # type: ignore[union-attr]  # as above
