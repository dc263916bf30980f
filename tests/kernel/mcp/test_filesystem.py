"""The one-shot tool for files, as an agent uses it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from mcp.types import ImageContent

from cellwright import Engine
from tests.kernel.mcp.conftest import new_session, read, refused
from tests.kernel.mcp.test_definitions import tokens
from tests.system.tools.test_digests import png

pytestmark = pytest.mark.anyio


async def done(client: Client, action: str, path: str, **more: Any) -> Any:
    return json.loads(await read(client, "file_system", action=action, path=path, **more))


async def test_the_definition_is_small_and_says_that_it_destroys(client: Client) -> None:
    (tool,) = [one for one in (await client.list_tools()).tools if one.name == "file_system"]
    assert tokens([tool]) <= 156  # with the brackets of a list
    assert tool.input_schema["required"] == ["action", "path"]
    assert tool.annotations is not None
    assert tool.annotations.destructive_hint


async def test_a_table_is_written_read_by_pages_moved_and_deleted(client: Client) -> None:
    content = "n,name\n" + "".join(f"{i},row {i}\n" for i in range(100))
    written = await done(client, "write", "t/numbers.csv", content=content)
    assert written["size"] == len(content)
    text = await read(client, "file_system", action="read", path="t/numbers.csv", limit=5)
    assert text.startswith(f"t/numbers.csv ({len(content):,} bytes)\nCSV, 100 rows")
    assert text.endswith("4 | row 4\nnext: offset=5 of 100")
    text = await read(client, "file_system", action="read", path="t/numbers.csv", offset=98)
    assert text.endswith("98 | row 98\n99 | row 99")
    await done(client, "append", "t/numbers.csv", content="100,last\n")
    await done(client, "move", "t/numbers.csv", to="t/moved.csv")
    assert [one["path"] for one in (await done(client, "list", "t"))["files"]] == ["t/moved.csv"]
    assert (await done(client, "exists", "t/numbers.csv"))["exists"] is False
    assert len((await done(client, "info", "t/moved.csv"))["sha256"]) == 64
    assert (await done(client, "delete", "t/moved.csv"))["deleted"]["path"] == "t/moved.csv"


async def test_a_budget_is_kept_and_the_rest_is_pointed_at(client: Client) -> None:
    await done(client, "write", "long.txt", content="".join(f"line {i} {'x' * 50}\n" for i in range(1_000)))
    text = await read(client, "file_system", action="read", path="long.txt", max_tokens=200)
    assert len(text) < 1_000
    assert "next: offset=" in text
    for number in range(40):
        await done(client, "mkdir", f"crowded/directory {number:02}")
    page = await done(client, "list", "crowded", max_tokens=200)
    rest = await done(client, "list", "crowded", offset=int(page["next"].removeprefix("offset=")))
    assert len(page["files"]) + len(rest["files"]) == 40


async def test_a_picture_is_shown(client: Client, engine: Engine) -> None:
    data = engine.settings.storage / "data"
    data.mkdir(exist_ok=True)
    (data / "p.png").write_bytes(png(900, 30))
    result = await client.call_tool("file_system", {"action": "read", "path": "p.png"})
    assert result.structured_content is None
    text, picture = result.content
    assert "PNG image, 900 \u00d7 30 pixels" in text.text  # type: ignore[union-attr]  # as it is
    assert isinstance(picture, ImageContent)


async def test_files_of_a_session_are_its_own(client: Client) -> None:
    session = await new_session(client)
    await done(client, "write", "given.txt", content="hello", session_id=session)
    assert (await done(client, "exists", "given.txt"))["exists"] is False
    assert (await done(client, "exists", "given.txt", session_id=session))["exists"] is True


async def test_a_refusal_names_the_path_and_the_next_step(client: Client) -> None:
    assert "cannot contain '..'" in await refused(
        client, "file_system", action="read", path="../state/journal.db"
    )
    assert "Give content" in await refused(client, "file_system", action="write", path="a")
    assert "Give to" in await refused(client, "file_system", action="move", path="a")
    missing = await refused(client, "file_system", action="read", path="nothing")
    assert "there is none" in missing
    assert "paths begin at the top of the data directory" in missing
    assert "itself cannot be changed" in await refused(client, "file_system", action="delete", path=".")
    assert "action" in await refused(client, "file_system", action="chmod", path="a")
