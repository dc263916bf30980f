from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.types import BlobResourceContents, TextResourceContents

from cellwright import Engine
from cellwright.mcp._resources import MAX_DATA_BYTES, MOST_DATA_FILES
from cellwright.tools.data_directory import DataDirectory
from tests.kernel.mcp.conftest import Connect, images_of, read, refused, text_of
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

CSV = "month,revenue\nJan,10000\nFeb,12000\n"


@pytest.fixture
def data(engine: Engine) -> Path:
    root = DataDirectory.of(engine).root
    root.mkdir(parents=True, exist_ok=True)
    return root


async def content_of(client: Client, uri: str) -> TextResourceContents | BlobResourceContents:
    (content,) = (await client.read_resource(uri)).contents
    return content


async def test_data_files_are_listed_newest_first_and_read_as_what_they_are(
    client: Client, data: Path
) -> None:
    (data / "deep").mkdir()
    (data / "deep" / "müll & mehr.csv").write_text(CSV)
    (data / "bytes.parquet").write_bytes(b"PAR1\x00\xff")
    (data / "latin.txt").write_bytes("é".encode("latin-1"))
    (data / "notes").write_text("no ending")
    for age, name in enumerate(("notes", "latin.txt", "bytes.parquet", "deep/müll & mehr.csv")):
        os.utime(data / name, (2e9 - age, 2e9 - age))
    listed = [
        one for one in (await client.list_resources()).resources if one.uri.startswith("cellwright://data/")
    ]
    assert [(one.name, one.mime_type) for one in listed[:4]] == [
        ("notes", "application/octet-stream"),
        ("latin.txt", "text/plain"),
        ("bytes.parquet", "application/vnd.apache.parquet"),
        ("deep/müll & mehr.csv", "text/csv"),
    ]
    assert listed[3].size == len(CSV)
    assert all(one.description for one in listed)
    notes, latin, parquet, csv = [await content_of(client, one.uri) for one in listed[:4]]
    assert isinstance(notes, TextResourceContents)
    assert (notes.text, notes.mime_type) == ("no ending", "text/plain")
    assert isinstance(latin, BlobResourceContents)
    assert isinstance(parquet, BlobResourceContents)
    assert base64.b64decode(parquet.blob) == b"PAR1\x00\xff"
    assert isinstance(csv, TextResourceContents)
    assert (csv.text, csv.mime_type) == (CSV, "text/csv")


async def test_the_list_of_data_files_has_a_bound(client: Client, data: Path) -> None:
    (data / "many").mkdir()
    for number in range(MOST_DATA_FILES + 10):
        (data / "many" / f"{number}.txt").touch()
    listed = (await client.list_resources()).resources
    assert sum(one.uri.startswith("cellwright://data/") for one in listed) == MOST_DATA_FILES


async def test_there_is_a_template_for_data_files(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    assert "cellwright://data/{+path}" in {template.uri_template for template in templates}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nothing.csv", "nothing.csv"),
        ("..%2Foutside.csv", "leads out of the data directory"),
        ("a%2F..%2F..%2Foutside.csv", "leads out of the data directory"),
        ("%2Fetc%2Fpasswd", "leads out of the data directory"),
        ("linked.csv", "link"),
        ("linked/outside.csv", "link"),
        ("hard.csv", "hard links"),
        ("pipe", "not a file"),
        ("folder", "is a directory"),
        ("nul%00.csv", "leads out of the data directory"),
        ("huge.bin", "Read a part of it with file_system"),
    ],
)
async def test_what_is_not_a_file_of_the_data_directory_is_not_read(
    client: Client, data: Path, path: str, said: str
) -> None:
    outside = data.parent / "outside.csv"
    outside.write_text("secret")
    for name, target in (("linked.csv", outside), ("linked", data.parent)):
        if not (data / name).is_symlink():
            (data / name).symlink_to(target)
    if not (data / "hard.csv").exists():
        (data / "hard.csv").hardlink_to(outside)
        os.mkfifo(data / "pipe")
        (data / "folder").mkdir()
        with (data / "huge.bin").open("wb") as huge:
            huge.truncate(MAX_DATA_BYTES + 1)
    with pytest.raises(MCPError, match=said):
        await client.read_resource(f"cellwright://data/{path}")
    names = {one.name for one in (await client.list_resources()).resources}
    assert not names & {"linked.csv", "linked/outside.csv", "hard.csv", "pipe", "folder"}


async def test_a_picture_is_drawn_with_its_digest_and_its_files_are_told(connect: Connect) -> None:
    uri = "cellwright://data/told/sales.csv"
    options = {"x": "month", "y": "revenue", "id": "sales"}
    async with connect("2026-07-28") as client:
        async with client.listen(resource_subscriptions=[uri], resources_list_changed=True) as events:
            result = await client.call_tool(
                "visualize", {"data": CSV, "type": "bar_chart", "options": options, "workingDir": "told"}
            )
            seen: set[type] = set()
            with fail_after():
                async for event in events:
                    seen.add(type(event))
                    if {ResourceUpdated, ResourcesListChanged} <= seen:
                        break
        assert not result.is_error, text_of(result)
        assert result.structured_content is None
        (image,) = images_of(result)
        assert base64.b64decode(image.data).startswith(b"\x89PNG")
        assert "bar_chart sales | data: told/sales.csv" in text_of(result)
        assert "manifest: told/visualization_manifest.json" in text_of(result)
        content = await content_of(client, uri)
        assert isinstance(content, TextResourceContents)
        assert content.text == CSV


async def test_a_manifest_that_is_there_is_drawn_as_it_is(client: Client, data: Path) -> None:
    await read(client, "visualize", data=CSV, type="table", options={"id": "one"}, workingDir="whole")
    await read(client, "visualize", data=CSV, type="pie", options={"id": "two"}, workingDir="whole")
    before = (data / "whole" / "visualization_manifest.json").read_bytes()
    result = await client.call_tool("visualize", {"file": "whole/visualization_manifest.json"})
    assert "table one" in text_of(result)
    assert "pie_chart two" in text_of(result)
    assert len(images_of(result)) == 1
    assert (data / "whole" / "visualization_manifest.json").read_bytes() == before


async def test_a_picture_that_cannot_be_drawn_is_refused_with_the_columns(client: Client) -> None:
    said = await refused(client, "visualize", data=CSV, type="bar_chart", options={"y": "profit"})
    assert "it has month, revenue" in said
