"""An exported page as a real browser shows it, with the network closed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from cellwright.formats._html import to_html
from cellwright_kernel.htmltables import html_table
from cellwright_kernel.tables import Column, Table
from tests.conftest import Require
from tests.support.browsers import LIMIT_MS, open_browser
from tests.support.formats.pagebooks import PNG, code, display, error, notebook, result, stream, text

WIDE = (
    "<table class='dataframe'><tr>"
    + "".join(f"<td>column {number}</td>" for number in range(80))
    + "</tr></table>"
)
CELLS = (
    text(
        "# Title\n\nA [link](https://example.org) and $\\frac{a}{b}$.\n\n## Part\n\n| a | b |\n|--|--|\n| $x$ | 2 |"
    ),
    code("x = '" + "long" * 200 + "'", stream("word" * 500 + "\n"), stream("careful\n", "stderr")),
    code("wide", result(html=WIDE)),
    code(
        "styled",
        result(
            html="<style>td { background: #fff; color: #000 } .far { position: fixed; top: 0 }</style>"
            "<table><tr><td class=far>1</td></tr></table>"
        ),
    ),
    code("1/0", error("ZeroDivisionError", "by zero", "\x1b[31mTraceback\x1b[0m")),
    code(
        "plot",
        display({"image/png": PNG}),
        display({"image/svg+xml": "<svg width='3000' height='10'></svg>"}),
    ),
    text("$$" + " + ".join(f"x_{{{number}}}" for number in range(120)) + "$$"),
)
HOSTILE = (
    code("1", result(html="<script>document.title = 'ran'</script><img src=x onerror=\"document.title='ran'\">")),
    code("2", result(html="<style>b{}</style><script>document.title = 'ran'</script><b onclick=x>x</b>")),
    code("3", result(svg="<svg onload=\"document.title='ran'\"><script>document.title='ran'</script></svg>")),
    text("<img src=https://example.org/x.png onerror=\"document.title='ran'\"> <a href=\"javascript:document.title='ran'\">go</a>"),
    code("4", result(html="</div></main><iframe src='https://example.org'></iframe><link rel=stylesheet href='https://example.org/a.css'>")),
)  # fmt: skip


@dataclass
class Seen:
    """What a browser had to say about a page."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser(require: Require) -> Iterator[Browser]:
    with open_browser(require) as browser:
        yield browser


def look(
    browser: Browser,
    directory: Path,
    cells: tuple[dict[str, Any], ...],
    *,
    scheme: Any = "light",
    width: int = 1000,
) -> Seen:
    path = directory / "page.html"
    path.write_text(to_html(notebook(*cells), name="a notebook").text)
    context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": width, "height": 800})
    context.set_default_timeout(LIMIT_MS)
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda failure: seen.messages.append(str(failure)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(path.as_uri())
    return seen


@pytest.mark.parametrize("width", [360, 1000, 1600])
def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path, width: int) -> None:
    page = look(browser, tmp_path, CELLS, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wider = "[...document.querySelectorAll('main > *')].filter(e => e.getBoundingClientRect().right > innerWidth).length"
    assert page.evaluate(wider) == 0


def test_a_wide_table_scrolls_within_its_box(browser: Browser, tmp_path: Path) -> None:
    page = look(browser, tmp_path, CELLS, width=600).page
    page.evaluate("document.querySelector('.markup:has(.dataframe)').scrollLeft = 500")
    assert page.evaluate("document.querySelector('.markup:has(.dataframe)').scrollLeft") == 500


def test_the_browser_asks_for_nothing_and_complains_of_nothing(browser: Browser, tmp_path: Path) -> None:
    seen = look(browser, tmp_path, CELLS)
    assert [url for url in seen.requests if not url.startswith("data:")] == [
        (tmp_path / "page.html").as_uri()
    ]
    assert seen.messages == []
    broken = (
        "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.outerHTML.slice(0, 80))"
    )
    assert seen.page.evaluate(broken) == []


def test_no_script_of_an_output_runs(browser: Browser, tmp_path: Path) -> None:
    seen = look(browser, tmp_path, HOSTILE)
    seen.page.click("text=go")
    assert seen.page.title() == "a notebook"
    assert [url for url in seen.requests if not url.startswith("data:")] == [
        (tmp_path / "page.html").as_uri()
    ]
    assert seen.page.locator("main > section").count() == len(HOSTILE)


def test_dark_and_light_differ_and_both_can_be_read(browser: Browser, tmp_path: Path) -> None:
    shown = {}
    for scheme in ("light", "dark"):
        page = look(browser, tmp_path, CELLS, scheme=scheme).page
        shown[scheme] = page.evaluate(_COLOURS)
    assert shown["light"]["body"] != shown["dark"]["body"]
    for scheme, colours in shown.items():
        for what, (ink, paper) in colours.items():
            assert _contrast(ink, paper) >= 4.5, (scheme, what, ink, paper)


def test_a_style_sheet_of_an_output_stays_in_its_box(browser: Browser, tmp_path: Path) -> None:
    page = look(browser, tmp_path, CELLS, scheme="dark").page
    assert (
        page.evaluate("document.querySelectorAll('.shut')[0].shadowRoot.querySelectorAll('td').length") == 1
    )
    inside = (
        "document.querySelectorAll('.shut')[0].shadowRoot.querySelector('.far').getBoundingClientRect().top"
    )
    outside = "document.querySelectorAll('.shut')[0].parentElement.getBoundingClientRect().top"
    assert abs(page.evaluate(inside) - page.evaluate(outside)) < 20
    assert page.evaluate("getComputedStyle(document.querySelector('.prose td')).color") != "rgb(0, 0, 0)"


def test_a_table_in_pages_can_be_turned_over(browser: Browser, tmp_path: Path) -> None:
    table = Table((Column("n", "number"),), tuple((number,) for number in range(45)), 45)
    page = look(browser, tmp_path, (code("df", result(html=html_table(table))),)).page
    shown = "[...document.querySelector('.shut').shadowRoot.querySelectorAll('tbody tr')].filter(e => e.offsetHeight).length"
    assert page.evaluate(shown) == 20
    page.click("label >> nth=2")
    assert page.evaluate(shown) == 5


def test_formulas_are_drawn(browser: Browser, tmp_path: Path) -> None:
    page = look(browser, tmp_path, CELLS).page
    over, under = (
        page.evaluate(f"document.querySelector('mfrac').children[{place}].getBoundingClientRect().top")
        for place in (0, 1)
    )
    assert over < under


def test_on_paper_long_lines_are_wrapped_and_the_contents_are_gone(browser: Browser, tmp_path: Path) -> None:
    page = look(browser, tmp_path, CELLS, scheme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate(
        "[...document.querySelectorAll('pre')].every(e => e.scrollWidth <= e.clientWidth + 1)"
    )


def test_charts_are_drawn_without_a_network_and_replace_their_pictures(
    browser: Browser, tmp_path: Path
) -> None:
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": [{"a": "x", "b": 3}, {"a": "y", "b": 5}]},
        "transform": [{"calculate": "datum.b * 2", "as": "c"}],
        "mark": "bar",
        "encoding": {"x": {"field": "a"}, "y": {"field": "c", "type": "quantitative"}},
    }
    shown = display({"application/vnd.vegalite.v5+json": spec, "image/png": PNG})
    seen = look(browser, tmp_path, (code("chart", shown), *HOSTILE))
    expect(seen.page.locator(".cw-chart svg .mark-rect path")).to_have_count(2, timeout=LIMIT_MS)
    # The picture goes only once the chart is there.
    expect(seen.page.locator(".cw-still")).to_have_count(0, timeout=LIMIT_MS)
    assert seen.messages == []
    assert seen.page.title() == "a notebook"
    assert [url for url in seen.requests if not url.startswith("data:")] == [
        (tmp_path / "page.html").as_uri()
    ]


def test_a_table_of_contents_leads_to_its_headings(browser: Browser, tmp_path: Path) -> None:
    page = look(browser, tmp_path, CELLS).page
    for link in page.locator("nav a").all():
        target = (link.get_attribute("href") or "")[1:]
        assert page.evaluate("id => document.getElementById(id).tagName", target).startswith("H")


_COLOURS = """() => {
  const paper = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c) && c !== 'transparent') return c } return getComputedStyle(document.documentElement).backgroundColor };
  const found = {};
  for (const s of ['body', '.prose p', '.prose a', 'pre.code', 'pre.code .s1', 'pre.error', 'pre.error span', '.margin a',
                   '.about span', 'table td', 'nav a', 'pre.stderr']) {
    const e = document.querySelector(s); found[s] = [getComputedStyle(e).color, paper(e)] }
  return found }"""


def _contrast(ink: str, paper: str) -> float:
    lighter, darker = sorted((_luminance(ink), _luminance(paper)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    numbers = [
        float(part)
        for part in colour[colour.index("(") + 1 : -1]
        .replace("srgb", "")
        .replace("/", " ")
        .replace(",", " ")
        .split()
    ]
    scale = 1 if colour.startswith("color(") else 255
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / scale for one in numbers[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
