"""A notebook as PDF: what is printed, and that anything can be."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pypdfium2
import pytest
import typst
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.formats import _pdf as glyphs
from cellwright.formats._pdf import Pdf, to_pdf
from tests.support.formats.pagebooks import PNG, code, display, error, notebook, result, stream, text


def print_of(*cells: dict[str, Any], **metadata: Any) -> Pdf:
    return to_pdf(notebook(*cells, **metadata), name="a notebook")


def pages_of(pdf: Pdf) -> list[str]:
    with pypdfium2.PdfDocument(pdf.content) as document:
        return [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in document]


def words_of(*cells: dict[str, Any], **metadata: Any) -> str:
    return "\n".join(pages_of(print_of(*cells, **metadata)))


def pictures_in(pdf: Pdf) -> int:
    with pypdfium2.PdfDocument(pdf.content) as document:
        kind = pypdfium2.raw.FPDF_PAGEOBJ_IMAGE
        return sum(len(list(page.get_objects(filter=[kind]))) for page in document)


def test_a_print_holds_text_code_and_outputs_in_order() -> None:
    words = words_of(
        text("# The title\n\nSome **bold** words."),
        code("x = 41 + 1", stream("was printed\n"), result(plain="forty-two"), number=7),
    )
    places = [
        words.index(part)
        for part in ("The title", "Some bold words.", "x = 41 + 1", "was printed", "forty-two")
    ]
    assert places == sorted(places)
    assert "[7]" in words


def test_without_outputs_only_the_sources_are_printed() -> None:
    book = notebook(text("# Title"), code("print('x')", stream("printed-words\n")))
    words = pages_of(to_pdf(book, name="n", include_outputs=False))[0]
    assert "printed-words" not in words
    assert "Title" in words


def test_pages_are_numbered_and_bear_the_notebooks_name() -> None:
    pages = pages_of(print_of(*[text(f"## Part {number}\n\n" + "words " * 400) for number in range(4)]))
    assert len(pages) > 1
    for number, page in enumerate(pages, 1):
        assert f"{number} / {len(pages)}" in page
        assert "a notebook" in page


def test_the_same_notebook_gives_the_same_bytes_in_another_process() -> None:
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.support.formats.pagebooks import *\n"
        "from cellwright.formats._pdf import to_pdf\n"
        "book = notebook(text('# T $x^2$'), code('1', display({'image/png': PNG})))\n"
        "sys.stdout.buffer.write(to_pdf(book, name='n').content)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(2)
    ]
    assert runs[0].stdout[:5] == b"%PDF-"
    assert runs[0].stdout == runs[1].stdout


def test_a_long_line_is_broken_and_copies_as_it_was() -> None:
    token = "".join(f"{number:04d}" for number in range(120))
    pdf = print_of(code(f"'{token}'", stream(f"{token}\n")), text(token))
    with pypdfium2.PdfDocument(pdf.content) as document:
        page = document[0]
        width = page.get_size()[0]
        for item in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_TEXT]):
            assert item.get_bounds()[2] <= width - 40
    assert "".join(pages_of(pdf)).replace("\n", "").count(token) == 3


@pytest.mark.parametrize(
    "language", ["python", "typescript", "javascript", "sql", "r", "no-such-language", "Julia"]
)
def test_code_of_any_language_is_printed(language: str) -> None:
    assert "SELECT x" in words_of(code("SELECT x", vscode={"languageId": language}))


def test_a_frames_table_is_a_table() -> None:
    html = "<table><thead><tr><th></th><th>name</th><th>n</th></tr></thead><tbody><tr><th>0</th><td>a&lt;b</td><td>1.5</td></tr></tbody></table>"
    words = words_of(code("df", result(html=html, plain="PLAIN")))
    assert "name n" in words
    assert "a<b" in words
    assert "PLAIN" not in words


def test_a_wide_table_is_set_in_groups_of_columns_that_repeat_the_first() -> None:
    head = "".join(f"<th>column_{number}</th>" for number in range(60))
    row = "<td>the-row</td>" + "".join(f"<td>{number}.12345</td>" for number in range(1, 60))
    words = words_of(code("df", result(html=f"<table><thead><tr>{head}</tr></thead><tr>{row}</tr></table>")))
    for number in range(60):
        assert f"column_{number}" in words.replace("\n", " ")
    assert words.count("column_0 ") == words.count("the-row") > 1


def test_a_long_table_is_cut_and_told() -> None:
    rows = "".join(f"<tr><td>row-{number}</td></tr>" for number in range(500))
    pdf = print_of(code("df", result(html=f"<table>{rows}</table>"), number=2))
    assert "row-59" in "".join(pages_of(pdf))
    assert "row-60" not in "".join(pages_of(pdf))
    assert pdf.notices == ("Cell [2]: of a table, 440 of 500 rows are left out",)


def test_spans_of_any_size_leave_a_table_whole() -> None:
    html = "<table><tr><th colspan=99999999>wide</th></tr><tr><td colspan=9999 rowspan=9999>tall</td><td>a</td></tr><tr><td>b</td></tr></table>"
    words = words_of(code("1", result(html=html)))
    for part in ("wide", "tall", "a", "b"):
        assert part in words


def test_pictures_are_placed_within_the_page() -> None:
    pdf = print_of(
        code("1", display({"image/png": PNG})),
        code(
            "2", result(svg='<svg width="9000" height="10"><rect width="9000" height="10" fill="red"/></svg>')
        ),
        text("![attached](attachment:p.png)", attachments={"p.png": {"image/png": PNG}}),
        code("3", result(html=f'<img src="data:image/png;base64,{PNG}">')),
    )
    assert pictures_in(pdf) >= 3
    assert pdf.notices == ()


@pytest.mark.parametrize(
    "forms",
    [
        {"image/png": "%%% no base64"},
        {"image/png": PNG[:60]},
        {"image/jpeg": PNG},
        {"image/svg+xml": "<svg><g></svg>"},
        {"image/svg+xml": "no picture"},
        {"image/png": ""},
    ],
)
def test_a_broken_picture_is_told_and_the_rest_is_printed(forms: dict[str, str]) -> None:
    pdf = print_of(code("1", display(forms)), code("2", display({"image/png": PNG})), text("after it"))
    assert any("cannot be read" in notice for notice in pdf.notices)
    assert "after it" in "".join(pages_of(pdf))
    assert pictures_in(pdf) == 1


def test_formulas_are_drawn_and_those_that_cannot_be_stay_readable() -> None:
    words = words_of(text(r"a $\alpha^2$ b $\frac{x$ c" + "\n\n$$\n\\left( y\n$$\n"))
    assert r"$\frac{x$" in words
    assert r"\left( y" in words
    assert "alpha" not in words


def test_markdown_of_every_kind_is_printed() -> None:
    source = (
        "1. one\n2. two\n   - nested\n     - deeper\n\n- [x] done\n- [ ] open\n\n> quoted\n\n~~struck~~ `span`\n\n"
        "| a | b |\n|:--|--:|\n| c | d |\n\n[link](https://example.org)[^1]\n\n---\n\n```sql\nSELECT 1\n```\n\n"
        "<table><tr><td>raw</td></tr></table>\n\nline<br>break\n\n[^1]: the note\n"
    )
    words = words_of(text(source))
    for part in ("one", "two", "nested", "deeper", "done", "open", "quoted", "struck", "span", "c d", "link", "SELECT 1",
                 "raw", "break", "the note"):  # fmt: skip
        assert part in words


def test_links_lead_out_and_nowhere_else() -> None:
    pdf = print_of(
        text("[a](https://example.org/x) [b](javascript:alert(1)) [c](file:///etc/passwd) [d](#e)")
    )
    assert b"example.org/x" in pdf.content
    assert b"javascript" not in pdf.content
    assert b"passwd" not in pdf.content


def test_terminal_colours_are_gone_and_errors_stay() -> None:
    words = words_of(
        code("1", stream("\x1b[31mred\x1b[0m\n"), error("E", "v", "\x1b[1mTrace\x1b[0m", "last line"))
    )
    assert "red" in words
    assert "Trace\nlast line" in words
    assert "[31m" not in words


def test_what_looks_like_typst_is_printed_as_it_stands() -> None:
    for hostile in ('#panic("x")', '#read("/etc/passwd")', "$x$ #let y = 1", "*b* _i_ `c` = h", "\\u{41} // comment",
                    '"); #panic("', "<label> @ref", '#import "@preview/x:1.0.0"'):  # fmt: skip
        words = words_of(
            code(hostile, stream(hostile), result(html=f"<table><tr><td>{hostile}</td></tr></table>"))
        )
        assert words.count(hostile.split()[0]) >= 2


def test_ten_megabytes_of_output_are_cut_and_told() -> None:
    pdf = print_of(code("1", stream("start\n" + ("y" * 99 + "\n") * 100_000 + "the end\n")))
    words = "".join(pages_of(pdf))
    assert "start" in words
    assert "the end" in words
    assert "left out" in pdf.notices[0]


@pytest.mark.parametrize(
    "source", ["> " * 300 + "deep", "- " * 300 + "deep", "*" * 200 + "deep" + "*" * 200, "[" * 500]
)
def test_deep_nesting_is_flattened(source: str) -> None:
    assert ("deep" in words_of(text(source))) == ("deep" in source)


def test_letters_that_no_font_has_are_told() -> None:
    pdf = print_of(text("a private letter: \U000f1234, and usual ones: αβγ äöü → ≤"))
    assert "1 of the characters" in pdf.notices[0]
    assert "\U000f1234" in pdf.notices[0]
    assert print_of(text("αβγ äöü → ≤ ∑ ∀ « „")).notices == ()


def test_chinese_and_japanese_are_printed_where_a_font_has_them_and_told_where_none_has() -> None:
    pdf = print_of(text("日本語と中文"))
    there = any("CJK" in family or "Droid Sans Fallback" in family for family in typst.Fonts().families())
    assert (pdf.notices == ()) == there
    if there:
        assert "日本語と中文" in "".join(pages_of(pdf))
    else:
        assert "fonts-noto-cjk" in pdf.notices[0]


def test_the_letters_that_are_never_asked_about_are_in_every_font() -> None:
    usual = [chr(number) for number in range(0x21, 0x3000) if glyphs._USUAL.fullmatch(chr(number))]
    known = [one for one in usual if one.isprintable() and not one.isspace()]
    assert glyphs.missing_glyphs(known) == []


def test_scripts_that_run_from_right_to_left_stand_at_the_right() -> None:
    pdf = print_of(text("שלום עולם"))
    with pypdfium2.PdfDocument(pdf.content) as document:
        page = document[0]
        words = [item.get_bounds() for item in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_TEXT])]
        assert max(bounds[2] for bounds in words if bounds[1] > 100) > page.get_size()[0] - 70


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "stream"},
        {"output_type": "execute_result"},
        {"output_type": "display_data", "data": {"text/plain": None, "text/html": 3}},
        {"output_type": "error", "traceback": [1, None, "line"], "ename": None},
        {"output_type": "display_data", "data": {"application/x-unknown": "…"}},
        {"output_type": "display_data", "data": {"application/json": {"a": [1, None]}}},
        {"output_type": "display_data", "data": {"text/latex": "$$x^2$$", "text/markdown": ""}},
    ],
)
def test_outputs_of_any_shape_are_printed(output: Any) -> None:
    assert print_of(code("1", output)).content.startswith(b"%PDF-")


@settings(max_examples=40)
@given(st.text(max_size=200))
def test_any_text_can_be_printed(source: str) -> None:
    book = notebook(
        text(source), code(source, stream(source), result(html=source, plain=source), number=None)
    )
    assert to_pdf(book, name=source).content.startswith(b"%PDF-")


@settings(max_examples=40)
@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1, max_size=60))
def test_any_word_that_is_put_out_can_be_read_in_the_print(word: str) -> None:
    shown = "".join(pages_of(to_pdf(notebook(code("0", stream(f"{word}|"))), name="n"))).replace("\n", "")
    assert word in shown


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["<table>", "</table>", "<tr>", "<td colspan=3>", "<td rowspan=2>", "<th>", "<thead>", "x",
    "**", "`", "$x$", "$$", "[a](b)", "\n\n", "> ", "- ", "|a|b|\n|-|-|\n", "# ", "~~~\n", "![](", "1. ", "[^1]", "\\("]),
    max_size=30).map("".join))  # fmt: skip
def test_any_mixture_of_marks_can_be_printed(source: str) -> None:
    book = notebook(text(source), code("1", result(html=source)))
    assert to_pdf(book, name="n").content.startswith(b"%PDF-")
