"""The cells of a notebook as a whole: several at once, moved, pasted, folded, found, and any of it undone."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.web.conftest import Looker, Served, assert_accessible


def expect_sources(page: Page, *wanted: str) -> None:
    page.wait_for_function(
        "wanted => JSON.stringify([...document.querySelectorAll('#cells .editor')]"
        ".slice(1).map((one) => one.querySelector('textarea')?.value ?? one.dataset.source)) === JSON.stringify(wanted)",
        arg=list(wanted),
    )
    places = page.locator("#cells .place").all_text_contents()
    assert places == [str(number) for number in range(1, len(wanted) + 2)]


def test_cells_are_chosen_moved_copied_merged_and_deleted_and_every_step_is_undone(
    looker: Looker, served: Served
) -> None:
    session_id = served.notebook("Steps", "a = 1", "b = 2", "c = 3", "d = 4", run=False)
    page = looker.go(f"/sessions/{session_id}")
    code = page.locator("article.cell.code")
    expect(code).to_have_count(4)
    code.nth(0).focus()
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator(".cell.picked")).to_have_count(2)
    page.keyboard.press("Control+Shift+ArrowDown")
    expect_sources(page, "c = 3", "a = 1", "b = 2", "d = 4")
    page.keyboard.press("M")
    expect_sources(page, "c = 3", "a = 1\nb = 2", "d = 4")
    page.keyboard.press("x")
    expect_sources(page, "c = 3", "d = 4")
    page.keyboard.press("v")
    expect_sources(page, "c = 3", "d = 4", "a = 1\nb = 2")
    code.nth(0).locator(".place").drag_to(code.nth(2), target_position={"x": 200, "y": 2})
    expect_sources(page, "d = 4", "c = 3", "a = 1\nb = 2")
    for _ in range(5):
        page.keyboard.press("z")
    expect_sources(page, "a = 1", "b = 2", "c = 3", "d = 4")
    page.keyboard.press("z")
    looker.hears("There is nothing to undo")
    page.keyboard.press("Z")
    expect_sources(page, "c = 3", "a = 1", "b = 2", "d = 4")
    # What was undone is known to the server, not to this page.
    page.reload()
    page.locator("article.cell.code").nth(0).focus()
    page.keyboard.press("z")
    expect_sources(page, "a = 1", "b = 2", "c = 3", "d = 4")


def test_cells_are_added_between_split_folded_and_found(looker: Looker, served: Served, axe: str) -> None:
    session_id = served.notebook("Parts", "total = 1\nprint(total)", "subtotal = total")
    page = looker.go(f"/sessions/{session_id}")
    code = page.locator("article.cell.code")
    expect(code.nth(0).locator(".outputs")).to_have_text("1")
    code.nth(0).hover()
    page.get_by_role("button", name="+ Text").click()
    page.keyboard.type("## Sums")
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_role("heading", name="Sums")).to_be_visible()
    page.get_by_text("Contents", exact=True).click()
    expect(page.locator("#panel-contents a", has_text="Sums")).to_be_visible()
    code.nth(0).focus()
    page.keyboard.press("o")
    expect(code.nth(0)).to_have_class("cell code outputs-folded")
    page.keyboard.press("h")
    expect(code.nth(0)).to_have_class("cell code source-folded outputs-folded")
    # Editing unfolds.
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Home")
    page.keyboard.press("End")
    page.keyboard.press("Control+Shift+Minus")
    expect_sources(page, "total = 1", "print(total)", "## Sums", "subtotal = total")
    page.keyboard.press("f")
    page.get_by_label("Find", exact=True).fill("total")
    expect(page.locator("#found")).to_have_text("4 found")
    page.get_by_label("Whole words").check()
    expect(page.locator("#found")).to_have_text("3 found")
    page.keyboard.press("Tab")
    page.get_by_label("Replace with").fill("amount")
    page.get_by_label("Find", exact=True).press("Enter")
    expect(page.locator("#found")).to_have_text("1 of 3 found")
    assert_accessible(page, axe)
    page.get_by_role("button", name="Replace all").click()
    expect_sources(page, "amount = 1", "print(amount)", "## Sums", "subtotal = amount")
    page.get_by_label("Close the search").click()
    page.keyboard.press("z")
    expect_sources(page, "total = 1", "print(total)", "## Sums", "subtotal = total")
    page.keyboard.press("?")
    assert_accessible(page, axe)


def test_a_notebook_of_500_cells_carries_no_editor_menu_or_frame_that_nobody_came_to(
    looker: Looker, served: Served, looking_at: Any
) -> None:
    cells = [
        {
            "id": f"c{n}",
            "cell_type": "code",
            "source": f"x{n} = {n}",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for n in range(500)
    ]
    html = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/html": "<p style='color: red'>far</p>"},
    }
    cells[-1]["outputs"] = [html]
    file = served.place.root / "work" / "long.ipynb"
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    session_id = served.agent.call("notebook_open", path=str(file))["session_id"]
    with looker.page.expect_response(f"**/sessions/{session_id}") as answered:
        page = looker.go(f"/sessions/{session_id}")
    assert int(answered.value.headers["content-length"]) < 60_000
    costly = "#cells :is(details, textarea, iframe, .menu > div, .cm-editor)"
    assert page.locator(costly).count() == 0
    page.locator(".output.framed").scroll_into_view_if_needed()
    expect(page.frame_locator(".framed iframe").get_by_text("far")).to_be_visible()
    with looking_at(java_script_enabled=False) as reader:
        plain = reader.page
        plain.goto(page.url)
        expect(plain.locator("#cell-c499 .shown")).to_have_text("x499 = 499")
        expect(plain.frame_locator(".framed iframe").get_by_text("far")).to_be_visible()
    page.locator("article.cell.code").nth(250).focus()
    page.keyboard.press("Control+Shift+ArrowDown")
    expect(page.locator("#cell-c250 .place")).to_have_text("252")
    expect(page.locator("#cell-c250")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".cm-editor")).to_have_count(1)
