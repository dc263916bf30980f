"""A notebook handed on: its certificate, the one file, and links for people who are not signed in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect

from cellwright.audit import read_lines
from cellwright.web._verified_notebook import Shares, SharesUnreadable, SharesUnwritable
from cellwright.web.requests import attachment
from tests.browser.web.conftest import Looker, Served, unhurried

DAY_S = 86_400
RESULT = "six times seven: 42"
# A minute and a second in which the time on the page has the digits of the result.
CLOCK = "2026-11-17T17:42:42+00:00"


@pytest.fixture(scope="session")
def proven(served: Served) -> str:
    """A notebook that holds, and was verified at ``CLOCK``."""
    first = served.notebook(
        "Proven",
        "from pathlib import Path; Path('a.txt').write_text('1')",
        "print('six times seven:', 6 * 7)",
    )
    assert "verified" in served.tell("plan_verify", session_id=first)
    notebook = json.loads(served.tell("notebook_export", session_id=first, format="ipynb"))
    notebook["metadata"]["cellwright"]["certificate"]["at"] = CLOCK
    path = served.place.root / "work" / f"{first}.ipynb"
    path.write_text(json.dumps(notebook))
    session_id: str = served.agent.call("notebook_open", path=str(path))["session_id"]
    served.kept.add(session_id)
    return session_id


def test_the_verified_view_says_what_was_rerun_and_shows_the_notebook(looker: Looker, proven: str) -> None:
    page = looker.go(f"/sessions/{proven}/verified")
    expect(page.locator(".verdict")).to_contain_text("Verified.")
    expect(page.locator(".verdict")).to_contain_text("17:42")
    page.get_by_text("2 of 2 cells gave the same").click()
    expect(page.locator("#proof-cells td").first).to_be_visible()
    page.get_by_text("Environment").click()
    expect(page.locator("#proof-environment")).to_contain_text("Python")
    expect(page.frame_locator(".paper").get_by_text(RESULT)).to_be_visible()


def test_the_file_opens_alone_with_its_certificate(
    looker: Looker, proven: str, browser: Browser, tmp_path: Path
) -> None:
    page = looker.go(f"/sessions/{proven}/verified")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as one HTML file").click()
    path = tmp_path / "notebook.html"
    download.value.save_as(path)
    with unhurried(browser.new_context(offline=True)) as context:
        alone = context.new_page()
        alone.goto(path.as_uri())
        alone.get_by_text("What was verified").click()
        expect(alone.locator(".proof td").first).to_be_visible()
        expect(alone.get_by_text(RESULT)).to_be_visible()


@pytest.mark.matrix  # `verification/test_verifying` has the certificate go stale
def test_a_notebook_that_was_changed_is_not_verified_any_more_until_it_is_again(
    looker: Looker, served: Served
) -> None:
    session_id = served.notebook("Changing", "print(1)")
    page = looker.go(f"/sessions/{session_id}/verified")
    expect(page.locator(".verdict")).to_contain_text("Never verified.")
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator(".verdict")).to_contain_text("Verified.")
    served.add(session_id, "print(2)")
    page.reload()
    expect(page.locator(".verdict")).to_contain_text("Not verified any more.")


def test_a_link_shows_this_notebook_to_a_stranger_until_it_is_taken_back(
    looker: Looker, served: Served, proven: str, browser: Browser
) -> None:
    page = looker.go(f"/sessions/{proven}/verified")
    page.get_by_role("button", name="Share by a link").click()
    link = page.get_by_label("This link").input_value()
    with unhurried(browser.new_context()) as context:
        stranger = context.new_page()
        stranger.goto(link)
        expect(stranger.locator(".verdict")).to_contain_text("Verified.")
        expect(stranger.frame_locator(".paper").get_by_text(RESULT)).to_be_visible()
        stranger.goto(f"{served.url}/sessions/{proven}")
        expect(stranger.get_by_label("Token")).to_be_visible()
        page.reload()
        page.get_by_text("1 link given").click()
        page.get_by_role("button", name="Take back").click()
        expect(page.get_by_text("1 link given")).to_have_count(0)
        stranger.goto(link)
        expect(stranger.get_by_role("heading")).to_have_text("Not here")
    raw = [
        line
        for line in read_lines(served.place.storage)
        if b'"kind":"share"' in line and proven.encode() in line
    ]
    shared, taken_back = (json.loads(line) for line in raw)
    assert (shared["by"], shared["session"], shared["about"]) == ("page:owner", proven, {"days": 30})
    assert list(taken_back["about"]) == ["taken_back"]
    assert link.rpartition("/")[2].encode() not in b"".join(raw)


def test_a_link_ends_by_itself_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    shares = Shares(tmp_path)
    token = shares.give("s-1", by="owner", days=30, now=0)
    assert shares.find(token, now=29 * DAY_S) is not None
    assert shares.find(token, now=31 * DAY_S) is None
    assert token not in (tmp_path / "shares.json").read_text()
    assert (tmp_path / "shares.json").stat().st_mode & 0o077 == 0


def test_taking_back_one_link_leaves_the_others(tmp_path: Path) -> None:
    shares = Shares(tmp_path)
    first, second = (shares.give("s-1", by="owner", days=30, now=0) for _ in range(2))
    shares.take_back("s-1", (shares.find(first, now=1) or pytest.fail("it is there")).id, now=1)
    assert shares.find(first, now=1) is None
    assert shares.find(second, now=1) is not None


def test_a_damaged_file_of_links_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "shares.json").write_text("{")
    with pytest.raises(SharesUnreadable, match="share again"):
        Shares(tmp_path).find("any", now=0)


def test_link_that_cannot_be_written_down_is_not_given(tmp_path: Path) -> None:
    with pytest.raises(SharesUnwritable, match=r"shares.json cannot be written.*No link was changed"):
        Shares(tmp_path / "gone").give("s-1", by="owner", days=30, now=0)


@given(st.text())
def test_a_download_may_have_any_name(name: str) -> None:
    (value,) = attachment(name.encode(errors="replace").decode()).values()
    assert value.isascii()
    assert '"' not in value
    assert "\n" not in value
