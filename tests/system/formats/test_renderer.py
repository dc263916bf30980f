"""Pages made in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest

from cellwright.formats.renderer import PageMaker, RenderFailed, render
from tests.support.formats.pagebooks import PNG, code, display, notebook, stream, text
from tests.waiting import look_again

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("wanted", "magic"), [("html", b"<!DOCTYPE html>"), ("pdf", b"%PDF-")])
async def test_a_page_comes_back_with_its_notices(wanted: str, magic: bytes) -> None:
    book = notebook(
        text("# Title"), code("1", stream("x\n"), display({"image/png": "broken", "text/plain": "y"}))
    )
    made = await render(book, name="n", format=wanted)
    assert made.content.startswith(magic)
    assert made.notices == ("Cell [1]: a picture cannot be read",)


async def test_what_takes_too_long_is_ended_and_told() -> None:
    with pytest.raises(RenderFailed, match=r"within 0\.05 s"):
        await render(notebook(text("# Title")), name="n", format="pdf", limit_s=0.05)


async def test_what_takes_too_much_memory_is_told() -> None:
    book = notebook(*[code("1", display({"image/png": PNG}), stream("x" * 1_000_000)) for _ in range(40)])
    with pytest.raises(RenderFailed):
        await render(book, name="n", format="pdf", memory_bytes=220_000_000)


async def test_a_process_stands_by_after_a_page_and_is_gone_with_its_maker() -> None:
    book = notebook(text("# Title $x$"), code("1"))
    async with PageMaker() as maker:
        first = await maker.render(book, name="n", format="pdf")
        spare = maker._spare
        assert spare is not None
        assert spare.returncode is None
        second = await maker.render(book, name="n", format="pdf")
        assert spare.returncode == 0
        assert first.content == second.content
        last = maker._spare
    assert last is not None
    assert last.returncode is not None


async def test_a_process_that_went_home_is_replaced() -> None:
    book = notebook(text("# Title"))
    async with PageMaker() as maker:
        await maker.render(book, name="n", format="html")
        assert maker._spare is not None
        maker._spare.kill()
        await maker._spare.wait()
        made = await maker.render(book, name="n", format="html")
    assert b"Title" in made.content


async def test_a_cancelled_export_leaves_no_process() -> None:
    maker = PageMaker()
    book = notebook(*[code("x = 1\n" * 2000) for _ in range(20)])
    async with maker, anyio.create_task_group() as tasks:
        await maker.render(notebook(text("a")), name="n", format="html")
        spare = maker._spare
        assert spare is not None

        async def go() -> None:
            await maker.render(book, name="n", format="pdf")

        tasks.start_soon(go)
        while maker._spare is spare:
            await look_again()
        tasks.cancel_scope.cancel()
    assert spare.returncode is not None


def test_a_process_for_pages_builds_no_grammars_of_addresses() -> None:
    """They would take two seconds, wherever JupyterLab has brought the package."""
    standing_by = [sys.executable, "-X", "importtime", "-m", "cellwright.formats", "1"]
    imported = subprocess.run(
        standing_by, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stderr
    assert "| nbformat" in imported.replace("  ", "")
    assert "lark" not in imported
