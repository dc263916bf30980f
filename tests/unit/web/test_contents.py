"""A notebook's headings."""

from __future__ import annotations

from cellwright.notebook import Document
from cellwright.notebook.document import CellAdded
from cellwright.web.panels.contents import headings_of


def test_headings_are_those_of_text_cells_outside_of_code() -> None:
    document = Document.new()
    text = "# One *and* only #\n```\n# no heading\n```\ntext\n### [Three](http://x)\n#no\n"
    document.apply(CellAdded("t", "markdown", text, 0))
    document.apply(CellAdded("c", "code", "# a comment", 1))
    found = [(one.cell_id, one.level, one.text) for one in headings_of(document.cells)]
    assert found == [("t", 1, "One and only"), ("t", 3, "Three")]
