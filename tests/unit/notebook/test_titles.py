"""What a notebook is called, and what a new one begins with."""

from __future__ import annotations

import pytest

from cellwright.notebook import CellAdded, Document
from cellwright.notebook.document import retitled, title_of


def notebook(*texts: str) -> Document:
    document = Document.new()
    for number, text in enumerate(texts):
        document.apply(CellAdded(f"c{number}", "markdown", text, number))
    return document


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (("# Try the page",), "Try the page"),
        (("\n# **Bold** and `code` #\n\nMore",), "Bold and code"),
        (("Words before", "# Later"), "Later"),
        (("## Of the second rank",), None),
        (("#no heading",), None),
        ((), None),
        (("a", "b", "c", "# too far down"), None),
    ],
)
def test_a_notebook_is_called_by_the_heading_it_begins_with(
    texts: tuple[str, ...], title: str | None
) -> None:
    assert title_of(notebook(*texts)) == title


def test_a_new_title_stands_in_place_of_the_old_and_leaves_the_rest() -> None:
    document = notebook("# Old title\n\nWhat it is about")
    change = retitled(document, "New")
    assert change is not None
    document.apply(change)
    assert document.cells[0].source == "# New\n\nWhat it is about"
    assert retitled(notebook("no title"), "New") is None
