"""A format: the headings of a notebook, and a notebook from headings."""

from __future__ import annotations

from cellwright.formats import Format, Imported
from cellwright.formats.model import Reading, Writing, Written
from cellwright.notebook import CellAdded, Document

CELLWRIGHT_API = 1


def write_outline(document: Document, writing: Writing) -> Written:
    """The headings of a notebook."""
    lines = [line for cell in document.cells if cell.kind == "markdown" for line in cell.source.splitlines()]
    return Written("".join(f"{line}\n" for line in lines if line.startswith("#")).encode())


def read_outline(content: bytes, reading: Reading) -> Imported:
    """A notebook with a cell for each heading."""
    document = Document.new(language=reading.language)
    for number, line in enumerate(content.decode().splitlines()):
        document.apply(CellAdded(f"heading-{number}", "markdown", line, number))
    return Imported(document)


OUTLINE = Format("outline", "text/plain", (".outline",), write_outline, read_outline, outputs=False)
