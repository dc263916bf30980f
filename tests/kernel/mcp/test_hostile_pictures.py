"""What calls itself a picture and is none: it is told as a file, and handed to no other program."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from mcp.types import ResourceLink, TextContent
from PIL import EpsImagePlugin

from cellwright.notebook.comparison import same_bytes, same_look

pytestmark = pytest.mark.anyio

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once anybody has run ``gs``."""
    mark = tmp_path / "gs was run"
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\n: > '{mark}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # Pillow remembers whether there was one
    return mark


async def test_postscript_that_a_script_leaves_as_png_is_told_as_a_file_and_not_run(
    client: Client, mark: Path
) -> None:
    code = f"open('x.png', 'wb').write({POSTSCRIPT!r})"
    result = await client.call_tool("python_execute", {"code": code})
    text, link = result.content
    assert isinstance(text, TextContent)
    assert isinstance(link, ResourceLink)
    assert "/x.png (image, " in text.text
    assert not mark.exists()


def test_postscript_is_compared_by_its_bytes_and_not_run(mark: Path) -> None:
    other = POSTSCRIPT + b"%"
    assert same_look(POSTSCRIPT, other) == same_bytes(POSTSCRIPT, other)
    assert not mark.exists()
