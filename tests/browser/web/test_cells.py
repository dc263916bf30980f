"""Cells as a person works with them: by mouse and by keyboard, alone and beside others who change the same notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import APIResponse, Page, Route, expect

from tests.browser.web.conftest import LIMIT_MS, Looker, Served


def open_book(looker: Looker, served: Served, name: str, *cells: str) -> tuple[Page, str]:
    session_id = served.notebook(name, *cells, run=False)
    page = looker.go(f"/sessions/{session_id}")
    expect(page.locator("article.cell.code")).to_have_count(len(cells))
    return page, session_id


def test_a_cell_is_written_run_and_read_by_the_keyboard_alone(looker: Looker, served: Served) -> None:
    page, _ = open_book(looker, served, "Keyboard", "x = 20")
    page.keyboard.press("b")
    new = page.locator("article.cell.code").nth(1)
    expect(new).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("x + 22")
    expect(page.get_by_label("Source of cell 3")).to_be_focused()
    expect(page.get_by_label("Source of cell 3")).to_have_text("x + 22")
    page.keyboard.press("Escape")
    expect(new.locator("pre.code")).to_have_text("x + 22")
    # The stream may show it sooner than the answer closes what it was written in.
    expect(page.get_by_label("Source of cell 3")).to_be_hidden()
    expect(new.locator(".state")).to_have_text("not run")
    expect(new).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Enter")
    expect(new).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    expect(new.locator(".outputs")).to_have_text("42")
    expect(new.locator(".state")).to_have_text("ok")


def test_the_plain_editor_is_monospaced_and_indents_and_escape_then_tab_leaves_it(
    alone: Looker, served: Served
) -> None:
    alone.page.route("**/editor.js", lambda route: route.abort())
    alone.overlooked = "ERR_FAILED"
    page, _ = open_book(alone, served, "Plain", "x = 1")
    cell = page.locator("article.cell.code")
    cell.focus()
    page.keyboard.press("Enter")
    editor = page.get_by_label("Source of cell 2")
    assert "mono" in editor.evaluate("one => getComputedStyle(one).fontFamily").lower()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("def f():")
    page.keyboard.press("Enter")
    page.keyboard.type("x = 1")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("y")
    expect(editor).to_have_value("def f():\n    x = 1\n        y")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(editor).to_have_value("def f():\nx = 1\n    y")
    page.keyboard.press("Escape")
    expect(cell).to_be_focused()
    page.keyboard.press("Tab")
    expect(cell).not_to_be_focused()
    expect(cell.locator("pre.code")).to_have_text("def f():\nx = 1\n    y")


def test_what_is_being_written_outlives_what_the_stream_brings_and_a_clash_shows_both(
    looker: Looker, served: Served
) -> None:
    page, session_id = open_book(looker, served, "Clash", "a = 1")
    cell = page.locator("article.cell.code")
    cell.locator("pre.code").click()
    editor = page.get_by_label("Source of cell 2")
    editor.fill("a = 'mine'")
    cell_id = str(cell.get_attribute("id")).removeprefix("cell-")
    served.agent.call("cell_update", session_id=session_id, cell_id=cell_id, content="a = 'theirs'")
    served.agent.call("cell_add", session_id=session_id, content="b = 2")
    expect(page.locator("article.cell.code")).to_have_count(2)
    expect(editor).to_have_text("a = 'mine'")
    cell.first.get_by_role("button", name="Save").click()
    expect(cell.first.get_by_role("alert")).to_contain_text("a = 'theirs'")
    expect(editor).to_have_text("a = 'mine'")
    cell.first.get_by_role("button", name="Keep mine").click()
    expect(cell.first.locator("pre.code").first).to_have_text("a = 'mine'")
    expect(editor).to_be_hidden()


def test_letters_typed_while_a_save_is_under_way_stay_and_are_saved_next(
    looker: Looker, served: Served
) -> None:
    page, _ = open_book(looker, served, "Typing on", "a = 1")
    cell = page.locator("article.cell.code")
    cell.locator("pre.code").click()
    editor = page.get_by_label("Source of cell 2")
    editor.fill("a = 2")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/edit", hold)
    with page.expect_request("**/edit"):
        cell.get_by_role("button", name="Save").click()
    editor.press_sequentially(" + 40")
    held[0].continue_()
    looker.hears("Saved")
    expect(editor).to_have_text("a = 2 + 40")
    page.unroute("**/edit")
    cell.get_by_role("button", name="Save").click()
    expect(cell.locator("pre.code")).to_have_text("a = 2 + 40")
    expect(editor).to_be_hidden()


def test_a_click_is_heard_though_its_button_was_sent_anew_while_it_was_pressed(
    alone: Looker, served: Served
) -> None:
    alone.page.add_init_script(
        "const Own = EventSource; window.told = 0;"
        "window.EventSource = class extends Own {"
        " constructor(url) { super(url); this.addEventListener('parts', () => window.told++); } }"
    )
    page, session = open_book(alone, served, "Pressed", "a = 1")
    cell = page.locator("article.cell.code")
    cell.locator("pre.code").click()
    page.get_by_label("Source of cell 2").fill("a = 2")
    cell.get_by_role("button", name="Save").hover()
    page.mouse.down()
    told = page.evaluate("window.told")
    served.add(session, "b = 3", run=False)
    page.wait_for_function("told => window.told > told", arg=told)
    page.mouse.up()
    alone.hears("Saved")
    expect(page.locator("article.cell.code")).to_have_count(2)


def test_an_answer_that_comes_late_takes_nothing_back_that_the_stream_has_told(
    looker: Looker, served: Served
) -> None:
    made = served.agent.call("notebook_create", name="Late", mode="direct")
    gate = Path(made["cwd"]) / "go"
    source = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"
    served.add(made["session_id"], source, run=False)
    page = looker.go(f"/sessions/{made['session_id']}")
    cell = page.locator("article.cell.code")
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        held.append((route, route.fetch(timeout=LIMIT_MS)))
        gate.touch()

    page.route("**/run", hold)
    cell.get_by_role("button", name="Run cell 2").click()
    expect(cell.locator(".state")).to_have_text("ok")
    [(route, answer)] = held
    assert "running" in answer.text() or "queued" in answer.text()
    with page.expect_response("**/run"):
        route.fulfill(response=answer)
    page.unroute("**/run")
    # The button is free again once the answer was read.
    expect(cell.get_by_role("button", name="Run cell 2")).to_be_enabled()
    expect(cell.locator(".state")).to_have_text("ok")


def test_a_running_cell_counts_its_seconds_streams_and_is_stopped(looker: Looker, served: Served) -> None:
    loop = "import itertools, time\nfor n in itertools.count():\n    print('line', n)\n    time.sleep(.001)"
    page, _ = open_book(looker, served, "Running", loop, "after = 1")
    page.get_by_role("button", name="Run all").click()
    first, second = page.locator("article.cell.code").nth(0), page.locator("article.cell.code").nth(1)
    expect(first.locator(".state")).to_have_text("running")
    expect(second.locator(".state")).to_have_text("queued")
    expect(first).to_contain_text("earlier: show all")
    # Only the end is sent, whatever there is.
    assert len(first.locator(".outputs").inner_text().splitlines()) < 250
    page.reload()
    expect(first.locator(".clock")).to_have_text(re.compile(r"\d+ s"))
    first.get_by_role("button", name="Stop cell 2").click()
    expect(first.locator(".state")).to_have_text("interrupted")
    expect(second.locator(".state")).to_have_text("not run")


def test_cells_are_added_moved_and_deleted_and_say_their_place(looker: Looker, served: Served) -> None:
    page, _ = open_book(looker, served, "Places", "first = 1", "second = 2")
    code = page.locator("article.cell.code")
    page.get_by_label("More for cell 3").click()
    code.nth(1).get_by_role("button", name="Move up").click()
    expect(code.nth(0).locator("pre.code")).to_have_text("second = 2")
    expect(code.nth(1).locator(".place")).to_have_text("3")
    page.get_by_label("More for cell 3").click()
    code.nth(1).get_by_label("What the new cell is").select_option("text")
    code.nth(1).get_by_role("button", name="Above", exact=True).click()
    texts = page.locator("article.cell.markdown")
    expect(texts).to_have_count(2)
    expect(texts.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("## Heading\n\nwith $x^2$")
    page.keyboard.press("Escape")
    expect(texts.nth(1).get_by_role("heading", name="Heading")).to_be_visible()
    expect(texts.nth(1).locator("math")).to_be_visible()
    page.get_by_label("More for cell 2").click()
    page.once("dialog", lambda dialog: dialog.accept())
    code.nth(0).get_by_role("button", name="Delete").click()
    expect(code).to_have_count(1)
    expect(code.locator(".place")).to_have_text("3")


def test_a_cell_edited_since_it_ran_is_stale_until_it_runs_again(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Edited", "x = 1\nx")
    page = looker.go(f"/sessions/{session_id}")
    cell = page.locator("article.cell.code")
    expect(cell.locator(".state")).to_have_text("ok")
    cell_id = str(cell.get_attribute("id")).removeprefix("cell-")
    served.agent.call("cell_update", session_id=session_id, cell_id=cell_id, content="x = 2\nx")
    expect(cell.locator(".state")).to_have_text("stale (ok)")
    cell.get_by_role("button", name="Run cell 2").click()
    expect(cell.locator(".outputs")).to_have_text("2")
    expect(cell.locator(".state")).to_have_text("ok")


def test_a_source_with_half_a_character_is_shown_and_run(looker: Looker, served: Served) -> None:
    cell = {"id": "c1", "cell_type": "code", "source": "a = '\ud800'", "metadata": {}, "outputs": []}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**cell, "execution_count": None}]}
    file = served.place.root / "work" / "half.ipynb"
    file.write_text(json.dumps(book))
    session_id = served.agent.call("notebook_open", path=str(file))["session_id"]
    page = looker.go(f"/sessions/{session_id}")
    shown = page.locator("article.cell.code")
    expect(shown.locator("pre.code")).to_contain_text("a = '")
    shown.get_by_role("button", name="Run cell 1").click()
    expect(shown.locator(".state")).to_have_text(re.compile("ok|error"))


def test_what_is_written_in_a_panel_keeps_the_keyboard_when_the_panel_is_loaded_again(
    looker: Looker, served: Served
) -> None:
    page, session_id = open_book(looker, served, "Panel", "a = 1")
    page.get_by_text("Checkpoints", exact=True).click()
    name = page.get_by_label("Name of the checkpoint")
    name.click()
    page.keyboard.type("be")
    served.agent.call("checkpoint_create", session_id=session_id, name="other")
    expect(page.locator("ol.checkpoints")).to_contain_text("other")
    page.keyboard.type("fore a")
    expect(name).to_have_value("before a")
    expect(page.locator("article.cell.code")).to_have_count(1)


def test_a_comment_that_comes_in_leaves_the_one_being_written(looker: Looker, served: Served) -> None:
    page, _ = open_book(looker, served, "Comments", "a = 1")
    cell_id = str(page.locator("article.cell.code").get_attribute("id")).removeprefix("cell-")
    box = page.locator(f"#comment-{cell_id}")
    box.click()
    box.locator("textarea").click()
    page.keyboard.type("I am ")
    with looker.page.context.expect_page() as opened:
        page.evaluate("() => window.open(location.href)")
    other = opened.value
    other.locator(f"#comment-{cell_id}").click()
    other.locator(f"#comment-{cell_id} textarea").fill("Seen")
    other.get_by_role("button", name="Add the comment").first.click()
    expect(page.locator(".comment")).to_contain_text("Seen")
    expect(other.locator(f"#comment-{cell_id} textarea")).to_be_hidden()
    page.bring_to_front()
    page.keyboard.type("a writer")
    expect(box.locator("textarea")).to_have_value("I am a writer")


def test_a_page_says_that_its_session_was_deleted(looker: Looker, served: Served) -> None:
    page, session_id = open_book(looker, served, "Deleted", "a = 1")
    served.agent.call("notebook_delete", session_id=session_id)
    expect(page.locator("#status")).to_contain_text("deleted")


def test_a_cell_that_asks_for_input_has_a_field_below_it_and_keeps_what_is_typed(
    looker: Looker, served: Served
) -> None:
    asks = "import getpass\nname = input('Your name? ')\nprint('and', len(getpass.getpass('Word? ')), name)"
    page, session_id = open_book(looker, served, "Asks", asks)
    cell = page.locator("article.cell.code")
    cell.get_by_role("button", name="Run cell").click()
    field = cell.get_by_label("Your name?")
    field.fill("Ada")
    # What is typed outlives that the cell is drawn again.
    cell_id = str(cell.get_attribute("id")).removeprefix("cell-")
    served.agent.call("cell_update", session_id=session_id, cell_id=cell_id, content=f"{asks}  # more")
    expect(cell.locator("pre.code")).to_contain_text("# more")
    expect(field).to_have_value("Ada")
    field.press("Enter")
    word = cell.get_by_label("Word?")
    expect(word).to_have_attribute("type", "password")
    word.fill("swordfish")
    cell.get_by_role("button", name="Answer").click()
    expect(cell.locator(".outputs")).to_contain_text("and 9 Ada")
    expect(cell.locator("form.question")).to_have_count(0)
    assert "swordfish" not in page.content()
    # Code that is in no cell asks above the notebook.
    asked = served.agent.begin("scratch_run", session_id=session_id, code="print(input('Besides? ').upper())")
    page.locator("#status").get_by_label("Besides?").fill("yes")
    page.locator("#status").get_by_role("button", name="Answer").click()
    assert "YES" in json.dumps(served.agent.answer(asked))
