"""Every view as it is seen: light, dark and on a telephone, accessible, quiet, light in weight.

``CELLWRIGHT_GALLERY=docs/gallery python -m pytest tests/browser/web/test_every_view.py`` keeps the pictures.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.browser.web.conftest import ELSEWHERE, Served, assert_accessible, looking
from tests.browser.web.test_debug import traced
from tests.browser.web.test_verified import proven
from tests.matrix import each_with_one

__all__ = ["proven", "traced"]

STATIC = Path(__file__).parents[3] / "src" / "cellwright" / "web" / "static"
MOST_BYTES = 150_000
MOST_REQUESTS = 10
MOST_LINES = 300
SALES = """\
import pandas as pd
sales = pd.DataFrame({"region": ["North", "South", "East", "West"], "units": [1204, 872, 1011, 640]})
sales"""
CHART = """\
from cellwright_kernel import show
show(sales, "bar", x="region", y="units", title="Units sold by region")"""
FAILING = "sales['unit'].sum()"


@pytest.fixture(scope="session")
def shown(served: Served) -> str:
    """A notebook with a bit of everything."""
    session_id = served.notebook("Units sold by region", SALES, CHART)
    served.kept.add(session_id)
    served.tell("checkpoint_create", session_id=session_id, name="before the sum")
    served.add(session_id, "for month in range(1, 13):\n    print(f'month {month:2}: \\x1b[32mok\\x1b[0m')")
    served.add(session_id, FAILING)
    return session_id


def go_to(name: str, shown: str, traced: str, proven: str) -> tuple[str, str]:
    """A view's address, and what is there once it is whole."""
    return {
        "sessions": ("/", "#sessions"),
        "notebook": (f"/sessions/{shown}", "[data-chart][data-drawn=yes]"),
        "chat": ("/chat", "#chat-models > *"),
        "runs": ("/runs", "main h1"),
        "run": (f"/runs/{traced}", "#step-3"),
        "debug": (f"/sessions/{shown}/debug", ".timeline"),
        "verified": (f"/sessions/{proven}/verified", ".verdict"),
    }[name]


def open_what_can_be(name: str, page: Page) -> None:
    """As a person would, to see more."""
    if name == "sessions":
        page.locator("#hosts").scroll_into_view_if_needed()
        expect(page.locator("#hosts table")).to_be_visible()
    if name == "notebook":
        for panel in ("Variables", "Checkpoints"):
            page.locator("aside").get_by_text(panel, exact=True).first.click()
        expect(page.locator("#panel-variables-content")).to_contain_text("sales")
        expect(page.locator("#panel-checkpoints-content")).to_contain_text("before the sum")
    if name == "run":
        for step in ("#step-1", "#step-3"):
            page.locator(step).locator("summary").first.click()
        expect(page.locator("#step-1")).to_contain_text("Let me see.")
        expect(page.locator("#step-3 .diff").first).to_be_visible()
    if name == "verified":
        page.get_by_text("2 of 2 cells gave the same").click()
        page.get_by_text("Environment").click()
        expect(page.locator("#proof-environment")).to_contain_text("Python")


@pytest.mark.parametrize(
    ("name", "look"),
    each_with_one(
        ["sessions", "notebook", "chat", "runs", "run", "debug", "verified"], ["light", "dark", "narrow"]
    ),
)
def test_a_view_is_accessible_quiet_and_within_its_window(
    name: str, look: str, browser: Browser, served: Served, axe: str, shown: str, traced: str, proven: str
) -> None:
    width = 360 if look == "narrow" else 1280
    options: dict[str, Any] = {
        "color_scheme": "dark" if look == "dark" else "light",
        "viewport": {"width": width, "height": 900},
    }
    path, whole = go_to(name, shown, traced, proven)
    with looking(browser, served, **options) as looker:
        page = looker.go(path)
        expect(page.locator(whole).first).to_be_visible()
        if look != "narrow":
            open_what_can_be(name, page)
        if kept := os.environ.get("CELLWRIGHT_GALLERY"):
            page.evaluate(ELSEWHERE, [str(served.place.root / "work"), "~/sales"])
            page.screenshot(path=Path(kept) / f"page-{name}-{look}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert_accessible(page, axe)
        looker.assert_quiet()


def test_the_first_page_is_light(browser: Browser, served: Served) -> None:
    with looking(browser, served) as looker:
        # By address: what is loaded again every few seconds is no part of the first look.
        answers: dict[str, Response] = {}

        def hear(answer: Response) -> None:
            answers[answer.url] = answer

        looker.page.on("response", hear)
        page = looker.go("/")
        expect(page.locator("#sessions")).to_be_visible()
        whole = [
            answer
            for answer in answers.values()
            if "event-stream" not in answer.headers.get("content-type", "")
        ]
        assert len(answers) < MOST_REQUESTS
        assert sum(int(answer.headers["content-length"]) for answer in whole) < MOST_BYTES


def test_each_script_of_the_page_can_be_read_at_once() -> None:
    scripts = list(STATIC.glob("*.js"))
    assert [path.name for path in scripts if len(path.read_text().splitlines()) > MOST_LINES] == []
