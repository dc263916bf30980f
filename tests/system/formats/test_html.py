"""A notebook as one HTML page: what stands in it, and what must not."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.formats._html import Page, to_html
from cellwright.notebook import Document, ran_mark
from tests.support.formats.pagebooks import PNG, code, display, error, notebook, result, stream, text

VOID = {"br", "col", "hr", "img", "input", "wbr", "meta", "link"}
LOADING = {"src", "srcset", "poster", "data", "background", "xlink:href", "action", "formaction", "ping"}


def page_of(*cells: dict[str, Any], **metadata: Any) -> Page:
    return to_html(notebook(*cells, **metadata), name="a notebook")


def body_of(*cells: dict[str, Any], **metadata: Any) -> str:
    return page_of(*cells, **metadata).text.split("<main", 1)[1]


class Outline(HTMLParser):
    """The tags of a page: what is open, what loads something, what could run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.misnested: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.misnested.append(tag)


def assert_harmless(page: str) -> None:
    outline = Outline(page)
    assert not outline.misnested
    assert not outline.open
    sections = [about for tag, about in outline.tags if tag == "main"]
    assert len(sections) == 1
    for tag, about in outline.tags:
        assert tag not in {
            "script",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "link",
            "svg",
            "button",
            "textarea",
        }
        assert not [name for name in about if name.startswith("on")]
        for name in LOADING & about.keys():
            assert (about[name] or "").startswith("data:image/"), (tag, name)
        assert (
            not (about.get("href") or "")
            .strip()
            .lower()
            .startswith(("javascript", "data", "vbscript", "file"))
        )
        assert "url(" not in (about.get("style") or "")
        if tag == "meta":
            assert (about.get("http-equiv") or "content-security-policy").lower() == "content-security-policy"


def test_a_page_holds_text_code_and_outputs_in_order() -> None:
    page = body_of(
        text("# Title\n\nSome *words*."), code("x = 41 + 1", stream("printed\n"), result(plain="42"))
    )
    places = [
        page.index(part)
        for part in ("Title", "<em>words</em>", '<span class="mi">41</span>', "printed", ">42<")
    ]
    assert places == sorted(places)


def test_without_outputs_only_the_sources_are_there() -> None:
    book = notebook(text("# Title"), code("print('x')", stream("printed-words\n")))
    page = to_html(book, name="n", include_outputs=False).text
    assert "printed-words" not in page
    assert "Title" in page


def test_a_page_lets_nothing_be_loaded_or_run() -> None:
    page = page_of(code("1")).text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "script-src" not in policy[1]
    assert not re.search(r'(?:src|href)="https?:', page)


@pytest.mark.parametrize(
    ("language", "source", "token"),
    [
        ("python", "def f(): pass", '<span class="k">def</span>'),
        ("typescript", "const x: number = 1", '<span class="kd">const</span>'),
        ("javascript", "let y = 2", '<span class="kd">let</span>'),
        ("sql", "SELECT 1", '<span class="k">SELECT</span>'),
        ("r", "f <- function(x) x", '<span class="kr">function</span>'),
    ],
)
def test_code_is_coloured_in_the_cells_own_language(language: str, source: str, token: str) -> None:
    assert token in body_of(code(source, vscode={"languageId": language}))


def test_a_cell_of_another_language_says_which() -> None:
    page = body_of(
        code("SELECT 1", vscode={"languageId": "sql"}), code("x = 1"), language_info={"name": "python"}
    )
    assert page.count('<span class="note plain">sql</span>') == 1
    assert '<span class="note plain">python</span>' not in page


def test_code_of_a_language_nobody_knows_stays_readable() -> None:
    assert "a &lt;&lt; b" in body_of(code("a << b", vscode={"languageId": "no-such-language"}))


@pytest.mark.parametrize(
    "source",
    [
        "in a line: $a_1 + b^2$",
        r"in parentheses: \(a_1 + b^2\)",
        "- in a list: $a_1 + b^2$",
        "> in a quote: $a_1 + b^2$",
        "| in a table |\n|---|\n| $a_1 + b^2$ |",
        "# in a heading: $a_1 + b^2$",
        "$$\na_1 + b^2\n$$",
        "in the middle $$a_1 + b^2$$ of a line",
        "\\[ a_1 + b^2 \\]",
        "\\begin{equation}\na_1 + b^2\n\\end{equation}",
    ],
)
def test_formulas_become_mathml_wherever_they_stand(source: str) -> None:
    page = body_of(text(source))
    assert "<msub><mi>a</mi><mn>1</mn></msub>" in page
    assert "<msup><mi>b</mi><mn>2</mn></msup>" in page
    assert "$" not in page


def test_prices_are_no_formulas() -> None:
    page = body_of(text("It costs $5 and $6, or $7."))
    assert "<math" not in page
    assert "It costs $5 and $6, or $7." in page


@pytest.mark.parametrize("latex", [r"\frac{a", r"\nosuchcommand{x}", r"\left( x", "{" * 300])
def test_a_formula_that_cannot_be_read_stays_as_its_source(latex: str) -> None:
    page = body_of(text(f"before ${latex}$ after"))
    assert latex in page
    assert "before" in page
    assert "after" in page


def test_what_a_formula_says_as_text_is_text() -> None:
    page = page_of(text(r"$\text{<script>alert(1)</script> a<b & c}$")).text
    assert_harmless(page)
    assert "&lt;script&gt;" in page


def test_terminal_colours_are_kept_and_other_codes_are_gone() -> None:
    page = body_of(code("1", stream("\x1b[31mred\x1b[0m \x1b[2Kplain\x1b]0;title\x07\n50%\r60%\n")))
    assert '<span class="ansi-red-fg">red</span>' in page
    assert "plain" in page
    assert "title" not in page
    assert "50%" not in page
    assert "60%" in page
    assert "\x1b" not in page


def test_an_error_is_shown_with_its_traceback() -> None:
    page = body_of(code("1/0", error("ZeroDivisionError", "by zero", "\x1b[31mTraceback\x1b[0m", "line <1>")))
    assert 'class="error"' in page
    assert "Traceback" in page
    assert "line &lt;1&gt;" in page


def test_a_picture_has_words_beside_it() -> None:
    page = body_of(
        code("plot", display({"image/png": PNG, "text/plain": "<Figure size 1x1 with 1 Axes>"}), number=7),
        code("plot", display({"image/png": PNG}, **{"image/png": {"alt": 'sales by "month"'}})),
    )
    assert f'<img alt="Picture put out by cell [7]" src="data:image/png;base64,{PNG}">' in page
    assert 'alt="sales by &quot;month&quot;"' in page


def test_an_svg_is_a_picture_that_cannot_run() -> None:
    page = page_of(code("1", result(svg='<svg viewBox="0 0 1 1"><script>alert(1)</script></svg>'))).text
    assert_harmless(page)
    assert 'src="data:image/svg+xml;base64,' in page


SPEC = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"a": "x</script><script>alert(1)</script>", "b": 1}]},
    "mark": "bar",
    "encoding": {"x": {"field": "a"}, "y": {"field": "b", "type": "quantitative"}},
}


def test_a_chart_is_drawn_by_the_one_script_that_the_page_allows() -> None:
    page = page_of(code("1", display({"application/vnd.vegalite.v5+json": SPEC, "image/png": PNG}))).text
    policy = re.search(r"script-src 'sha256-([^']+)'", page)
    assert policy is not None
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert [about for about, _ in scripts] == [' type="application/json"', ""]
    assert base64.b64encode(hashlib.sha256(scripts[1][1].encode()).digest()).decode() == policy[1]
    assert json.loads(scripts[0][1])["data"] == SPEC["data"]


@pytest.mark.parametrize(
    "spec",
    [{"data": {"url": "https://example.org/x.csv"}, "mark": "bar"}, {"mark": "image"}, [1], "x", None, 3],
)
def test_a_chart_that_would_fetch_something_stays_a_picture(spec: Any) -> None:
    page = page_of(code("1", display({"application/vnd.vegalite.v5+json": spec, "image/png": PNG})))
    assert_harmless(page.text)
    assert f"base64,{PNG}" in page.text


def test_a_chart_has_its_picture_until_it_is_drawn() -> None:
    shown = display(
        {"application/vnd.vegalite.v5+json": {"mark": "bar"}, "image/png": PNG, "text/plain": "chart"}
    )
    assert f"base64,{PNG}" in body_of(code("1", shown))


def test_a_broken_picture_is_told_and_its_text_shown_instead() -> None:
    page = page_of(code("1", result(png="%%% no base64", plain="what it was"), number=3))
    assert "what it was" in page.text
    assert page.notices == ("Cell [3]: a picture cannot be read",)


def test_a_frames_table_keeps_its_cells_and_loses_pandas_style() -> None:
    html = (
        "<div><style scoped>\n    .dataframe tbody tr th:only-of-type {\n        vertical-align: middle;\n    }\n\n"
        "    .dataframe thead th {\n        text-align: right;\n    }\n</style>\n"
        '<table border="1" class="dataframe"><thead><tr><th></th><th>a</th></tr></thead>'
        "<tbody><tr><th>0</th><td>&lt;1&gt;</td></tr></tbody></table></div>"
    )
    page = body_of(code("df", result(html=html, plain="frame")))
    assert "<td>&lt;1&gt;</td>" in page
    assert "only-of-type" not in page
    assert "shadowrootmode" not in page


def test_an_outputs_own_style_sheet_is_shut_in_with_it() -> None:
    html = '<style>#T_1 { color: red } h1, body { display: none }</style><table id="T_1"><tr><td>styled</td></tr></table>'
    page = page_of(text("# Title"), code("df.style", result(html=html))).text
    inside = re.search(r'<template shadowrootmode="open">(.*?)</template>', page, re.DOTALL)
    assert inside is not None
    assert "body { display: none }" in inside[1]
    assert 'id="T_1"' in inside[1]
    assert "display: none }" not in page.replace(inside[0], "").split("</head>")[1]


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)><script>alert(1)</script></svg>",
        "</div></div></section></main></body><h1>broken out</h1>",
        '"><script>alert(1)</script>',
        "<a href='javascript:alert(1)'>x</a><a href=' JaVaScRiPt:alert(1)'>y</a>",
        '<a href="data:text/html,<script>alert(1)</script>">x</a>',
        "<iframe src='https://example.org'></iframe><iframe srcdoc='<script>alert(1)</script>'></iframe>",
        "<form action='https://example.org'><button>go</button></form>",
        "<meta http-equiv=refresh content='0;url=https://example.org'><base href='https://example.org/'>",
        "<link rel=stylesheet href='https://example.org/x.css'><style>@import 'https://example.org/x.css';</style>",
        "<div style='background: url(https://example.org/x.png); position: fixed; inset: 0'>x</div>",
        "<style>a{}</style></template><script>alert(1)</script><style></style>",
        "<style>a{}<!--</style><script>alert(1)</script>-->",
        "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
        "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
        "<textarea></textarea><script>alert(1)</script>",
        "<!--[if gte IE 4]><script>alert(1)</script><![endif]--><!-- -- ><script>alert(1)</script> -->",
        "<div title='a\"onmouseover=alert(1)'>x</div>",
        "<template shadowrootmode=open><script>alert(1)</script></template>",
        "<table><tr><td><img src='https://example.org/p.png' alt='\"><script>'></table>",
        "<video src='https://example.org/v.mp4' poster='https://example.org/p.png'></video>",
        "<div" * 500,
        "<b>" * 5000,
        "<table>" * 300 + "x",
        "<ul><li>" * 300,
    ],
)
def test_hostile_html_neither_runs_nor_loads_nor_leaves_its_box(html: str) -> None:
    for cell in (
        code("1", result(html=html, plain="text")),
        text(html),
        text(f"a {html} b"),
        text(f"# {html}\n\nx"),
    ):
        page = page_of(cell, text("the cell after it"), code("after = 1")).text
        assert_harmless(page)
        assert "the cell after it" in page


def test_an_attribute_left_open_in_a_text_cell_takes_nothing_with_it() -> None:
    page = page_of(text('<div title="\n\n`code` $x$\n\n```py\n1\n```\n'), text("after")).text
    assert_harmless(page)
    assert "\ufdd0" not in page


def test_a_formula_in_an_attribute_is_not_filled_in() -> None:
    page = page_of(text('<div title="\n\n$$x$$\n\n">inside</div>'), text("after")).text
    assert_harmless(page)
    assert "inside" in page


def test_a_tag_that_is_left_open_swallows_nothing() -> None:
    page = body_of(text("one <textarea> two <script> three <title> four"))
    for word in ("one", "two", "three", "four"):
        assert word in page


def test_pictures_elsewhere_are_not_fetched_but_told() -> None:
    page = page_of(text("![a cat](https://example.org/cat.png)"))
    assert_harmless(page.text)
    assert "[a cat]" in page.text
    assert "https://example.org/cat.png" in page.notices[0]


def test_attached_pictures_are_shown() -> None:
    page = body_of(text("![plot](attachment:p.png)", attachments={"p.png": {"image/png": PNG}}))
    assert f'src="data:image/png;base64,{PNG}"' in page


def test_html_that_needs_scripts_is_shown_by_its_text() -> None:
    page = page_of(
        code("fig", result(html="<div id=plot></div><script>draw()</script>", plain="Figure({...})"))
    )
    assert "Figure({...})" in page.text
    assert "script" in page.notices[0]


def test_ten_megabytes_of_output_are_cut_and_told() -> None:
    page = page_of(code("1", stream("start\n" + "x" * 99 + "\n" + ("y" * 99 + "\n") * 100_000 + "the end\n")))
    assert len(page.text) < 1_000_000
    assert "start" in page.text
    assert "the end" in page.text
    assert "left out" in page.notices[0]


def test_headings_make_a_table_of_contents_with_places_to_go_to() -> None:
    page = page_of(text("# One\n\n## Two & three\n\n## Two & three\n\n#### small")).text
    contents = page.split("<nav", 1)[1].split("</nav>")[0]
    assert re.findall(r'href="#([^"]+)">([^<]+)<', contents) == [
        ("one", "One"),
        ("two-three", "Two &amp; three"),
        ("two-three-2", "Two &amp; three"),
    ]
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {"one", "two-three", "two-three-2"} <= set(ids)


def test_a_page_says_how_its_notebook_stands() -> None:
    plan = {"problem": "p", "phase": "stopped", "todos": [{"status": "done"}, {"status": "failed"}]}
    page = page_of(
        code("1", cellwright={"state": "failed", "seconds": 2.5, "stale": True}), cellwright={"plan": plan}
    ).text
    for words in ("Plan stopped: 1 of 2 steps done", "failed", "2.5 s", "outputs are of an earlier state"):
        assert words in page


@pytest.mark.parametrize(("ran", "is_told"), [("x = 1", False), ("x = 2", True), (None, False)])
def test_a_page_says_of_a_cell_that_it_was_edited_since_it_ran(ran: str | None, *, is_told: bool) -> None:
    noted = {} if ran is None else {"ran": ran_mark(ran)}
    page = page_of(code("x = 1", cellwright={"state": "ok", **noted})).text
    assert ("edited since it ran" in page) == is_told


@pytest.mark.parametrize(
    "held", [3, "x", [], {"plan": 3, "certificate": []}, {"plan": {"todos": [None, 3]}}, None]
)
def test_metadata_of_any_shape_makes_a_page(held: Any) -> None:
    page = page_of(code("1", cellwright=held, vscode=held, tags=held), cellwright=held, language_info=held)
    assert "<main" in page.text


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "stream"},
        {"output_type": "stream", "text": 3},
        {"output_type": "execute_result"},
        {"output_type": "display_data", "data": {"text/plain": None, "text/html": 3}},
        {"output_type": "display_data", "data": {"image/png": ["AA", "AA"], "image/svg+xml": "<nothing>"}},
        {"output_type": "error"},
        {"output_type": "error", "traceback": [1, None, "line"], "ename": None},
        {"output_type": "of another time"},
        {"output_type": "display_data", "data": {"application/x-unknown": "…"}},
    ],
)
def test_outputs_of_any_shape_make_a_page(output: Any) -> None:
    assert_harmless(page_of(code("1", output)).text)


def test_scripts_that_run_from_right_to_left_do_so() -> None:
    assert '<p dir="auto">שלום</p>' in body_of(text("שלום"))


@settings(max_examples=60)
@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_makes_a_harmless_page(source: str, html: str) -> None:
    book = notebook(text(source), code(source, stream(source), result(html=html, plain=source)), text(html))
    assert_harmless(to_html(book, name=source).text)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["<div>", "</div>", "<p>", "<td>", "</table>", "<table>", "<a href=x>", "</a>", "<li>",
    "**", "`", "$x$", "$$", "[a](b)", "\n\n", "> ", "- ", "|a|\n|-|\n", "<!--", "-->", "<style>", '<b title="', "# ", "~~~\n",
    "<script>", "<template>", "</template>", "<svg>", "text"]), max_size=30).map("".join))  # fmt: skip
def test_any_mixture_of_marks_makes_a_balanced_page(source: str) -> None:
    assert_harmless(to_html(notebook(text(source), code("1", result(html=source))), name="n").text)


def test_the_same_notebook_is_the_same_page() -> None:
    book: Document = notebook(text("# T $x$"), code("1", result(html="<b>x</b>")))
    assert to_html(book, name="n") == to_html(book.copy(), name="n")
