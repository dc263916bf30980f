"""The grid over a live table: of a million rows those that are seen are in the document, and the rest is one key away."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.web.conftest import Looker, Served, assert_accessible

MILLION = """
import numpy as np, pandas as pd
many = pd.DataFrame({"n": np.arange(1_000_000), "half": np.arange(1_000_000) / 2, "word": [f"w{n % 7}" for n in range(1_000_000)]})
many
"""
SMALL = """
few = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=90), "kind": ["a", "b", "c"] * 30, "size": range(90)})
few
"""


@pytest.fixture(scope="module")
def tables(served: Served) -> str:
    return served.notebook("Tables", MILLION, SMALL)


def opened(page: Page, cell: int) -> None:
    """Open the grid of a cell's table and wait for its first rows."""
    shown = page.locator("article.cell.code").nth(cell)
    shown.scroll_into_view_if_needed()
    shown.get_by_role("button", name="All rows of output 1").click()
    expect(shown.get_by_role("grid")).to_have_attribute("data-ready", "yes")
    expect(shown.locator(".waits")).to_have_count(0)


def test_a_million_rows_are_scrolled_sorted_filtered_and_copied_by_the_keyboard(
    alone: Looker, tables: str, axe: str
) -> None:
    alone.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = alone.go(f"/sessions/{tables}")
    opened(page, 0)
    grid = page.get_by_role("grid")
    expect(page.locator(".grid .count")).to_have_text("1,000,000 rows × 3 columns")
    expect(grid).to_have_attribute("aria-rowcount", "1000001")
    expect(page.locator(".head").nth(1).locator(".figures")).to_contain_text("0 – 499999.5")
    expect(page.locator(".head").nth(1).get_by_role("img")).to_be_visible()
    assert_accessible(page, axe)

    grid.press("Control+End")
    expect(page.locator('[aria-selected="true"]')).to_have_text("w0")
    expect(grid.get_by_role("row").last).to_contain_text("999999")
    grid.press("Control+Home")
    # The wheel goes by rows, however high all of them are.
    grid.locator(".space .row").nth(3).hover()
    page.mouse.wheel(0, 26 * 500)
    expect(grid.locator(".space .row").filter(has_text=re.compile("^500250w3"))).to_have_count(1)
    grid.evaluate("body => { body.scrollTop = body.scrollHeight / 2 }")
    expect(grid.locator(".space .row").nth(8)).to_contain_text(re.compile(r"^[45]\d{5}"))
    assert page.locator(".space .row").count() < 60

    grid.get_by_role("button", name="half", exact=True).press("Enter")
    grid.get_by_role("button", name="half", exact=True).press("Enter")
    expect(grid.get_by_role("columnheader").nth(1)).to_have_attribute("aria-sort", "descending")
    expect(grid.locator(".space .row").first).to_contain_text("999999")
    page.get_by_label(re.compile("Filter word")).fill("w3")
    page.get_by_label(re.compile("Filter n:")).fill("<=100")
    page.get_by_label(re.compile("Filter n:")).press("Enter")
    expect(page.locator(".grid .count")).to_have_text("14 of 1,000,000 rows")
    expect(grid.locator(".space .row").first).to_contain_text("94")
    grid.press("Control+a")
    page.get_by_role("button", name="Copy", exact=True).click()
    alone.hears("14 rows are copied")
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert (copied[0], copied[1], len(copied)) == ("n\thalf\tword", "94\t47\tw3", 15)


def test_a_table_is_taken_whole_and_charted_and_says_when_it_changed(
    looker: Looker, served: Served, tables: str
) -> None:
    page = looker.go(f"/sessions/{tables}")
    opened(page, 1)
    shown = page.locator("article.cell.code").nth(1)
    with page.expect_download() as got:
        shown.get_by_role("link", name="All rows as CSV").click()
    with Path(got.value.path()).open(newline="") as file:
        rows = list(csv.reader(file))
    assert (got.value.suggested_filename, rows[0], len(rows)) == ("few.csv", ["when", "kind", "size"], 91)
    with page.expect_download() as got:
        shown.get_by_role("link", name="All rows as Parquet").click()
    assert Path(got.value.path()).read_bytes().startswith(b"PAR1")

    shown.get_by_role("button", name="Chart kind").click()
    charted = page.locator("article.cell.code").nth(2)
    expect(charted).to_contain_text("value_counts")
    expect(charted.locator(".state")).to_have_text("ok")

    served.add(tables, "few['size'] = few['size'] * 1000")
    looker.overlooked = "409"
    shown.get_by_label(re.compile("Filter size")).fill(">88000")
    shown.get_by_label(re.compile("Filter size")).press("Enter")
    expect(shown.locator(".grid .count")).to_have_text("1 of 90 rows")
    expect(shown.get_by_text("The table has changed since it was shown")).to_be_visible()


def test_grids_wait_for_the_cell_that_runs_and_are_of_displayed_tables_and_of_live_kernels(
    looker: Looker, served: Served, tables: str
) -> None:
    looker.overlooked = "409"
    page = looker.go(f"/sessions/{tables}")
    opened(page, 1)
    shown = page.locator("article.cell.code").nth(1)
    cell = served.add(
        tables, "display(few.head(70), few)\nimport threading; threading.Event().wait()", run=False
    )
    served.agent.begin("cell_execute", session_id=tables, cell_id=cell)
    last = page.locator("article.cell.code").last
    expect(last.locator(".state")).to_have_text("running")
    shown.get_by_role("button", name="size", exact=True).click()
    expect(shown.get_by_role("alert")).to_contain_text("is running a cell")
    last.scroll_into_view_if_needed()
    last.get_by_role("button", name="All rows of output 1").click()
    expect(last.get_by_role("status")).to_contain_text("All rows come when")
    page.get_by_role("button", name="Stop", exact=True).click()
    # Both get their rows by themselves: the grid that was open, and the one of a table that has no name.
    expect(last.locator(".grid .count")).to_have_text("70 rows × 3 columns")
    expect(last.get_by_text("All rows come when")).to_have_count(0)
    expect(shown.get_by_role("alert")).to_be_hidden()
    expect(shown.locator(".space .row").first).to_contain_text("2026-01-01")
    last.get_by_role("button", name="Chart kind").click()
    looker.hears("has no name that code could draw it by")
    last.get_by_role("button", name="All rows of output 2").click()
    expect(last.locator(".grid .count").nth(1)).to_have_text("90 rows × 3 columns")

    served.tell("kernel_restart", session_id=tables)
    shown.get_by_role("button", name="size", exact=True).click()
    expect(shown.get_by_role("alert")).to_contain_text("no longer has this table")
    shown.get_by_role("button", name="Close").click()
    expect(shown.get_by_role("button", name="All rows of output 1")).to_be_focused()
