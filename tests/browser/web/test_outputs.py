"""What cells put out, looked at in a real browser: nothing of it runs, and each kind can be used as a person would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.web.conftest import Looker, Served, assert_accessible
from tests.matrix import first_of

FRAME = """
class Frame:
    def _repr_html_(self):
        rows = "".join(f"<tr><th>{n}</th><td>{n * 7 % 50}</td><td>word{n}</td></tr>" for n in range(50))
        return (
            '<table class="dataframe"><thead><tr><th></th><th>size</th><th>name</th></tr></thead>'
            f"<tbody>{rows}</tbody></table><p>50 rows by 2 columns</p>"
        )
Frame()
"""
CHART = """
from IPython.display import display
spec = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"fruit": "apple", "weight": 3}, {"fruit": "pear", "weight": 5}]},
    "mark": {"type": "bar", "tooltip": True},
    "encoding": {"x": {"field": "fruit", "type": "nominal"}, "y": {"field": "weight", "type": "quantitative"}},
}
display({"application/vnd.vegalite.v5+json": spec, "text/plain": "a chart of fruit"}, raw=True)
"""
HOSTILE = [
    """
from IPython.display import HTML, SVG, Markdown, display
display(HTML('''<script>top.document.title = "ran"; window.ran = 1</script><b>scripted</b>'''))
display(HTML('''<img src=x onerror="parent.ran = 1"><a href="javascript:parent.ran=1">click me</a>
<style>body { background: url(https://elsewhere.example/x) }</style>
<p style="color: red; background: url(https://elsewhere.example/y)">styled</p><form action=/leave><button>x</button></form>'''))
display(SVG('''<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="parent.ran = 1">
<script>parent.ran = 1</script><image href="https://elsewhere.example/z"/><circle r="9"/></svg>'''))
""",
    """
display(Markdown('''# main

<script>window.ran = 1</script><img src=x onerror="ran = 1"> [link](javascript:ran=1)
<div id="says" class="top" style="position: fixed; inset: 0" data-load="/leave" onclick="ran=1">over all</div>

| a | b |
|:-:|--:|
| $x^2$ | <b onmouseover="ran=1">2</b> |
'''))
""",
    "print('<script>window.ran = 1</script>\\x1b[31mred\\x1b[0m<img src=x onerror=ran=1>')",
    """
display({"application/vnd.vegalite.v5+json": {
    "data": {"url": "https://elsewhere.example/data.json"}, "mark": "bar", "encoding": {}}, "text/plain": "refused"}, raw=True)
display({"application/vnd.vegalite.v5+json": {
    "data": {"values": [{"a": "<img src=x onerror=ran=1>", "b": 1, "u": "javascript:ran=1"}]},
    "mark": {"type": "bar", "tooltip": True}, "params": [{"name": "p", "expr": "window.ran = 1"}],
    "encoding": {"x": {"field": "a"}, "y": {"field": "b", "type": "quantitative"}, "href": {"field": "u"}}},
    "text/plain": "drawn"}, raw=True)
display({"application/vnd.vegalite.v5+json": "no spec at all", "text/plain": "broken"}, raw=True)
""",
    "print('x' * 10_000_000)",
    "raise ValueError('<script>window.ran = 1</script><img src=x onerror=ran=1>')",
]


def run_all(looker: Looker, served: Served, name: str, *cells: str, ends: str = "ok") -> Page:
    """A notebook with these cells, run by who looks at it; ``ends`` is how the last one does."""
    page = looker.go(f"/sessions/{served.notebook(name, *cells, run=False)}")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator("article.cell.code header .state").last).to_have_text(ends)
    return page


def see_all(page: Page) -> None:
    """Go to each output that is loaded only when somebody comes there, and stay until it is."""
    for output in page.locator(".output[data-load]").all():
        output.scroll_into_view_if_needed()
        expect(output).to_have_attribute("data-loaded", "yes")
    for framed in page.locator(".output.framed").all():
        framed.scroll_into_view_if_needed()
        expect(framed.locator("iframe")).to_be_visible()


def test_hostile_outputs_neither_run_nor_break_the_page(alone: Looker, served: Served) -> None:
    page = run_all(alone, served, "Hostile", *HOSTILE, ends="error")
    page.on("dialog", lambda dialog: alone.messages.append(dialog.message))
    cells = page.locator("article.cell.code")
    expect(cells).to_have_count(len(HOSTILE))
    see_all(page)
    # What needs a script says so; the rest is there, cleaned.
    expect(cells.nth(0)).to_contain_text("runs only when you ask for it")
    frame = page.frame_locator("iframe").first
    expect(frame.get_by_text("styled")).to_have_css("color", "rgb(255, 0, 0)")
    expect(frame.get_by_role("button")).to_have_count(0)
    expect(cells.nth(0).locator("img")).to_have_js_property("complete", value=True)
    # A browser keeps a picture for ever under the address of its content, and under no other.
    named = str(cells.nth(0).locator("img").get_attribute("src"))
    kept = [page.request.get(alone.url + at).headers["cache-control"] for at in (named, f"{named}0")]
    assert ["immutable" in one for one in kept] == [True, False]
    expect(cells.nth(1).locator(".prose")).to_contain_text("over all")
    expect(cells.nth(2)).to_contain_text("<script>window.ran = 1</script>")
    expect(cells.nth(2).locator(".ansi-red-fg")).to_have_text("red")
    expect(cells.nth(5)).to_contain_text("<img src=x onerror=ran=1>")
    expect(cells.nth(3)).to_contain_text("data is not fetched from addresses")
    expect(cells.nth(3)).to_contain_text("it is no specification")
    expect(cells.nth(4)).to_contain_text(re.compile(r"show all [\d,]{7,} characters"))
    expect(cells.nth(4).locator(".outputs > :first-child")).to_contain_text("MB of output are left out")
    assert len(page.content()) < 200_000
    assert page.evaluate("[document.title.endsWith('Cellwright'), window.ran ?? 'nothing ran']") == [
        True,
        "nothing ran",
    ]
    # The page still works: somebody can run a cell, and sign out is where it was.
    page.get_by_role("button", name="Run cell 4").click()
    expect(cells.nth(2).locator(".state")).to_have_text("ok")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_a_table_is_sorted_filtered_and_paged_by_the_keyboard(looker: Looker, served: Served) -> None:
    page = run_all(looker, served, "Table", FRAME)
    table, rows = page.get_by_role("table"), page.locator("table.data tbody tr")
    expect(rows).to_have_count(20)
    expect(page.locator(".output.rows")).to_contain_text("50 rows by 2 columns")
    page.get_by_role("link", name="size").press("Enter")
    expect(table.get_by_role("columnheader", name="size")).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("link", name="size")).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows.first).to_have_text("749word7")
    page.get_by_role("link", name="Next page").press("Enter")
    expect(page.get_by_text("Page 2 of 3")).to_be_visible()
    page.get_by_label("Filter rows").fill("WORD13")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("1 of 50 rows")).to_be_visible()
    with page.expect_download() as got:
        page.get_by_role("link", name="CSV").click()
    assert Path(got.value.path()).read_text().splitlines()[1] == "0,0,word0"


def test_a_chart_is_drawn_grows_and_is_saved(looker: Looker, served: Served) -> None:
    page = run_all(looker, served, "Chart", CHART)
    chart = page.locator("figure[data-drawn=yes]")
    expect(chart.locator("svg.marks")).to_be_visible()
    expect(chart.locator("svg.marks")).to_contain_text("apple")
    for kind, begins in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as got:
            chart.get_by_role("button", name=kind).click()
        assert Path(got.value.path()).read_bytes().startswith(begins)
    with page.expect_download() as got:
        chart.get_by_role("link", name="CSV").click()
    assert Path(got.value.path()).read_text().splitlines() == ["fruit,weight", "apple,3", "pear,5"]
    chart.get_by_role("button", name="Larger").click()
    expect(page.locator("#zoom svg")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#zoom")).to_be_hidden()


def test_long_texts_fold_and_are_read_page_by_page(looker: Looker, served: Served) -> None:
    cell = "for n in range(5000):\n    print('line', n)"
    page = run_all(looker, served, "Long", cell)
    output = page.locator(".output").first
    expect(output).to_contain_text("line 4999")
    expect(output).not_to_contain_text("line 2500")
    page.get_by_text("show all 5,000 lines").click()
    expect(page.get_by_text("Page 1 of 5")).to_be_visible()
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_text("Page 2 of 5")).to_be_visible()
    expect(output).to_contain_text("line 1500")


@pytest.mark.parametrize("scheme", first_of(["light", "dark"], 1))
def test_outputs_of_every_kind_are_accessible_in_either_kind_of_light(
    looker: Looker, served: Served, axe: str, scheme: str
) -> None:
    cells = (
        FRAME,
        CHART,
        "from IPython.display import *\ndisplay(HTML('<p>framed</p>'), Markdown('## Two\\n\\ntext $x^2$'), Latex('$y$'), JSON({'a': [1]}))",
        "import sys\nprint('\\x1b[32mgreen\\x1b[0m')\nprint('oh', file=sys.stderr)\n1/0",
    )
    page = run_all(looker, served, "Everything", *cells, ends="error")
    see_all(page)
    expect(page.locator("figure[data-drawn=yes]")).to_be_visible()
    expect(page.locator("math").first).to_be_visible()
    if scheme == "dark":
        page.get_by_role("button", name="Switch between light and dark").click()
    assert_accessible(page, axe)
