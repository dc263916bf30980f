"""Jupyter's own format, which is what documents are made of, and documents without their outputs."""

from __future__ import annotations

from cellwright.formats.model import Imported, Reading, Writing, Written, check_size
from cellwright.notebook import Document, OutputsSet

__all__ = ["read_ipynb", "without_outputs", "write_ipynb"]


def write_ipynb(document: Document, writing: Writing) -> Written:  # noqa: ARG001  # every writer is called alike
    return Written(document.to_bytes())


def read_ipynb(content: bytes, reading: Reading) -> Imported:
    """A document as it stands in its file.

    Raises:
        NotebookFormatError: it is not a notebook that this version reads.
        TooManyCells: there are more than a notebook may hold.
    """
    document = Document.from_bytes(content, name=reading.name)
    check_size(len(document), max_cells=reading.max_cells)
    return Imported(document, notices=document.repairs)


def without_outputs(document: Document) -> Document:
    """A copy that was never run."""
    bare = document.copy()
    for cell in document.cells:
        if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
            bare.apply(OutputsSet(cell.id, [], None))
    return bare
