"""Markdown pages: ours come back as they were, anybody's by their fences."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings

from cellwright.errors import NotebookFormatError
from cellwright.formats import export, read
from cellwright.formats.model import DraftCell
from cellwright.notebook import Document, OutputsSet
from cellwright.notebook.cells import own_section
from tests.support.formats.books import book, cells_of, documents, texts_of

PNG = b"\x89PNG\r\n\x1a\nnot really"


@settings(deadline=None, max_examples=60)
@given(documents())
def test_a_page_gives_back_every_cell(document: Document) -> None:
    page = export(document, name="any -->\n name", format="markdown").content
    again = read(page, name="page.md")
    assert cells_of(again.document) == cells_of(document)
    assert [dict(cell.metadata) for cell in again.document.cells] == [
        dict(cell.metadata) for cell in document.cells
    ]
    assert again.document.language == document.language
    assert own_section(again.document.metadata) == own_section(document.metadata)
    assert again.title == "any -->\n name"
    assert export(again.document, name=again.title, format="markdown").content == page


@settings(deadline=None, max_examples=40)
@given(documents())
def test_a_page_that_git_gave_other_line_ends_is_read_too(document: Document) -> None:
    if any("\r" in cell.source for cell in document.cells):
        return
    page = export(document, name="n", format="markdown").content.replace(b"\n", b"\r\n")
    assert cells_of(read(page, name="page.md").document) == cells_of(document)


def _with_outputs() -> Document:
    document = book(("markdown", "# T"), ("code", "show()"), ("code", "2"))
    html = '<table class="dataframe"><thead><tr><th></th><th>a|b</th></tr></thead><tr><th>0</th><td><b>1</b></td></tr></table>'
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "\x1b[31mred\x1b[0m\n```\n"},
        {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/html": html}},
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {
                "image/png": base64.b64encode(PNG).decode(),
                "text/plain": "<Figure size 1x1 with 0 Axes>",
            },
        },
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["<!-- cell:end -->"]},
    ]
    document.apply(OutputsSet(document.cells[1].id, outputs, 1))
    return document


def test_outputs_stand_below_their_cell_and_are_not_read_back() -> None:
    document = _with_outputs()
    found = export(document, name="n", format="markdown", files_at="page_files")
    page = found.content.decode()
    assert "```python\nshow()\n```" in page
    assert "````text\nred\n```\n````" in page
    assert "|  | a\\|b |\n|---|---|\n| 0 | 1 |" in page
    assert "![output](page_files/cell-2-1.png)" in page
    assert found.files == {"page_files/cell-2-1.png": PNG}
    assert cells_of(read(found.content, name="x.md").document) == cells_of(document)


def test_a_page_alone_names_its_pictures_in_words() -> None:
    found = export(_with_outputs(), name="n", format="markdown")
    assert "*a picture (image/png, 18 bytes), which is not in this text*" in found.content.decode()
    assert found.notices == ("1 pictures are named in words; written to a file, the page has them beside it",)


@pytest.mark.parametrize("held", ["a", "\x80", "\udc80"])
def test_a_picture_that_is_no_base64_is_told_as_broken(held: str) -> None:
    document = book(("code", "show()"))
    output = {"output_type": "display_data", "metadata": {}, "data": {"image/png": held}}
    document.apply(OutputsSet(document.cells[0].id, [output], 1))
    page = export(document, name="n", format="markdown").content
    assert b"*a broken picture (image/png)*" in page


def test_a_page_without_outputs_has_none() -> None:
    page = export(_with_outputs(), name="n", format="markdown", include_outputs=False).content.decode()
    assert ":output" not in page
    assert "red" not in page


def test_every_fence_names_the_language_of_its_cell() -> None:
    document = book(("code", "x = 1"), DraftCell("code", "select 1", language="sql"), language="python")
    page = export(document, name="n", format="markdown").content.decode()
    assert "```python\nx = 1\n```" in page
    assert "```sql\nselect 1\n```" in page


def test_what_a_person_adds_to_a_page_of_ours_is_kept() -> None:
    page = export(_with_outputs(), name="n", format="markdown").content.decode()
    page = page.replace("<!-- cell2:end -->\n", "<!-- cell2:end -->\n\nAdded\n\n```python\n3\n```\n", 1)
    page += "\n<!-- cell2:code -->\n```sql\nselect 4\n```\n"
    again = read(page.encode(), name="page.md").document
    assert texts_of(again) == [
        ("markdown", "# T"),
        ("code", "show()"),
        ("markdown", "Added"),
        ("code", "3"),
        ("code", "2"),
        ("code", "select 4"),
    ]
    assert again.cells[-1].language == "sql"


def test_a_plain_page_becomes_text_and_code() -> None:
    page = b"# Title\n\nIntro\n\n```python\nx = 1\n```\n\n```output\n1\n```\n\n```bash\nls\n```\n"
    found = read(page, name="page.md")
    assert found.title == "Title"
    assert texts_of(found.document) == [
        ("markdown", "# Title\n\nIntro"),
        ("code", "x = 1"),
        ("markdown", "```bash\nls\n```"),
    ]


def test_commands_for_the_shell_do_not_make_a_page_a_shells() -> None:
    page = b"```bash\npip install x\n```\n\n```ts\nlet a = 1\n```\n\n```js\na\n```\n"
    found = read(page, name="readme.md").document
    assert found.language == "typescript"
    assert [(cell.kind, cell.language) for cell in found.cells] == [
        ("markdown", None),
        ("code", None),
        ("code", "javascript"),
    ]


def test_a_comment_in_code_is_no_title() -> None:
    assert read(b"```python\n# not a title\n```\n\ntext\n", name="x.md").title is None


def test_front_matter_of_a_plain_page_is_kept_apart() -> None:
    found = read(b"---\ntitle: x\n---\n\nText\n", name="x.md").document
    assert texts_of(found) == [("raw", "---\ntitle: x\n---"), ("markdown", "Text")]


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (
            b'<!-- cellwright:notebook {"version":1} -->\n\n<!-- cell:code -->\n\ntext\n',
            "line 3: the code cell's mark",
        ),
        (
            b'<!-- cellwright:notebook {"version":1} -->\n\n<!-- cell:raw -->\n\n```\nx\n',
            "line 5: the code block is never",
        ),
        (
            b'<!-- cellwright:notebook {"version":1} -->\n\n<!-- cell:code {"id"} -->\n\n```\n```\n',
            "line 3: the comment's JSON",
        ),
        (b"<!-- cellwright:notebook {1} -->\n", "line 1: the comment's JSON"),
        (b"one\ntwo \xff three", "line 2: byte 0xff is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a binary file"),
    ],
)
def test_a_broken_page_says_where_and_why(page: bytes, complaint: str) -> None:
    with pytest.raises(NotebookFormatError, match=complaint):
        read(page, name="page.md")


def test_a_page_of_a_million_opened_fences_is_read_in_a_moment() -> None:
    assert len(read(b"```a\n" * 200_000, name="page.md").document) == 1
