"""People watch agents and each other at work: who is here, what they do, what changed, what needs a person."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser.web.conftest import Looker, Served, assert_accessible, looking


def test_people_see_who_is_at_a_notebook_what_they_do_and_who_changed_each_cell(
    looker: Looker, served: Served, axe: str
) -> None:
    session_id = served.notebook("Seen at work", "x = 1")
    page = looker.go(f"/sessions/{session_id}")
    here = page.get_by_role("region", name="Who is here")
    expect(here).to_contain_text("you")
    expect(here).to_contain_text("test is here")
    cells = page.locator("article.cell.code")
    code = "import time; time.sleep(600)"
    began = served.agent.begin("cell_add_and_run", session_id=session_id, content=code)
    expect(here.locator(".busy")).to_contain_text("test is running cell 3")
    assert_accessible(page, axe)
    page.get_by_role("button", name="Stop", exact=True).first.click()
    served.agent.answer(began)
    expect(here.locator(".busy")).to_have_count(0)
    expect(cells.last).to_contain_text("run by test")
    expect(cells.first).to_contain_text("edited by test")
    cells.first.locator(".shown").click()
    expect(here).to_contain_text("you are writing in cell 2")
    cells.first.get_by_role("textbox", name="Source of cell").fill("x = 2")
    page.keyboard.press("Shift+Enter")
    expect(cells.first).to_contain_text("run by you")
    expect(cells.first).to_contain_text("edited by you")
    expect(here).not_to_contain_text("writing")


# Keeps what would be told by the system, and has the window out of sight.
UNSEEN = """
  window.noticed = [];
  window.Notification = class { constructor(title, { body }) { noticed.push(body); } static permission = "granted"; };
  document.hasFocus = () => false;
"""


def test_followed_work_stays_in_view_until_somebody_scrolls_and_then_what_is_new_is_counted(
    alone: Looker, served: Served, axe: str
) -> None:
    session_id = served.notebook("Followed", *["pass"] * 8, run=False)
    page = alone.page
    page.add_init_script(UNSEEN)
    alone.go(f"/sessions/{session_id}")
    cells = page.locator("article.cell.code")
    expect(page.locator(".news")).to_have_count(0)
    below = page.locator("#below")
    served.add(session_id, "print('\\n' * 50)")
    served.add(session_id, "'last'")
    expect(below).to_have_text("2 new cells ↓")
    expect(cells.last.locator(".news")).to_have_text("new")
    assert_accessible(page, axe)
    follow = page.get_by_role("button", name="Follow")
    follow.click()
    expect(cells.last).to_be_in_viewport()
    expect(below).to_be_hidden()
    expect(cells.last.locator(".news")).to_have_count(0)
    served.add(session_id, "'later'")
    expect(cells.last).to_be_in_viewport()
    expect(cells.last).to_contain_text("later")
    expect(page.locator(".news")).to_have_count(0)
    page.mouse.wheel(0, -9000)
    expect(follow).to_have_attribute("aria-pressed", "false")
    alone.hears("no longer following")
    expect(cells.first).to_be_in_viewport()
    served.add(session_id, "'unseen'")
    expect(below).to_have_text("1 new cell ↓")
    page.reload()
    expect(below).to_have_text("1 new cell ↓")
    below.click()
    expect(cells.last).to_be_focused()
    expect(page.locator(".news")).to_have_count(0)
    page.reload()
    expect(cells.last).to_contain_text("unseen")
    expect(page.locator(".news")).to_have_count(0)


def test_what_needs_a_person_is_said_on_the_page_and_by_the_browser_once(
    alone: Looker, served: Served
) -> None:
    failing = [{"description": "Count", "code": "nobody_knows", "accept": ["True"]}]
    session_id = served.agent.call("plan_create", problem="Counting", todos=failing)["session_id"]
    page = alone.page
    page.add_init_script(UNSEEN)
    alone.go(f"/sessions/{session_id}")
    served.agent.call("plan_run", session_id=session_id, response_format="json")
    here = page.get_by_role("region", name="Who is here")
    expect(here.get_by_role("alert")).to_contain_text("The plan has stopped")
    asking = served.agent.begin("cell_add_and_run", session_id=session_id, content="input('Which? ')")
    here.get_by_role("link", name="The code asks").click()
    page.get_by_role("textbox", name="Which?").fill("this one")
    page.keyboard.press("Enter")
    served.agent.answer(asking)
    expect(here).not_to_contain_text("The code asks")
    page.get_by_text("Take over", exact=True).click()
    page.get_by_role("button", name="Take the session over").click()
    expect(page.locator("#status")).to_contain_text("owner has this session")
    assert "owner took this session over" in served.tell("cell_add", session_id=session_id, content="1")
    expect(here).to_contain_text("test would like to go on, and owner has this session")
    said = ["The plan has stopped, and waits for you", "The code asks, and waits for an answer"]
    said += ["test would like to go on, and owner has this session"]
    assert page.evaluate("noticed") == said
    page.reload()
    expect(here).to_contain_text("test would like to go on")
    assert page.evaluate("noticed") == []
    page.get_by_text("Give back", exact=True).click()
    page.get_by_role("button", name="Give the session back").click()
    expect(here).not_to_contain_text("would like")


def test_an_agent_works_for_twenty_cells_while_two_people_watch_one_edits_and_one_takes_over(
    looker: Looker, served: Served, browser: Browser
) -> None:
    token = served.place.run("people", "add", "Ada", "--role", "run").stdout.strip()
    session_id = served.notebook("Together", "total = 0")
    page = looker.go(f"/sessions/{session_id}")
    guest = Served(served.place, served.url, token, served.agent)
    with looking(browser, guest) as other:
        ada = other.go(f"/sessions/{session_id}")
        for one in (page, ada):
            expect(one.get_by_role("region", name="Who is here").locator(".chip")).to_have_count(3)
            one.get_by_role("button", name="Follow").click()
        for number in range(1, 11):
            served.add(session_id, f"total += {number}\nprint('sum', total)")
        for one in (page, ada):
            expect(one.locator("article.cell.code").last).to_contain_text("sum 55")
            expect(one.locator("article.cell.code").last).to_be_in_viewport()
            expect(one.locator("article.cell.code").last).to_contain_text("run by test")
        # Ada stops following, edits the first cell and runs it, while the agent goes on.
        ada.mouse.wheel(0, -20_000)
        first = ada.locator("article.cell.code").first
        first.locator(".shown").click()
        expect(page.get_by_role("region", name="Who is here")).to_contain_text("Ada is writing in cell 2")
        first.get_by_role("textbox", name="Source of cell").fill("total = 1000")
        for number in range(11, 21):
            served.add(session_id, f"total += {number}\nprint('sum', total)")
        expect(first.get_by_role("textbox", name="Source of cell")).to_contain_text("total = 1000")
        ada.keyboard.press("Control+Enter")
        expect(first).to_contain_text("edited by you")
        expect(page.locator("article.cell.code").first).to_contain_text("run by Ada")
        expect(ada.locator("#below")).to_have_text(re.compile(r"1\d new cells ↓"))
        expect(page.locator("article.cell.code").last).to_contain_text("sum 210")
        # The owner takes over: the agent is refused by name, Ada may only look and asks for it.
        page.get_by_text("Take over", exact=True).click()
        page.get_by_role("button", name="Take the session over").click()
        expect(ada.locator("#status")).to_contain_text("owner has this session")
        assert "owner took this session over" in served.tell("cell_add", session_id=session_id, content="1")
        ada.get_by_role("button", name="Ask owner for it").click()
        for wanting in ("test", "Ada"):
            expect(page.get_by_role("alert").filter(has_text=f"{wanting} would like")).to_be_visible()
        page.get_by_text("Give back", exact=True).click()
        page.get_by_role("button", name="Give the session back").click()
        expect(ada.locator("#status")).not_to_contain_text("owner has this session")
        served.add(session_id, "print('sum', total)")
        for one in (page, ada):
            expect(one.locator("article.cell.code").last).to_contain_text("sum 1000")
            expect(one.locator("article.cell.code")).to_have_count(22)
        other.assert_quiet()
