"""The editor of a cell: typing, completion, documentation, hints, and the keys that Jupyter's people know."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from cellwright.web import _templates
from tests.browser.web.conftest import Looker, Served
from tests.conftest import Require


@pytest.fixture(autouse=True)
def built(require: Require) -> None:
    require("the page's editor", bool(_templates.editor_url()), "make .venv/.stamp-editor")


def open_book(looker: Looker, served: Served, name: str, *cells: str) -> tuple[Page, str]:
    session_id = served.notebook(name, *cells, run=False)
    page = looker.go(f"/sessions/{session_id}")
    expect(page.locator("article.cell.code")).to_have_count(len(cells))
    return page, session_id


def test_a_cell_is_written_with_colours_completion_documentation_and_hints(
    looker: Looker, served: Served
) -> None:
    page, _ = open_book(looker, served, "Writing", "import math\nradius = 2", "")
    code = page.locator("article.cell.code")
    code.nth(0).focus()
    page.keyboard.press("Shift+Enter")
    expect(code.nth(0).locator(".state")).to_have_text("ok")
    page.keyboard.press("Enter")
    page.keyboard.type("def area(r):")
    page.keyboard.press("Enter")
    page.keyboard.type("return math.p")
    page.keyboard.press("Tab")
    page.locator(".cm-tooltip-autocomplete li", has_text="perm").click()
    editor = page.get_by_label("Source of cell 3")
    expect(editor.locator(".cm-line").nth(1)).to_have_text("    return math.perm")
    assert "mono" in editor.evaluate("one => getComputedStyle(one).fontFamily").lower()
    keyword = editor.locator("span", has_text="def").first
    assert keyword.evaluate("one => getComputedStyle(one).color") != editor.evaluate(
        "one => getComputedStyle(one).color"
    )
    page.keyboard.press("Shift+Tab")
    expect(page.locator(".cm-about")).to_contain_text("Number of ways to choose k items")
    page.keyboard.press("Escape")
    expect(page.locator(".cm-about")).to_have_count(0)
    expect(editor).to_be_focused()
    page.keyboard.type("(r, 1) * radius * wrong")
    expect(editor.locator(".cm-lintRange-hint")).to_have_text("wrong")
    page.keyboard.press("Escape")
    expect(code.nth(1)).to_be_focused()
    expect(code.nth(1).locator("pre.code")).to_have_text(
        "def area(r):\n    return math.perm(r, 1) * radius * wrong"
    )


def test_keys_mean_what_they_mean_in_jupyter_and_none_is_lost_while_a_step_is_under_way(
    looker: Looker, served: Served
) -> None:
    page, _ = open_book(looker, served, "Keys", "first = 1")
    code, every = page.locator("article.cell.code"), page.locator("article.cell")
    code.nth(0).focus()
    # Faster than any answer: each key waits for those before it.
    for key in "b", "Enter":
        page.keyboard.press(key)
    page.keyboard.type("second = (1")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("third = 3")
    page.keyboard.press("Alt+Enter")
    page.keyboard.press("Escape")
    for key in "a", "Enter", "#", "Escape", "m", "a", "d", "d":
        page.keyboard.press(key)
    expect(code).to_have_count(4)
    expect(code.nth(1).locator("pre.code")).to_have_text("second = (1)")
    expect(code.nth(1).locator(".state")).to_have_text("ok")
    expect(code.nth(2).locator("pre.code")).to_have_text("third = 3")
    expect(every.nth(4)).to_have_class("cell markdown")
    expect(every.nth(4)).to_be_focused()
    page.keyboard.press("y")
    expect(code).to_have_count(5)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Shift-Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+s")
    looker.hears("Saved to")
    page.once("dialog", lambda dialog: dialog.accept())
    page.keyboard.press("i")
    page.keyboard.press("i")
    looker.hears("Stopping")
    with page.expect_response("**/restart"):
        page.keyboard.press("0")
        page.keyboard.press("0")


ASK_FOR_NAMES = """async (url) => {
  const headers = { "x-cellwright-page": document.querySelector("meta[name=csrf]").content };
  const answer = await fetch(url, { method: "POST", headers, body: new URLSearchParams({ source: "lost" }) });
  return (await answer.json()).names.map((one) => one.message);
}"""


def test_what_was_typed_is_there_after_an_agent_changed_the_notebook_and_the_caret_stays(
    looker: Looker, served: Served
) -> None:
    page, session_id = open_book(looker, served, "Beside", "a = 1")
    cell = page.locator("article.cell.code").first
    cell.locator("pre.code").click()
    page.keyboard.press("End")
    page.keyboard.type(" + ")
    cell_id = str(cell.get_attribute("id")).removeprefix("cell-")
    served.tell("cell_execute", session_id=session_id, cell_id=cell_id)
    served.add(session_id, "b = 2")
    expect(cell.locator(".state")).not_to_have_text("not run")
    expect(page.locator("article.cell.code")).to_have_count(2)
    page.keyboard.type("41")
    expect(page.get_by_label("Source of cell 2")).to_have_text("a = 1 + 41")
    page.keyboard.press("Control+Enter")
    expect(cell.locator("pre.code")).to_have_text("a = 1 + 41")
    expect(cell).to_be_focused()
    page.get_by_label("More for cell 2").click()
    cell.get_by_role("button", name="Format").click()
    looker.hears("It is formatted already")
    about = {"session_id": session_id, "language": "typescript", "content": "const  a=1 // one"}
    typed = page.locator(f"#cell-{served.agent.call('cell_add', **about)['cell_id']}")
    typed.get_by_label("More for cell").click()
    typed.get_by_role("button", name="Format").click()
    expect(typed.locator("pre.code")).to_have_text("const a = 1; // one")
    sql = served.agent.call("cell_add", session_id=session_id, language="sql", content="select  1")["cell_id"]
    page.locator(f"#cell-{sql}").get_by_label("More for cell").click()
    expect(page.locator(f"#cell-{sql}").get_by_role("button", name="Delete")).to_be_visible()
    expect(page.locator(f"#cell-{sql}").get_by_role("button", name="Format: none for sql")).to_be_disabled()
    cell.locator("pre.code").click()
    page.keyboard.press("End")
    page.keyboard.type(" * 2")
    served.agent.call("cell_delete", session_id=session_id, cell_id=cell_id)
    looker.hears("Somebody deleted the cell that you were writing in")
    expect(cell.locator("pre.code")).to_have_text("a = 1 + 41 * 2")
    # What was asked about the text just before is answered still: a refusal would be an error in the console.
    assert page.evaluate(ASK_FOR_NAMES, f"/sessions/{session_id}/cells/{cell_id}/names") == [
        "No cell defines 'lost'"
    ]
