"""The trace of a run and what ran in a session, as a developer looks at them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from playwright.sync_api import expect
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

from cellwright.agent.conversations import Conversations
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.steps import CellRun, Seconds, Trace
from cellwright.agent.trace.store import TraceLog
from cellwright.delegation import Usage
from tests.browser.web.conftest import Looker, Served, assert_accessible

RUN = "ar-debug1"
HOSTILE = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title='ran'\">"


@pytest.fixture(scope="session")
def traced(served: Served) -> str:
    """A run whose first cell failed and whose second try did not, as the agent's own log keeps it."""
    # In a thread: the browser's driver has a loop in this one.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(anyio.run, write_trace, served.place.storage / "conversations").result()
    return RUN


async def write_trace(directory: Path) -> None:
    history = await Conversations(directory).create("How many apples?")
    path = directory / history.id / "runs" / f"{RUN}.jsonl"
    async with TraceLog(path, Redactor([])) as log:
        trace = Trace(RUN, [log])
        trace.pattern = "react"
        async with trace.step("request", role="act") as step:
            step.prompt = [ModelRequest(parts=[UserPromptPart(f"How many apples? {HOSTILE}")])]
            step.model = "test:scripted"
            step.reply = ModelResponse(
                parts=[TextPart("Let me see."), ToolCallPart("cell_add_and_run", {"content": "1/0"})]
            )
            step.usage, step.seconds = Usage(1_200, 30, 100, 0.01), Seconds(model=1.0)
        for code, state, stdout, stderr in (
            ("apples = 1/0", "error", "", "ZeroDivisionError: division by zero"),
            ("apples = 10\nprint(apples)", "ok", f"10 {HOSTILE}", ""),
        ):
            async with trace.step("call", role="act") as step:
                step.tool, step.arguments, step.result = (
                    "cell_add_and_run",
                    {"content": code},
                    stdout or stderr,
                )
                step.runs = [CellRun("x-1", "c1", code, state, stdout, stderr, 0.2)]
                step.failed, step.seconds = state != "ok", Seconds(kernel=0.2, engine=0.05)
        await log.note("environment", {"cellwright": "1", "packages": {"pandas": "3"}})
        await log.note("outcome", {"ok": True, "answer": "10"})


def test_a_step_opens_to_its_prompt_reply_and_cost(looker: Looker, traced: str) -> None:
    page = looker.go(f"/runs/{traced}")
    expect(page.locator("#step-1 summary").first).to_contain_text("1,200 + 30 tokens · $0.0100")
    page.locator("#step-1 summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#step-1")).to_contain_text("How many apples? <script>")
    expect(page.locator("#step-1")).to_contain_text("Let me see.")
    expect(page).to_have_title(f"Run {traced} · Cellwright")


def test_the_second_attempt_shows_what_was_changed_and_what_it_printed(looker: Looker, traced: str) -> None:
    page = looker.go(f"/runs/{traced}?failed=yes")
    expect(page.locator("details.step[id^=step]")).to_have_count(1)
    page.get_by_role("link", name="All steps").click()
    page.locator("#step-3 summary").first.click()
    expect(page.locator("#step-3 .diff .removed")).to_have_text("- apples = 1/0")
    expect(page.locator("#step-3 .diff .added").first).to_have_text("+ apples = 10")
    expect(page.locator("#step-3")).to_contain_text("10 <script>")


def test_a_search_leaves_the_steps_that_hold_it_and_the_address_says_so(looker: Looker, traced: str) -> None:
    page = looker.go(f"/runs/{traced}")
    page.get_by_label("Text").fill("zerodivision")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=zerodivision*")
    expect(page.locator("details.step[id^=step]")).to_have_count(1)


def test_the_export_is_the_whole_trace(looker: Looker, traced: str) -> None:
    page = looker.go(f"/runs/{traced}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as JSON").click()
    found = json.loads(Path(download.value.path()).read_text())
    assert [step["kind"] for step in found["steps"]] == ["request", "call", "call"]


def test_an_unknown_run_says_what_to_do(looker: Looker) -> None:
    looker.overlooked = "404"
    page = looker.go("/runs/ar-nosuch1")
    expect(page.get_by_role("alert")).to_contain_text("There is no run 'ar-nosuch1'")


def test_what_ran_in_a_session_is_told_with_its_changes_and_its_events(
    looker: Looker, served: Served, axe: str
) -> None:
    session_id = served.notebook("Debugged")
    cell_id = served.add(session_id, "print('before')")
    served.tell("cell_update", session_id=session_id, cell_id=cell_id, content="print('after')")
    served.tell("cell_execute", session_id=session_id, cell_id=cell_id)
    page = looker.go(f"/sessions/{session_id}/debug")
    newest = page.locator("details.step").first
    newest.locator("summary").first.click()
    expect(newest.locator(".diff .added")).to_have_text("+ print('after')")
    expect(newest).to_contain_text("after")
    page.get_by_text("As they were told").click()
    expect(page.locator("#events")).to_contain_text("notebook.cell.completed")
    assert_accessible(page, axe)


def test_what_ran_in_a_session_is_searched_linked_to_and_exported(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Looked through", "print('needle')", "1 / 0")
    page = looker.go(f"/sessions/{session_id}/debug")
    steps = page.locator("details.step[id]")
    expect(steps).to_have_count(2)
    page.get_by_label("Text").fill("NEEDLE")
    page.get_by_role("button", name="Show").click()
    expect(steps).to_have_count(1)
    page.get_by_role("link", name="All executions").click()
    page.get_by_label("Not ok").check()
    page.get_by_role("button", name="Show").click()
    expect(steps).to_have_count(1)
    expect(steps.locator(".state")).to_have_text("error")
    looker.go(f"/sessions/{session_id}/debug#{steps.get_attribute('id')}")
    expect(steps.first.get_by_text("ZeroDivisionError").first).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("link", name="Export as JSON").click()
    told = json.loads(started.value.path().read_text())
    assert [one["state"] for one in told] == ["ok", "error"]
    assert told[0]["outputs"][0]["text"] == "needle\n"
