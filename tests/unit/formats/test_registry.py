"""The table of formats: found by name, by file, by content; what is missing is said."""

from __future__ import annotations

import sys

import pytest

from cellwright.errors import MissingExtra, NotebookFormatError
from cellwright.formats import Format, every_format, export, format_of_file, missing_extra, read
from tests.support.formats.books import book, texts_of


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("a.ipynb", "ipynb"),
        ("a.src.md", "src.md"),
        ("a.MD", "markdown"),
        ("a.myst.md", "myst"),
        ("a.R", "percent"),
        ("a.ts", "percent"),
        ("a.docx", None),
    ],
)
def test_a_file_is_of_the_format_with_the_longest_suffix(filename: str, name: str | None) -> None:
    found = format_of_file(filename)
    assert (found.name if found is not None else None) == name


@pytest.mark.parametrize("name", [one.name for one in every_format() if one.read is not None])
def test_every_format_that_is_read_reads_what_it_writes(name: str) -> None:
    document = book(("markdown", "# Title"), ("code", "let a = 1"), language="typescript")
    found = export(document, name="Title", format=name)
    again = texts_of(read(found.content, name=f"x{found.suffix}", format=name).document)
    assert ("code", "let a = 1") in again or name == "script"


def test_content_without_a_telling_name_is_known_by_how_it_begins() -> None:
    assert texts_of(read(b'  [{"content": "1"}]', name="stdin").document) == [("code", "1")]
    assert texts_of(read(b"```python\n1\n```", name="stdin").document) == [("code", "1")]


def test_a_file_that_does_not_tell_its_format_is_not_taken_for_text() -> None:
    assert texts_of(read(b"# Title", name="notes.txt").document) == [("markdown", "# Title")]
    with pytest.raises(NotebookFormatError, match="does not tell its format"):
        read(b"PAR1", name="data.parquet")


def test_a_format_that_is_not_read_says_which_are() -> None:
    with pytest.raises(NotebookFormatError, match="not read from it") as caught:
        read(b"%PDF", name="a.pdf")
    assert "markdown" in (caught.value.hint or "")


def test_a_missing_library_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(MissingExtra, match="needs jupytext") as caught:
        export(book(("code", "1")), name="n", format="percent")
    assert caught.value.hint == "pip install 'cellwright[export]'"


def test_an_enormous_file_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellwright.formats.model.MAX_BYTES", 10)
    with pytest.raises(NotebookFormatError, match="at most 10 are read"):
        read(b"# a long page", name="x.md")


def test_a_format_without_its_libraries_names_the_extra_before_anybody_asks_for_it() -> None:
    assert [one.name for one in every_format() if missing_extra(one) is not None] == []
    written = every_format()[0].write
    assert (
        missing_extra(
            Format("odt", "application/odt", (".odt",), written, extra="export", needs=("no_such_one",))
        )
        == "export"
    )
