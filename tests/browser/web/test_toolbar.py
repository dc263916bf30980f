"""The toolbar of a notebook: all of it run, stopped, restarted, cleared, taken away, verified and shared by a click."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.web.conftest import Looker, Served


def choose(page: Page, menu: str, choice: str) -> None:
    """Open one of the toolbar's menus and choose from it."""
    page.locator(".toolbar summary").filter(has_text=menu).click()
    page.locator(".toolbar").get_by_text(choice, exact=True).click()


def test_the_toolbar_runs_restarts_clears_exports_verifies_and_shares(alone: Looker, served: Served) -> None:
    session_id = served.notebook(
        "Try the toolbar", "kept = 6 * 7", "kept + 0", "def fail(): return kept / 0", "fail()"
    )
    page = alone.go(f"/sessions/{session_id}")
    page.on("dialog", lambda dialog: dialog.accept())
    expect(page.locator("#title")).to_contain_text(re.compile(r"Try the toolbar\s+\S+try_the_toolbar.ipynb"))
    cells = page.locator("article.cell.code")
    # A traceback counts as the page does.
    failed = cells.nth(3).locator(".output.error")
    expect(failed).to_contain_text("Cell 5, line 1")
    expect(failed).to_contain_text("Cell 4, line 1")
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_disabled()
    choose(page, "Kernel", "Restart")
    alone.hears("The kernel is empty")
    expect(cells.nth(0).locator(".state")).to_contain_text("generation")
    cells.nth(3).get_by_label("More for cell 5").click()
    cells.nth(3).get_by_role("button", name="Run above").click()
    alone.hears("3 cells wait to run")
    expect(cells.nth(2).locator(".state")).to_have_text("ok")
    expect(cells.nth(3).locator(".state")).to_contain_text("generation")
    choose(page, "Run", "From the chosen cell on")
    alone.hears("1 cell waits to run")
    expect(cells.nth(3).locator(".state")).to_have_text("error")
    choose(page, "Kernel", "Restart and run all")
    alone.hears("4 cells wait to run")
    expect(cells.nth(3).locator(".state")).to_have_text("error")
    expect(cells.nth(1).locator(".outputs")).to_contain_text("42")
    choose(page, "Kernel", "Clear outputs")
    expect(page.locator(".outputs .output")).to_have_count(0)
    page.get_by_role("button", name="Checkpoint", exact=True).click()
    alone.hears("Kept as")

    assert_taken_away(page)
    choose(page, "Verify", "Share by a link")
    expect(page.locator("#shared-link input")).to_have_value(re.compile(r"/verified/\S+"))
    choose(page, "Verify", "Verified view")
    expect(page).to_have_url(f"{served.url}/sessions/{session_id}/verified")
    page.go_back()
    page.get_by_role("link", name="What ran").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("What ran in")


def assert_taken_away(page: Page) -> None:
    """The notebook's file and its program are downloaded, whole."""
    page.locator(".toolbar summary").filter(has_text="Export").click()
    taken = {}
    for label, suffix in (("Jupyter notebook", ".ipynb"), ("Program", ".py")):
        with page.expect_download() as got:
            page.locator("#export-menu").get_by_role("link", name=label).first.click()
        assert got.value.suggested_filename.endswith(suffix)
        taken[suffix] = Path(got.value.path()).read_text()
    assert len(json.loads(taken[".ipynb"])["cells"]) == 5
    assert "kept = 6 * 7" in taken[".py"]


def test_a_long_cell_is_stopped_by_the_toolbar(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Stop it", "import threading; threading.Event().wait()", run=False)
    page = looker.go(f"/sessions/{session_id}")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator("article.cell.code .state")).to_have_text("running")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("article.cell.code .state")).to_have_text("interrupted")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_disabled()
