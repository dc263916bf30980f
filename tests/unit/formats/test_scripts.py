"""Percent scripts, MyST pages and plain scripts."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import NotebookFormatError, TooManyCells
from cellwright.formats import export, read
from cellwright.formats.model import Draft, DraftCell, document_of
from cellwright.notebook import Document
from tests.support.formats.books import book, cells_of, documents, draft_cells, texts_of

SCRIPTS = {
    "python": ".py",
    "typescript": ".ts",
    "javascript": ".js",
    "r": ".R",
    "sql": ".sql",
    "julia": ".jl",
}
PLAIN = st.text("abc xyz=()1\n", max_size=30).map(str.strip)
moderate = settings(max_examples=20)


def _same_but_for_ids(left: Document, right: Document) -> bool:
    return [cell[1:] for cell in cells_of(left)] == [cell[1:] for cell in cells_of(right)]


@pytest.mark.parametrize(("language", "suffix"), SCRIPTS.items())
def test_a_percent_script_is_one_of_the_notebooks_language(language: str, suffix: str) -> None:
    document = book(
        ("markdown", "# Title\n\ntext"),
        DraftCell("code", "x = 1", tags=("parameters",)),
        DraftCell("code", "echo 1", language="bash"),
        DraftCell("code", "y", filename="y.ts"),
        ("raw", "raw"),
        language=language,
    )
    found = export(document, name="n", format="percent")
    assert (found.suffix, found.notices) == (suffix, ())
    assert "\nx = 1\n" in found.content.decode()
    assert "\necho 1" not in found.content.decode()
    for name in (f"x{suffix}", "no suffix at all"):
        again = read(found.content, name=name, format="percent")
        assert _same_but_for_ids(again.document, document)
        assert again.document.language == language
        assert again.title == "Title"


@pytest.mark.parametrize("form", ["percent", "myst"])
@pytest.mark.parametrize("language", ["python", "r", "sql", "typescript"])
def test_a_line_that_looks_like_a_magic_comes_back_in_every_language(language: str, form: str) -> None:
    document = book(("code", "%A"), ("code", "!ls"), language=language)
    found = export(document, name="n", format=form)
    again = read(found.content, name=f"x{found.suffix}", format=form).document
    assert texts_of(again) == [("code", "%A"), ("code", "!ls")]
    assert again.language == language


@pytest.mark.parametrize("form", ["percent", "myst"])
@moderate
@given(document=documents())
def test_what_jupytext_writes_without_notices_comes_back(form: str, document: Document) -> None:
    if document.language == "klingon":
        return
    found = export(document, name="n", format=form)
    if not found.notices:
        again = read(found.content, name=f"x{found.suffix}", format=form).document
        assert _same_but_for_ids(again, document)
        assert export(again, name="n", format=form).content == found.content


@pytest.mark.parametrize("form", ["percent", "myst"])
@moderate
@given(sources=st.lists(st.tuples(st.sampled_from(["code", "markdown"]), PLAIN.filter(bool)), max_size=5))
def test_plain_cells_always_come_back(form: str, sources: list[tuple[str, str]]) -> None:
    document = book(*sources)
    found = export(document, name="n", format=form)
    if found.notices:
        # Two blank lines in a text end it in jupytext's eyes.
        assert any("\n\n\n" in source for _, source in sources)
        return
    assert texts_of(read(found.content, name=f"x{found.suffix}", format=form).document) == sources


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("myst", " " * 1_000_000),
        ("myst", "\n" + " " * 1_000_000),
        ("myst", "\t" * 1_000_000 + "x"),
        ("percent", "# %% " + "a=\"[(' " * 100_000),
        ("percent", "# %%\n" * 200_000),
    ],
)
def test_what_would_take_jupytext_hours_is_refused(form: str, content: str) -> None:
    with pytest.raises((NotebookFormatError, TooManyCells)):
        read(content.encode(), name="x.py", format=form, max_cells=500)


def test_a_myst_page_is_known_by_its_header() -> None:
    document = book(("markdown", "text"), ("code", "x = 1"))
    found = export(document, name="n", format="myst")
    assert texts_of(read(found.content, name="page.md").document) == texts_of(document)


def test_a_cell_that_looks_like_a_mark_is_said() -> None:
    (notice,) = export(book(("code", "a\n# %% b\nc")), name="n", format="percent").notices
    assert "does not read back the same" in notice


def test_a_script_without_marks_is_one_cell() -> None:
    document = read(b"import os\n\nprint(1)\n", name="x.py").document
    assert texts_of(document) == [("code", "import os\n\nprint(1)")]
    assert read(b"let a = 1\n", name="a.mts").document.language == "typescript"


@pytest.mark.parametrize(
    "content",
    [
        "---\n" + "[" * 2_000 + "\n---\n\ntext\n",
        "---\nformat: [\n---\n\n```{code-cell}\n---\n{\n---\n```\n",
    ],
)
def test_a_broken_header_is_refused(content: str) -> None:
    with pytest.raises(NotebookFormatError, match=r"is not a myst notebook|nested too deeply"):
        read(content.encode(), name="x.md", format="myst")


def test_references_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    page = "---\n" + "\n".join(lines) + "\n---\n\ntext\n"
    with pytest.raises(NotebookFormatError, match="more than 10 references"):
        read(page.encode(), name="x.md", format="myst")


@settings(deadline=None, max_examples=50)
@given(st.lists(draft_cells(), max_size=5))
def test_a_plain_script_is_always_python_where_its_cells_are(cells: list[DraftCell]) -> None:
    document = document_of(Draft(tuple(cells)), max_cells=100)
    script = export(document, name="n\u2028n", format="script").content.decode()
    code = [cell.source for cell in cells if cell.kind == "code" and cell.language in {None, "python"}]
    if all(_parses(source) for source in code):
        assert _parses(script)
        assert [ast.dump(node) for node in ast.parse(script).body] == [
            ast.dump(node) for source in code for node in ast.parse(source.strip("\n")).body
        ]


def _parses(source: str) -> bool:
    try:
        ast.parse(source.strip("\n"))
    except (SyntaxError, ValueError):
        return False
    return True


def test_a_plain_script_keeps_code_and_makes_the_rest_comments() -> None:
    document = book(
        ("markdown", "# Title"),
        ("code", "%matplotlib inline\nx = 1\n!ls"),
        ("code", "%%time\nx"),
        ("code", 'text = """\n%not magic\n"""'),
        DraftCell("code", "select 1", language="sql"),
    )
    found = export(document, name="name", format="script")
    assert found.content.decode() == (
        "# # Title\n\n# %matplotlib inline\nx = 1\n# !ls\n\n# %%time\n# x\n\n"
        'text = """\n%not magic\n"""\n\n# A cell in sql:\n# select 1\n'
    )
    assert found.suffix == ".py"
    assert found.notices == ("Cells in sql are comments",)
    untitled = export(book(("code", "1")), name="name", format="script").content.decode()
    assert untitled == "# name\n\n1\n"


@pytest.mark.parametrize("form", ["script", "percent", "myst", "src.md", "markdown", "json", "ipynb"])
def test_a_format_that_holds_no_outputs_says_that_they_are_left_out(form: str) -> None:
    shown = [{"output_type": "stream", "name": "stdout", "text": "1"}]
    cell = DraftCell("code", "console.log(1)", outputs=shown)
    document = document_of(Draft((cell,), language="typescript"), max_cells=1)
    told = export(document, name="name", format=form).notices
    lost = form in {"script", "percent", "myst", "src.md"}
    assert (f"The output of 1 cell is left out: {form} holds none" in told) is lost
    without = export(document, name="name", format=form, include_outputs=False).notices
    assert not any("left out" in notice for notice in without)


def test_statements_of_an_sql_script_are_kept_apart() -> None:
    document = book(
        ("code", "select 1"), ("code", "select 2; "), ("code", "select 3 -- last"), language="sql"
    )
    script = export(document, name="n", format="script").content.decode()
    assert script == "-- n\n\nselect 1\n;\n\nselect 2; \n\nselect 3 -- last\n;\n"


def test_a_language_without_files_is_refused_with_the_way_out() -> None:
    for form in ("script", "percent"):
        with pytest.raises(NotebookFormatError, match="in klingon"):
            export(book(("code", "1"), language="klingon"), name="n", format=form)
