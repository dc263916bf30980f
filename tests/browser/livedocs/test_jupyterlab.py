"""A real browser with a real JupyterLab: a person and the agent in one notebook at the same time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from cellwright import Session
from tests.conftest import Require
from tests.kernel.engine.conftest import OpenEngine
from tests.support.browsers import LIMIT_MS, launch_options
from tests.support.livedocs.visiting import new_notebook
from tests.support.servers.server import Server
from tests.waiting import until

pytestmark = pytest.mark.anyio
expect.set_options(timeout=LIMIT_MS)
STORY = """import pathlib, time
for month in ("January", "February", "March"):
    print(month, "is read")
    time.sleep(0.2)
while not pathlib.Path("seen").exists():
    time.sleep(0.05)
print("All months are read")"""


@pytest.fixture
async def browser(require: Require) -> AsyncIterator[Browser]:
    options = launch_options(require)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        yield browser
        await browser.close()


async def open_lab(browser: Browser, server: Server, path: str) -> Page:
    page = await browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(LIMIT_MS)
    await page.goto(f"{server.url}/lab/tree/{path}?token={server.token}")
    await page.wait_for_selector(".jp-Notebook .jp-Cell")
    news = page.get_by_role("button", name="No", exact=True)
    if await news.count():
        await news.click()
    return page


@pytest.mark.matrix  # `system/livedocs` has both sides, `browser/lab` a real Lab
async def test_a_person_and_the_agent_work_in_one_notebook(
    open_here: OpenEngine, collaboration_server: Server, browser: Browser, tmp_path: Path
) -> None:
    server = collaboration_server
    path = new_notebook(server, "rate = 1\n", name="sales.ipynb")
    settings: dict[str, Any] = {
        "jupyter_url": server.url,
        "jupyter_token": server.token,
        "agent_name": "Ada's agent",
    }
    async with open_here(**settings) as engine:
        session = await engine.open_there(path, host="jupyter")
        await session.run("cell-0")
        page = await open_lab(browser, server, path)

        # The agent's cell and its output appear while it runs, on the kernel that both have.
        cell = await session.add_cell(STORY)
        running = await session.execute(cell.id)
        outputs = page.locator(".jp-OutputArea-output")
        await expect(outputs).to_contain_text("March is read")
        assert not running.done
        await expect(page.locator(".jp-InputArea-prompt").last).to_have_text("[*]:")
        await page.get_by_role("tab", name="Collaboration").click()
        await expect(page.get_by_text("Ada's agent").first).to_be_visible()
        (server.root / "seen").touch()
        await running.wait()
        await expect(outputs).to_contain_text("All months are read")
        await expect(page.locator(".jp-InputArea-prompt").last).to_have_text("[2]:")

        # Both write into one cell.
        editor = page.locator(".jp-Cell .cm-content").first
        await editor.click()
        await page.keyboard.press("Control+End")
        await page.keyboard.type("tax = rate * 0.2  # typed by a person", delay=10)
        await session.edit_cell("cell-0", "# by the agent\n" + session.cell("cell-0").source)
        await _until_has(session, "cell-0", "# by the agent\nrate = 1\ntax = rate * 0.2  # typed by a person")
        await expect(editor).to_contain_text("by the agent")

        # What a person runs is in the session, on the same kernel.
        await page.keyboard.press("Shift+Enter")
        await expect(page.locator(".jp-InputArea-prompt").first).to_have_text("[3]:")
        ran = await session.execute_code("tax")
        await ran.wait()
        assert ran.text.strip() == "0.2"
        await page.screenshot(path=os.environ.get("CELLWRIGHT_GALLERY") or tmp_path / "live-document.png")


async def _until_has(session: Session, cell_id: str, source: str) -> None:
    await until(lambda: session.cell(cell_id).source == source)
