"""The first page: what there is, how it stands, and what an owner may do about it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from cellwright.web._sessions import Choice, SessionRow, chosen, counted
from tests.browser.web.conftest import Looker, Served

ROW = SessionRow(
    id="s-1",
    name="apples",
    language="python",
    state="idle",
    running=0,
    host="local",
    tier="A",
    memory=None,
    client="claude-code",
    held_by=None,
    created_at=0.0,
    active_at=0.0,
    reason=None,
    branch_of=None,
)
ROWS = [
    ROW,
    replace(ROW, id="s-2", name="pears", state="running", host="slurm:gpu"),
    replace(ROW, id="s-3", name="plums", state="suspended", client=None, held_by="ann"),
]


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (Choice(), ["s-1", "s-2", "s-3"]),
        (Choice(state="running"), ["s-2"]),
        (Choice(state="held"), ["s-3"]),
        (Choice(text="Claude"), ["s-1", "s-2"]),
        (Choice(text="claude GPU"), ["s-2"]),
        (Choice(state="idle", text="pears"), []),
    ],
)
def test_sessions_are_narrowed_by_state_and_words(choice: Choice, found: list[str]) -> None:
    assert [row.id for row in chosen(ROWS, choice)] == found


def test_sessions_are_counted_by_state() -> None:
    assert counted(ROWS) == {"running": 1, "idle": 1, "suspended": 1}


def test_a_session_that_an_agent_makes_appears_while_the_page_is_open(looker: Looker, served: Served) -> None:
    page = looker.go("/")
    session_id = served.notebook("Apples and pears")
    row = page.locator(f"#session-{session_id}")
    expect(row).to_contain_text("apples_and_pears")
    expect(row).to_contain_text("idle")
    expect(row.locator("td.number")).to_contain_text("MB")
    hosts = page.locator("#hosts")
    hosts.scroll_into_view_if_needed()
    expect(hosts).to_contain_text("this machine")


def test_an_owner_finds_suspends_resumes_and_deletes_a_session(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Quinces")
    page = looker.go("/")
    page.get_by_role("searchbox", name="Search").fill("quinces")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tr[id^=session-]")).to_have_count(1)
    row = page.locator(f"#session-{session_id}")
    row.get_by_role("button", name="Suspend").click()
    expect(row).to_contain_text("owner suspended it")
    row.get_by_role("button", name="Resume").click()
    expect(row.locator(".state")).to_have_text("idle")
    served.agent.call("notebook_create", name="Medlars")
    page.once("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Delete").click()
    expect(page.locator(f"#session-{session_id}")).to_have_count(0)
    listed = served.agent.call("notebook_list", filter="all")["sessions"]
    assert session_id not in [one["session_id"] for one in listed]
