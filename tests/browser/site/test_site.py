"""The documentation site, built and looked at from its files: nothing comes from elsewhere, and the search works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from scripts.site import GENERATOR, build, collect
from tests.conftest import Require
from tests.support.browsers import LIMIT_MS, open_browser

LOADED = re.compile(
    r"<(?:script|img|iframe|link rel=\"(?:stylesheet|icon|preload)\")[^>]*(?:src|href)=\"(https?:)?//"
)
LISTED = re.compile(r"^- \[[^\]]+\]\(([^)]+)\)$", re.MULTILINE)


@pytest.fixture(scope="module")
def site(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("the generator of the site", GENERATOR.exists(), "make .venv/.stamp-site")
    folder = tmp_path_factory.mktemp("site")
    return build(folder / "site", staged=folder / "staged")


@pytest.fixture(scope="module")
def browser(require: Require) -> Iterator[Browser]:
    with open_browser(require) as browser:
        yield browser


def test_every_page_is_built_and_models_find_it_as_markdown(site: Path) -> None:
    pages = set(collect().texts)
    assert not [page for page in pages if not (site / page).with_suffix(".html").is_file()]
    listed = LISTED.findall((site / "llms.txt").read_text())
    assert set(listed) == pages
    assert all((site / page).is_file() for page in listed)
    whole = (site / "llms-full.txt").read_text()
    assert "# Sandbox tiers" in whole
    assert "### `cell_add_and_run`" in whole


def test_bars_in_the_code_of_tables_have_no_mark(site: Path) -> None:
    assert "<code>keep | rollback</code>" in (site / "reference" / "generated" / "tools.html").read_text()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    foreign = [
        (page.name, found[0]) for page in site.rglob("*.html") if (found := LOADED.search(page.read_text()))
    ]
    assert not foreign


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_pages_fit_and_drawings_follow_the_colours(
    site: Path, browser: Browser, scheme: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    elsewhere: list[str] = []
    page.on(
        "request", lambda request: elsewhere.append(request.url) if request.url.startswith("http") else None
    )
    for name in ("index", "concepts/sandbox-tiers", "reference/generated/tools", "reference/settings"):
        page.goto(f"file://{site}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
    page.goto(f"file://{site}/concepts/sandbox-tiers.html")
    ink, ground = page.evaluate(
        "[getComputedStyle(document.querySelector('.drawing text')).fill, getComputedStyle(document.body).backgroundColor]"
    )
    assert (_lightness(ink) > _lightness(ground)) is (scheme == "dark")
    page.goto(f"file://{site}/index.html")
    shown = page.locator("article img:visible")
    assert [scheme in (shown.nth(at).get_attribute("src") or "") for at in range(shown.count())] == [True]
    assert not elsewhere
    context.close()


def _lightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3]))


def test_search_finds_a_page_without_a_server(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"file://{site}/index.html")
    page.get_by_role("button", name="Search").first.click()
    page.get_by_role("combobox", name="Search").fill("seventeen escapes")
    found = page.get_by_role("option").filter(has_text="Sandbox tiers").first
    expect(found).to_be_visible(timeout=LIMIT_MS)
    found.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Sandbox tiers", timeout=LIMIT_MS)
    page.close()
