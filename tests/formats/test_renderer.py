"""Pages made in a process of their own."""

from __future__ import annotations

import pytest

from cellwright.formats.renderer import RenderFailed, render
from formats.pagebooks import PNG, code, display, notebook, stream, text

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
