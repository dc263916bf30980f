"""How outputs are chosen, cut, sorted and shut in, without a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from cellwright.formats.highlight import ansi_html
from cellwright.web._outputs import (
    Chart,
    Outputs,
    chart_csv,
    chart_of,
    choose,
    digest,
    ending,
    folded,
    framed,
    text_page,
)
from cellwright.web._tables import TableView, asked_by, table_of, table_page

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100)).decode()
TABLE = '<table class="dataframe"><thead><tr><th></th><th>n</th></tr></thead><tbody>{}</tbody></table>'


def display(**data: Any) -> dict[str, Any]:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {key.replace("__", "/"): held for key, held in data.items()},
    }


@pytest.mark.parametrize(
    ("output", "form"),
    [
        (display(text__html="<p>x</p>", text__plain="x"), "frame"),
        (display(text__html=TABLE.format("<tr><th>0</th><td>1</td></tr>")), "table"),
        (display(text__html="<script>1</script>", text__plain="x"), "text"),
        (display(text__html="<script>1</script>", image__png=PNG), "picture"),
        (display(image__png="no picture", text__plain="x"), "text"),
        (display(text__markdown="*x*", text__plain="x"), "markdown"),
        (display(application__odd="x"), "unknown"),
    ],
)
def test_the_fullest_form_that_needs_no_script_is_shown(output: dict[str, Any], form: str) -> None:
    chosen = choose(output)
    assert chosen is not None
    assert chosen.form == form
    assert chosen.scripted == ("<script" in str(output["data"].get("text/html")))


def test_every_piece_of_a_long_text_is_on_one_page() -> None:
    text = "".join(f"line {n}\n" for n in range(3_000)) + "x" * 150_000
    count = text_page(text, 1).count
    assert "".join(str(text_page(text, n).html) for n in range(1, count + 1)) == text


def test_a_growing_text_shows_its_last_lines_and_a_whole_one_both_ends() -> None:
    text = "".join(f"line {n}\n" for n in range(10_000))
    live, whole = ending(text), folded(text)
    assert live.tail.startswith("line 9800\n")
    assert live.left_out == "9,800 lines"
    assert whole.head.startswith("line 0\n")
    assert whole.tail.endswith("line 9999\n")
    assert whole.left_out == "9,910 lines"


def test_a_growing_text_that_is_short_is_shown_as_a_whole_one_is() -> None:
    assert ending("line 0\nline 1\n") == folded("line 0\nline 1\n")


def test_ten_megabytes_in_one_line_are_a_screenful() -> None:
    whole = folded("<b>" + "x" * 10_000_000)
    assert len(whole.head) + len(whole.tail) < 10_000
    assert whole.head.startswith("&lt;b&gt;")


def test_outputs_of_a_large_notebook_cost_the_page_little() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "many words\n" * 9_000} for _ in range(100)
    ]
    made = Outputs()
    pages = [made.html(f"/sessions/s/cells/c{n}", [one], growing=False) for n, one in enumerate(outputs)]
    assert sum(map(len, pages)) < 300_000


def test_what_changed_has_another_name() -> None:
    assert digest(display(text__plain="a")) != digest(display(text__plain="b"))
    assert digest(display(text__plain="a")) == digest(display(text__plain="a"))


def test_a_table_sorts_numbers_by_size_and_keeps_what_is_empty_last() -> None:
    rows = "".join(f"<tr><th>{n}</th><td>{held}</td></tr>" for n, held in enumerate(["10", "9", "", "1,000"]))
    table = table_of(TABLE.format(rows))
    assert [row[1] for row in table_page(table, TableView(sort=2)).rows] == ["9", "10", "1,000", ""]
    assert [row[1] for row in table_page(table, TableView(sort=-2)).rows] == ["1,000", "10", "9", ""]
    assert table_page(table, TableView(page=9)).asked.page == 1
    assert asked_by({"sort": "<script>", "page": "-"}) == TableView()


def test_a_frame_is_served_with_the_digests_of_its_styles_and_nothing_unsafe() -> None:
    page, policy = framed(
        '<style>p { margin: 0 }</style><p style="color: red" onclick="x()">a</p><script>1</script>'
    )
    sheets = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(css.encode()).digest()).decode() for css in sheets]
    assert len(sheets) == 3
    assert all(f"'sha256-{one}'" in policy for one in digests)
    assert policy.startswith("sandbox; default-src 'none';")
    assert "unsafe" not in policy
    assert ' style="' not in page
    assert "onclick" not in page
    assert "<script" not in page


def test_a_style_that_would_leave_its_rule_is_dropped() -> None:
    page, _ = framed('<p style="color: red} body { display: none">a</p>')
    assert "display: none" not in page


@pytest.mark.parametrize(
    "opened", ["<img ", "<div title='", "<iframe src=", "<svg ", "<style>", "<p><b>", '<a b="']
)
def test_a_million_letters_of_tags_that_are_left_open_cost_no_more_than_as_many_of_text(opened: str) -> None:
    many = opened * (1_000_000 // len(opened))
    page, _ = framed(f"before {many}")
    assert "before" in page


def test_what_is_elsewhere_is_a_link_with_its_words() -> None:
    film = "https://elsewhere.example/film?a=1&amp;b=2"
    page, _ = framed(
        '<img src="https://elsewhere.example/a.png" alt="a &lt;cat&gt;"><img src="x.png">'
        f'<iframe src="{film}"></iframe><input type="text"><input type="checkbox">'
    )
    assert re.findall(r'<(?:a|span) class="absent"[^>]*>[^<]*<', page) == [
        '<a class="absent" rel="noopener noreferrer" href="https://elsewhere.example/a.png">[a &lt;cat&gt;]<',
        '<span class="absent">[a picture]<',
        f'<a class="absent" href="{film}" rel="noopener noreferrer">{film}<',
    ]
    assert re.findall(r"<(?:img|input|iframe)[^>]*>", page) == ['<input type="checkbox">']
    assert "Not shown here: iframe, img" in page


def test_a_chart_that_would_fetch_is_refused_and_its_data_is_a_file() -> None:
    assert isinstance(chart_of('{"data": {"url": "https://elsewhere.example"}, "mark": "bar"}'), str)
    assert chart_of("[1]") == "it is no specification"
    spec = '{"data": {"values": [{"a": 1}, {"a": 2, "b": "x"}]}, "mark": "bar"}'
    assert isinstance(chart_of(spec), Chart)
    assert chart_csv(spec).splitlines() == ["a,b", "1,", "2,x"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("\x1b[1;31mred\x1b[0m <b>", '<span class="ansi-red-fg ansi-bold">red</span> &lt;b&gt;'),
        ("\x1b[38;5;196mx\x1b[39my", '<span class="ansi-red-fg">x</span>y'),
        ("\x1b[38;2;0;120;0mx", '<span class="ansi-green-fg">x</span>'),
        ("\x1b[48;5;21mx", '<span class="ansi-blue-bg">x</span>'),
        ("\x1b[7mx\x1b[27my", '<span class="ansi-default-inverse-fg ansi-default-inverse-bg">x</span>y'),
        ("\x1b[38mx\x1b[38;5mx\x1b[999999999999mx", "xxx"),
    ],
)
def test_terminal_colours_become_classes(text: str, html: str) -> None:
    assert ansi_html(text) == html
