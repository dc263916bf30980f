"""What a notebook is called by people: the heading that it begins with. Pure."""

from __future__ import annotations

import re

from cellwright.notebook.document import Document, SourceChanged, change_source

__all__ = ["retitled", "title_of"]

# A notebook's title stands in one of its first cells, or nowhere.
_FIRST_CELLS = 3
_HEADING = re.compile(r"\s*# +(?P<title>\S[^\r\n]*?)(?: +#+)?[ \t]*(?=[\r\n]|\Z)")
_MARKS = re.compile(r"(\*\*|__|`)(.+?)\1")


def title_of(document: Document) -> str | None:
    """The first heading of the first rank that one of the first cells begins with; None where there is none."""
    found = _titled(document)
    return _MARKS.sub(r"\2", found[1]["title"]) if found is not None else None


def retitled(document: Document, title: str) -> SourceChanged | None:
    """The change that puts another title in the old one's place; None where the notebook has none."""
    found = _titled(document)
    if found is None:
        return None
    cell_id, heading = found
    source = document.cell(cell_id).source
    start, end = heading.span("title")
    return change_source(document, cell_id, f"{source[:start]}{title}{source[end:]}")


def _titled(document: Document) -> tuple[str, re.Match[str]] | None:
    for record in document.records[:_FIRST_CELLS]:
        cell = document.cell(record.id)
        heading = _HEADING.match(cell.source) if cell.kind == "markdown" else None
        if heading is not None:
            return cell.id, heading
    return None
