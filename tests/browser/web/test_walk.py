"""One walk through a notebook, from an empty one to a link that is given away, in each browser that people have.

``CELLWRIGHT_GALLERY=docs/gallery python -m pytest tests/browser/web/test_walk.py`` keeps the pictures of the walk in
Chromium: light, dark and on a telephone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, Playwright, ViewportSize, expect

from cellwright.web import _templates
from tests.browser.web.conftest import (
    ELSEWHERE,
    REMEMBER,
    Looker,
    Served,
    assert_accessible,
    looking,
    unhurried,
)
from tests.conftest import Require
from tests.matrix import first_of
from tests.support.browsers import firefox_options

WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
LOOKS: dict[str, tuple[Literal["light", "dark"], ViewportSize]] = {
    "light": ("light", WIDE),
    "dark": ("dark", WIDE),
    "narrow": ("light", NARROW),
}

_ASKED_AGAIN = 20
_ANSWERED_WITHIN_MS = 6_000
"""Longer than the page waits for the kernel."""

IMPORTS = "import matplotlib.pyplot as plt, numpy as np, pandas as pd"
SALES = """\
({
    "day": np.arange(1_000_000) // 2740,
    "region": np.take(["North", "South", "East", "West"], np.arange(1_000_000) % 4),
    "units": np.arange(1_000_000) % 97,
})
sales"""
WRONG = 'sale.groupby("region")["units"].sum()'
PLOT = """\
sums = sales.groupby("region")["units"].sum() / 1e6
plt.figure(figsize=(7, 2.6), layout="constrained")
plt.bar(sums.index, sums)
plt.title("Millions of units by region")
plt.show()"""
PRICES = 'prices = pd.read_csv("prices.csv")\nprices'
SLIDER = """\
from ipywidgets import interact
@interact(first=(0, 360))
def month(first=30):
    print(sales[sales.day.between(first, first + 29)].units.sum(), "units from day", first)"""


@dataclass
class Walker:
    """Somebody on their walk: their window, and whether pictures are taken on the way."""

    looker: Looker
    served: Served
    axe: str | None
    """Where the page is looked through for what hinders people, and pictures may be taken."""

    @property
    def page(self) -> Page:
        return self.looker.page

    @property
    def cells(self) -> Locator:
        return self.page.locator("article.cell.code")

    def write(self, code: str) -> Locator:
        """Write in the editor that is open, run it, and go on in the next cell; the cell that ran."""
        expect(self.page.locator(".cm-content")).to_be_focused()
        self.page.keyboard.insert_text(code)
        written = self.cells.filter(has=self.page.locator(".cm-content"))
        cell = self.page.locator(f"#{written.get_attribute('id')}")
        self.page.keyboard.press("Shift+Enter")
        return cell

    def open_last(self) -> None:
        self.cells.last.focus()
        self.page.keyboard.press("Enter")

    def ran(self, code: str, state: str = "ok") -> Locator:
        cell = self.write(code)
        expect(cell.locator(".state")).to_have_text(state)
        return cell

    def look(
        self,
        name: str,
        see: Locator,
        *,
        seen_elsewhere: bool = False,
        first: Callable[[], None] = lambda: None,
    ) -> None:
        """The page hinders nobody as it stands, which other tests may have seen; a picture of each look, if wanted."""
        kept = os.environ.get("CELLWRIGHT_GALLERY")
        if self.axe is None:
            return
        for look, (scheme, viewport) in (LOOKS if kept else {"light": LOOKS["light"]}).items():
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size(viewport)
            see.evaluate("one => one.scrollIntoView({ block: 'center' })")
            first()
            assert self.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], (
                name,
                look,
            )
            if kept:
                self.page.evaluate(ELSEWHERE, [str(self.served.place.root), "~"])
                picture = Image.open(BytesIO(self.page.screenshot()))
                picture.save(Path(kept) / f"walk-{name}-{look}.webp", quality=80, method=6)
            if not seen_elsewhere:
                assert_accessible(self.page, self.axe)
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size(WIDE)


def begin(walker: Walker) -> None:
    """A new notebook, whose first cell is there to type into."""
    page = walker.looker.go("/")
    page.locator("summary", has_text="New notebook").click()
    page.get_by_label("Name", exact=True).fill("A year of sales")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#title h1")).to_have_text("A year of sales")
    page.evaluate(REMEMBER)
    expect(walker.cells).to_have_count(1)
    walker.cells.locator("[data-edit].shown").click()


def write_with_completion(walker: Walker) -> Locator:
    """What the live kernel knows is offered while somebody types."""
    page = walker.page
    walker.ran(IMPORTS)
    expect(page.locator(".cm-content")).to_be_focused()
    page.keyboard.type("sales = pd.Da")
    expect(page.locator(".cm-content")).to_have_text("sales = pd.Da")
    offered = page.locator(".cm-tooltip-autocomplete li", has_text="DataFrame")
    too_late = page.locator("#says .problem")

    def offer() -> None:
        if offered.is_visible():
            return
        # On a busy machine the kernel may take longer than the page waits, which says so: then one asks again. The
        # question that typing asked says nothing, and may be under way still when the key is pressed.
        for _ in range(_ASKED_AGAIN):
            expect(too_late).to_have_count(0)
            page.keyboard.press("Control+Space")
            with suppress(AssertionError):
                expect(offered.or_(too_late).first).to_be_visible(timeout=_ANSWERED_WITHIN_MS)
            if offered.is_visible():
                return
        expect(offered).to_be_visible()

    walker.look("editor", page.locator(".cm-content"), first=offer)
    offer()
    offered.click()
    table = walker.ran(SALES)
    expect(table.get_by_role("table")).to_be_visible()
    return table


def fail_and_undo(walker: Walker) -> None:
    """A traceback; the cell is deleted, brought back, and mended."""
    page = walker.page
    failed = walker.ran(WRONG, "error")
    expect(failed.locator(".output.error")).to_contain_text("NameError: name 'sale' is not defined")
    walker.look("error", failed, seen_elsewhere=True)
    page.keyboard.press("Escape")
    failed.focus()
    for key in "d", "d":
        page.keyboard.press(key)
    expect(failed).to_have_count(0)
    page.keyboard.press("z")
    expect(failed).to_be_visible()
    walker.look("undo", failed, seen_elsewhere=True)
    failed.locator("[data-edit].shown").click()
    page.keyboard.press("ControlOrMeta+a")
    walker.ran(WRONG.replace("sale", "sales"))
    walker.open_last()


def draw(walker: Walker) -> None:
    """A picture that the kernel drew."""
    plot = walker.ran(PLOT)
    expect(plot.get_by_role("img")).to_be_visible()
    walker.look("plot", plot, seen_elsewhere=True)


def decide(walker: Walker) -> None:
    """An agent asks before it installs something, and is refused."""
    page, agent = walker.page, walker.served.agent
    session_id = re.search(r"s-\w+", page.url)
    assert session_id is not None
    asking = agent.begin("package_install", session_id=session_id[0], packages=["json"])
    here = page.get_by_role("region", name="Who is here")
    expect(here.get_by_role("alert")).to_contain_text("asks to install json")
    walker.look("approval", here, seen_elsewhere=True)
    here.get_by_role("button", name="Refuse").click()
    assert "refused" in str(agent.answer(asking))


def read_a_million_rows(walker: Walker, table: Locator) -> None:
    """All rows, of which the document has those that are seen."""
    page = walker.page
    table.scroll_into_view_if_needed()
    table.get_by_role("button", name="All rows of output 1").click()
    grid = table.get_by_role("grid")
    expect(table.locator(".grid .count")).to_have_text("1,000,000 rows × 3 columns")
    grid.press("Control+End")
    expect(grid.get_by_role("row").last).to_have_text("364West26")
    assert grid.locator(".space .row").count() < 60
    grid.get_by_role("button", name="units", exact=True).click()
    expect(grid.get_by_role("columnheader").nth(2)).to_have_attribute("aria-sort", "ascending")
    expect(grid.locator(".waits")).to_have_count(0)
    expect(page.locator(".head .figures").nth(2)).to_contain_text("0 – 96")
    walker.look("grid", table, seen_elsewhere=True)
    table.get_by_role("button", name="Close").click()


def bring_a_file(walker: Walker, directory: Path) -> None:
    """A file is put beside the notebook, and read by the next cell."""
    page, data = walker.page, directory / "prices.csv"
    data.write_text("region,price\nNorth,2.5\nSouth,3.0\nEast,2.8\nWest,3.2\n")
    page.get_by_label("Add files beside the notebook").set_input_files(data)
    walker.looker.hears("prices.csv is beside the notebook")
    files = page.locator("#panel-files")
    files.locator("summary").first.click()
    expect(files).to_contain_text("prices.csv")
    walker.open_last()
    table = walker.ran(PRICES)
    expect(table.get_by_role("table")).to_contain_text("West")
    walker.look("upload", table)
    files.locator("summary").first.click()


def turn_a_slider(walker: Walker) -> None:
    """A widget of the live kernel, whose code runs when it is moved."""
    walker.open_last()
    cell = walker.ran(SLIDER)
    cell.locator(".output.widget").scroll_into_view_if_needed()
    widget = cell.frame_locator(".output.widget iframe")
    expect(widget.locator(".output pre")).to_contain_text("units from day 30")
    widget.get_by_role("slider", name="first").press("ArrowRight")
    expect(widget.locator(".output pre")).to_contain_text("units from day 31")
    walker.look("widget", cell, seen_elsewhere=True)


def go_back(walker: Walker) -> None:
    """A checkpoint brings back what a cell has thrown away."""
    page = walker.page
    page.get_by_role("button", name="Checkpoint", exact=True).click()
    walker.looker.hears("Kept as")
    walker.open_last()
    gone = walker.ran("del sales")
    kept = page.locator("#panel-checkpoints")
    kept.locator("summary").first.click()
    expect(kept).to_contain_text("Since then: cell")
    walker.look("checkpoints", kept, seen_elsewhere=True)
    page.once("dialog", lambda dialog: dialog.accept())
    kept.get_by_role("button", name="Roll back to").click()
    walker.looker.hears("Rolled back to")
    expect(gone.locator(".state")).to_contain_text("stale")
    walker.open_last()
    expect(walker.ran("len(sales)").locator(".outputs")).to_have_text("1000000")


def take_away(walker: Walker) -> None:
    """The notebook as a file."""
    page = walker.page
    menu = page.locator("#export-menu")
    menu.locator("summary").click()
    walker.look("export", menu)
    with page.expect_download() as got:
        menu.get_by_role("link", name="Program").first.click()
    assert IMPORTS in Path(got.value.path()).read_text()
    menu.locator("summary").click()


def give_a_link(walker: Walker, browser: Browser) -> None:
    """Somebody with the link sees the notebook, and nothing else."""
    page = walker.page
    page.locator("#proof-menu summary").click()
    page.locator("#proof-menu").get_by_text("Share by a link").click()
    given = page.locator("#shared-link input")
    expect(given).to_have_value(re.compile(r"/verified/\S+"))
    walker.look("share", given)
    with unhurried(browser.new_context()) as context:
        stranger = context.new_page()
        stranger.goto(given.input_value())
        expect(stranger.frame_locator(".paper").get_by_text("Millions")).to_be_visible()
        stranger.goto(page.url)
        expect(stranger.get_by_label("Token")).to_be_visible()


@pytest.fixture(params=first_of(["chromium", "firefox"], 1))
def chosen(request: pytest.FixtureRequest, playwright: Playwright, require: Require) -> Iterator[Browser]:
    """The browser of the walk."""
    if request.param == "chromium":
        yield request.getfixturevalue("browser")
        return
    browser = playwright.firefox.launch(**firefox_options(require))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def built(require: Require) -> None:
    require("the page's editor", bool(_templates.editor_url()), "make .venv/.stamp-editor")


def test_a_notebook_is_written_run_undone_drawn_rolled_back_exported_and_shared(
    chosen: Browser, served: Served, axe: str, tmp_path: Path
) -> None:
    is_chromium = chosen.browser_type.name == "chromium"
    # What one browser keeps of having signed in is not the other's.
    known = served if is_chromium else replace(served, signed_in=None)
    with looking(chosen, known, reduced_motion=None) as looker:
        walker = Walker(looker, served, axe if is_chromium else None)
        begin(walker)
        table = write_with_completion(walker)
        fail_and_undo(walker)
        draw(walker)
        decide(walker)
        read_a_million_rows(walker, table)
        bring_a_file(walker, tmp_path)
        turn_a_slider(walker)
        go_back(walker)
        take_away(walker)
        give_a_link(walker, chosen)
        looker.assert_quiet()
