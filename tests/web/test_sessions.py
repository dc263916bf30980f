"""The first page: what there is, how it stands, and what an owner may do about it."""

from __future__ import annotations

from playwright.sync_api import expect

from web.conftest import Looker, Served, assert_accessible


def test_a_session_that_an_agent_makes_appears_while_the_page_is_open(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Apples and pears")
    expect(looker.page.locator(f"#session-{session_id}")).to_contain_text("apples_and_pears")


def test_the_page_is_accessible(looker: Looker, served: Served, axe: str) -> None:
    session_id = served.notebook("Accessible")
    expect(looker.page.locator(f"#session-{session_id}")).to_be_visible()
    assert_accessible(looker.page, axe)
