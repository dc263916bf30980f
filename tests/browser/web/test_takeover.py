"""A person works on an agent's session: takes it over, remarks on cells, mends its plan, and gives it back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.web.conftest import Looker, Served, assert_accessible
from tests.matrix import first_of

FAILS = [
    {"description": "Have numbers", "code": "numbers = [1, 2, 3]", "accept": ["len(numbers) == 3"]},
    {"description": "Add them up", "code": "total = sum(nombres_de_hier)", "accept": ["total == 6"]},
    {"description": "Say it", "code": "print('total', total)"},
]


@pytest.mark.parametrize("kind", first_of(["summary", "button"], 1))
def test_what_has_no_name_of_its_own_keeps_the_focus_while_others_work(
    looker: Looker, served: Served, kind: str
) -> None:
    session_id = served.notebook("Watched", "x = 1")
    page = looker.go(f"/sessions/{session_id}")
    page.get_by_text("Take over", exact=True).click()
    held = page.locator(f"details.handover {kind}")
    held.focus()
    for count in (2, 3):
        served.tell("cell_add_and_run", session_id=session_id, content=f"print({count} * 111)")
        expect(page.locator("article.cell.code")).to_have_count(count)
        expect(page.locator("article.cell.code").last).to_contain_text(str(count * 111))
        expect(held).to_be_focused()


def test_a_person_takes_a_session_over_and_gives_it_back(looker: Looker, served: Served, axe: str) -> None:
    session_id = served.notebook("Taken over", "x = 1")
    page = looker.go(f"/sessions/{session_id}")
    page.get_by_text("Take over", exact=True).click()
    page.get_by_role("button", name="Take the session over").click()
    expect(page.locator("#status")).to_contain_text("owner has this session since")
    assert_accessible(page, axe)
    told = served.tell("cell_add", session_id=session_id, content="y = 2")
    assert "owner took this session over" in told
    page.get_by_role("button", name="Add a cell").click()
    # What is typed at once is for the new cell, and no command.
    page.keyboard.type("y = 2")
    expect(page.get_by_label("Source of cell 3")).to_have_text("y = 2")
    # By keyboard alone.
    page.get_by_text("Give back", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("Mind the new cell")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).not_to_contain_text("has this session")
    (note,) = served.agent.call("cell_add", session_id=session_id, content="z = 3")["notes"]
    assert "added" in note
    assert "owner says: Mind the new cell" in note


def test_what_runs_is_stopped_where_the_person_says_so(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Long run")
    served.agent.call(
        "cell_add_and_run",
        session_id=session_id,
        content="import time; time.sleep(600)",
        wait=0,
        response_format="json",
    )
    page = looker.go(f"/sessions/{session_id}")
    expect(page.locator("article.cell.code .state")).to_have_text("running")
    page.get_by_text("Take over", exact=True).click()
    page.get_by_label("Stop what runs").check()
    page.get_by_role("button", name="Take the session over").click()
    expect(page.locator("article.cell.code .state")).to_have_text(re.compile("interrupted"))


def test_a_comment_stands_at_its_cell_and_reaches_the_agent(looker: Looker, served: Served, axe: str) -> None:
    session_id = served.notebook("Remarks", "mean = 1")
    page = looker.go(f"/sessions/{session_id}")
    cell = page.locator("article.cell.code")
    cell.get_by_text("Comment", exact=True).click()
    cell.get_by_role("textbox", name="Comment on cell").fill("Why <b>not</b> the median?")
    cell.get_by_role("button", name="Add the comment").click()
    expect(cell.locator(".comment")).to_contain_text("Why <b>not</b> the median?")
    assert_accessible(page, axe)
    context = served.agent.call("session_context", session_id=session_id)
    assert "owner: Why <b>not</b> the median?" in str(context["comments"])
    cell.get_by_role("button", name="Remove the comment").click()
    expect(cell.locator(".comment")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.matrix)])
def test_a_failing_step_is_mended_on_the_page_and_the_notebook_verified(
    served: Served, axe: str, scheme: str, looking_at: Any
) -> None:
    session_id = served.agent.call("plan_create", problem="Totals", todos=FAILS)["session_id"]
    with looking_at(color_scheme=scheme) as looker:
        page = looker.go(f"/sessions/{session_id}")
        panel = page.locator("#panel-plan")
        panel.get_by_role("button", name="Run the plan").click()
        expect(panel.locator(".report")).to_contain_text("nombres_de_hier")
        panel.get_by_text(re.compile(r"^\d attempts?$")).last.click()
        expect(panel.locator(".attempt").last).to_contain_text("NameError")
        assert_accessible(page, axe)
        panel.get_by_label("Code of step 2").fill("total = sum(numbers)")
        panel.get_by_role("button", name="Go on with this code").click()
        expect(panel.locator(".state.succeeded")).to_be_visible()
        expect(panel.locator(".diff")).to_contain_text("+ total = sum(numbers)")
        panel.get_by_role("button", name="Verify").click()
        expect(panel.locator(".state.valid")).to_be_visible()
        assert_accessible(page, axe)
    assert served.agent.call("plan_status", session_id=session_id)["successful"]


def test_a_step_is_skipped_with_a_reason(looker: Looker, served: Served) -> None:
    session_id = served.agent.call("plan_create", problem="Skipping", todos=FAILS[1:])["session_id"]
    page = looker.go(f"/sessions/{session_id}")
    panel = page.locator("#panel-plan")
    panel.get_by_role("button", name="Run the plan").click()
    panel.get_by_label("Why step 1 is skipped").fill("Nobody has yesterday's numbers")
    panel.get_by_role("button", name="Skip the step").click()
    expect(panel.locator("#step-1")).to_contain_text("skipped: Nobody has yesterday's numbers")


@pytest.mark.matrix  # `test_panels` and `test_every_view` are looked at on one
def test_nothing_of_it_is_too_wide_for_a_phone(served: Served, axe: str, looking_at: Any) -> None:
    session_id = served.agent.call("plan_create", problem="On a phone", todos=FAILS)["session_id"]
    served.agent.call("plan_run", session_id=session_id, response_format="json")
    with looking_at(viewport={"width": 360, "height": 740}) as looker:
        for path in (f"/sessions/{session_id}", "/"):
            page = looker.go(path)
            if path != "/":
                page.get_by_text("Take over", exact=True).click()
                # Below the notebook, where a panel is loaded only when somebody sees it.
                page.locator("#panel-plan").scroll_into_view_if_needed()
                expect(page.locator("#panel-plan .report")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
            assert_accessible(page, axe)


def test_a_person_is_asked_before_packages_are_installed_and_decides_for_how_long(
    looker: Looker, served: Served, axe: str
) -> None:
    session_id = served.notebook("Approvals")
    page = looker.go(f"/sessions/{session_id}")
    here = page.get_by_role("region", name="Who is here")
    expect(here).to_contain_text("you")

    def installed(choice: str | None) -> str:
        began = served.agent.begin("package_install", session_id=session_id, packages=["json"])
        if choice is not None:
            expect(here.get_by_role("alert")).to_contain_text("test asks to install json for")
            here.get_by_role("button", name=choice).click()
        told: str = served.agent.answer(began)["result"]["content"][0]["text"]
        expect(here.get_by_role("alert")).to_have_count(0)
        return told

    began = served.agent.begin("package_install", session_id=session_id, packages=["json"])
    expect(here.get_by_role("button")).to_have_text(
        ["Allow once", "Allow in this session", "Allow in this project", "Always allow", "Refuse"]
    )
    assert_accessible(page, axe)
    here.get_by_role("button", name="Refuse").click()
    assert "page:owner refused it" in str(served.agent.answer(began))
    expect(here.get_by_role("alert")).to_have_count(0)
    assert "already_there" in installed("Allow once")
    assert "already_there" in installed("Allow in this session")
    assert "already_there" in installed(None)
    for wider in ("Allow in this project", "Always allow"):
        assert served.place.run("approvals", "forget", "packages").stdout == "1 forgotten\n"
        assert "already_there" in installed(wider)
    assert "already_there" in installed(None)
    kept = json.loads(served.place.run("approvals", "--json").stdout)["approvals"]
    assert kept == [{"scope": "always", "action": "packages", "of": ""}]
    served.place.run("approvals", "forget")


ABLE_TO_ASK = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "asking", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


def test_of_a_page_and_a_client_that_are_asked_at_once_the_first_decides_and_the_other_is_told(
    looker: Looker, served: Served, axe: str
) -> None:
    session_id = served.notebook("Approvals of two")
    page = looker.go(f"/sessions/{session_id}")
    page.set_viewport_size({"width": 360, "height": 740})
    asked, client = page.get_by_role("alert"), served.place.pump()

    def install(**answer: Any) -> dict[str, Any]:
        arguments = {"session_id": session_id, "packages": ["json"]}
        call = {"name": "package_install", "arguments": arguments, "_meta": ABLE_TO_ASK}
        result: dict[str, Any] = client.answer(client.ask("tools/call", **call, **answer))["result"]
        return result

    def answered(needed: dict[str, Any], choice: str) -> dict[str, Any]:
        given = {"action": "accept", "content": {"decision": choice}}
        responses = dict.fromkeys(needed["inputRequests"], given)
        return install(requestState=needed["requestState"], inputResponses=responses)

    needed = install()
    expect(asked).to_contain_text("asking asks to install json")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert_accessible(page, axe)
    page.get_by_role("button", name="Allow once").focus()
    page.keyboard.press("Enter")
    expect(asked).to_have_count(0)
    assert json.loads(answered(needed, "refuse")["content"][-1]["text"])["notes"] == ["page:owner allowed it"]
    # The other way round: what is pressed on a page that has not heard of the answer yet decides nothing.
    needed = install()
    expect(asked).to_have_count(1)
    page.evaluate("document.body.append(document.querySelector('form.approval').cloneNode(true))")
    assert "the person at asking refused it" in str(answered(needed, "refuse")["content"])
    expect(asked).to_have_count(1)
    looker.overlooked = "409"
    page.get_by_role("button", name="Always allow").click()
    looker.hears("The question is over")
    assert json.loads(served.place.run("approvals", "--json").stdout)["approvals"] == []
