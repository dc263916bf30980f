"""Apps in the chat: a host made with the package's own bridge shows what tools found, and buttons there change the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, expect

from tests.browser.web.conftest import Served, assert_accessible, unhurried
from tests.conftest import Require
from tests.support.apps.hosting import SANDBOX, AppHost, host_script, open_host


@pytest.fixture(scope="module")
def host(browser: Browser, served: Served, require: Require) -> Iterator[AppHost]:
    """One chat for all apps; at its end nothing was complained of or asked of anybody else."""
    context = unhurried(browser.new_context(viewport={"width": 720, "height": 480}))
    page, problems, asked = context.new_page(), [], []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda failure: problems.append(str(failure)))
    page.on("request", lambda request: asked.append(request.url))
    yield open_host(page, served.url, served.token, host_script(require))
    context.close()
    assert problems == []
    assert [one for one in asked if not one.startswith((served.url, SANDBOX, "data:"))] == []


def looked_at(host: AppHost, name: str, axe: str) -> None:
    """The app as it stands is legible to everybody, in both kinds of light; into the gallery where somebody wants it there."""
    host.page.mouse.move(0, 0)  # what a pointer happens to be over shows more
    for theme in ("dark", "light"):
        host.page.evaluate("theme => host.light(theme)", theme)
        expect(host.app.locator(f":root[data-theme={theme}]")).to_be_attached()
        assert_accessible(host.page.frames[-1], axe)
        if directory := os.environ.get("CELLWRIGHT_GALLERY"):
            path = Path(directory, f"app-{name}-{theme}.png")
            host.page.locator("iframe").screenshot(path=path, animations="disabled")


def said(app: FrameLocator, text: str) -> None:
    expect(app.get_by_role("status")).to_contain_text(text)


def test_a_button_in_the_chat_rolls_the_session_back_and_a_branch_is_adopted(
    host: AppHost, served: Served, axe: str
) -> None:
    session = served.notebook("Prices", "price = 1")
    app = host.show("checkpoint_create", session_id=session, name="before the rise")
    served.add(session, "price = 2")
    app = host.show("checkpoint_create", session_id=session, name="after it")
    point = app.get_by_role("listitem").filter(has_text="before the rise")
    expect(point).to_contain_text("Since then: cell 3")
    point.get_by_role("button", name="Roll back").click()
    expect(point).to_contain_text("What cell 3 did since then is undone")
    looked_at(host, "checkpoints", axe)
    point.get_by_role("button", name="Roll back now").click()
    said(app, "Rolled back to before the rise")
    assert "1" in served.tell("scratch_run", session_id=session, code="price")
    assert f"rolled session {session} back" in host.told[-1]

    app.get_by_role("button", name="Branch from before the rise").click()
    said(app, "is a branch now")
    branch = app.get_by_role("listitem").filter(has_text="branch of it")
    branch_id = branch.locator("small").inner_text().rpartition(" ")[2]
    served.tell("scratch_run", session_id=branch_id, code="price = 5")
    branch.get_by_role("button", name="Adopt").click()
    branch.get_by_role("button", name="Adopt now").click()
    said(app, "is adopted")
    assert "5" in served.tell("scratch_run", session_id=session, code="price")


TABLE = """
import pandas as pd

print("three kinds")
fruit = pd.DataFrame({"kind": ["apple", "pear", "plum"], "count": [5, 2, 9]})
fruit
"""


def test_a_cell_is_shown_with_its_table_and_a_running_one_with_what_it_says(
    host: AppHost, served: Served, axe: str
) -> None:
    session = served.notebook("Fruit")
    app = host.show("cell_add_and_run", session_id=session, content=TABLE)
    expect(app.get_by_role("article")).to_contain_text("three kinds")
    app.get_by_role("button", name="Sort by count").click()
    expect(app.get_by_role("row").nth(1)).to_contain_text("pear")
    app.get_by_label("Filter kind").fill("plu")
    app.get_by_label("Filter kind").press("Enter")
    expect(app.get_by_text("1 of 3 rows")).to_be_visible()
    looked_at(host, "cell", axe)

    waits = "import time\nprint('it runs')\ntime.sleep(1000)"
    host.page.evaluate(
        "args => { host.shown = host.show('cell_add_and_run', args) }",
        {"session_id": session, "content": waits},
    )
    expect(app.get_by_role("article")).to_contain_text("it runs")
    app.get_by_role("button", name="Stop").click()
    expect(app.get_by_role("article")).to_contain_text("KeyboardInterrupt")
    host.page.evaluate("() => host.shown")
    assert "interrupted session" in host.told[-1]

    served.tell("scratch_run", session_id=session, code="runs = 0")
    app = host.show("cell_add_and_run", session_id=session, content="runs += 1\nprint('run', runs)")
    expect(app.get_by_role("article")).to_contain_text("run 1")
    app.get_by_role("button", name="Run cell").click()
    expect(app.get_by_role("article")).to_contain_text("run 2")
    assert "2" in served.tell("scratch_run", session_id=session, code="runs")
    host.page.wait_for_function("() => host.told.at(-1).includes('again')")

    chart = {"type": "bar_chart", "x": "kind", "y": "count"}
    app = host.show("cell_visualize", session_id=session, variable="fruit", type="chart", options=chart)
    expect(app.locator("[data-drawn=yes] svg")).to_be_visible()
    looked_at(host, "chart", axe)


def test_a_plan_is_run_and_a_notebook_verified_by_buttons(host: AppHost, served: Served, axe: str) -> None:
    session = served.notebook("Sums")
    todos = [
        {"description": "Count to ten", "code": "numbers = list(range(10))"},
        {"description": "Add them up", "code": "print(sum(numbers))"},
        {"description": "Say what it means"},
    ]
    app = host.show("plan_create", problem="How much is it?", todos=todos, session_id=session)
    app.get_by_role("button", name="Run the plan").click()
    expect(app.get_by_text("2 of 3 steps")).to_be_visible()
    expect(app.get_by_role("listitem").nth(1)).to_contain_text("done")
    looked_at(host, "plan", axe)
    app.get_by_role("button", name="Skip the step").click()
    expect(app.get_by_text("1 skipped").first).to_be_visible()

    todos = [{"description": "Say it", "code": "print(total)"}]
    broken = served.notebook("Typing")
    app = host.show("plan_create", problem="What is it?", todos=todos, session_id=broken)
    app.get_by_role("button", name="Run the plan").click()
    app.get_by_role("button", name="Ask the fixers").click()
    # Rules had been asked by the run itself, and know no more now; a person does.
    host.page.wait_for_function("() => host.told.at(-1).includes('asked the fixers')")
    served.tell("scratch_run", session_id=broken, code="total = 10")
    app.get_by_role("button", name="Try again").click()
    expect(app.get_by_text("1 of 1 step")).to_be_visible()
    assert "succeeded" in served.tell("plan_status", session_id=broken)

    app = host.show("plan_verify", session_id=session)
    expect(app.get_by_text("Verified.")).to_be_visible()
    looked_at(host, "verified", axe)
    served.add(session, "import uuid; print(uuid.uuid4())")
    app.get_by_role("button", name="Verify again").click()
    expect(app.get_by_text("Not verified.")).to_be_visible()
    host.page.wait_for_function("() => host.told.at(-1).includes('had session')")
