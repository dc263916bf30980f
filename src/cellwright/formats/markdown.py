"""A notebook as a Markdown page that a forge shows well and that is read back without loss.

Code stands in fences of each cell's own language, outputs below it as fences, tables and pictures. Comments, which a
forge does not show, hold what Markdown has no word for (see marks). Reading is beside it (see markdown_reading).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cellwright.formats.encoding import encoded
from cellwright.formats.fences import fence_word, fenced
from cellwright.formats.marks import choose_word, head_line, mark_line
from cellwright.formats.model import Writing, Written
from cellwright.formats.shown import blocks_of
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import (
    BOOK_KEYS,
    canonical_language,
    cell_filename,
    cell_language,
    notebook_language,
    own_section,
)

__all__ = ["cell_about", "kept_metadata", "write_markdown"]

_VERSION = 1
# Told in other words, or true only of the run that wrote them.
_NOT_KEPT = frozenset({"cellwright", "tags", "vscode", "execution", "ExecuteTime", "papermill", "collapsed"})


def write_markdown(document: Document, writing: Writing) -> Written:
    """The page, and its pictures where there is a directory for them."""
    gallery = _Gallery(writing.files_at)
    main = notebook_language(document)
    shown: dict[str, str] = {}
    for number, cell in enumerate(document.cells, 1):
        gallery.begin(number)
        shown[cell.id] = "\n\n".join(blocks_of(cell.outputs, gallery.place))
    word = choose_word([*(cell.source for cell in document.cells), *shown.values()])
    parts = [head_line(_head(document, writing.name, word))]
    for cell in document.cells:
        parts.append(mark_line(word, cell.kind, cell_about(cell, main)))
        parts.append(_body(document, cell))
        if shown[cell.id]:
            parts += [mark_line(word, "output"), shown[cell.id], mark_line(word, "end")]
    content, notices = encoded("\n\n".join(parts) + "\n")
    return Written(content, (*notices, *gallery.notices, *_attachments(document)), gallery.files)


def _head(document: Document, name: str, word: str) -> dict[str, Any]:
    main = notebook_language(document)
    spec = document.metadata.get("kernelspec")
    own = own_section(document.metadata)
    about: dict[str, Any] = {"version": _VERSION, "language": main, "name": name}
    if word != "cell":
        about["mark"] = word
    if main != "python" and isinstance(spec, Mapping):
        about["kernelspec"] = dict(spec)
    return about | {key: own[key] for key in BOOK_KEYS if key in own}


def _body(document: Document, cell: Cell) -> str:
    match cell.kind:
        case "code":
            return fenced(cell.source, fence_word(cell_language(document, cell)))
        case "raw":
            return fenced(cell.source, "raw")
        case "markdown":
            return cell.source


def cell_about(cell: Cell, main: str) -> dict[str, Any]:
    """What a page says of a cell besides its kind, its source and, mostly, its language, which the fence names."""
    about: dict[str, Any] = {"id": cell.id}
    if cell.language:
        language = canonical_language(cell.language)
        if cell.kind != "code" or language == main or not fence_word(language):
            about["language"] = language
    if (filename := cell_filename(cell)) is not None:
        about["filename"] = filename
    if tags := [str(tag) for tag in cell.tags]:
        about["tags"] = tags
    if metadata := kept_metadata(cell.metadata):
        about["metadata"] = metadata
    return about


def kept_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What other programs wrote about a cell that is true of its text, not of one run."""
    return {key: value for key, value in metadata.items() if key not in _NOT_KEPT}


def _attachments(document: Document) -> tuple[str, ...]:
    with_some = [record.id for record in document.records if record.fields.get("attachments")]
    if not with_some:
        return ()
    return (f"Pictures attached to text cells are not in the page: {', '.join(with_some)}",)


class _Gallery:
    """Where pictures go: files of a directory beside the page, or nowhere."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._cell = 0
        self._lost = 0
        self.files: dict[str, bytes] = {}

    def begin(self, cell: int) -> None:
        self._cell = cell

    def place(self, suffix: str, content: bytes) -> str | None:
        if self._directory is None:
            self._lost += 1
            return None
        number = 1 + sum(name.startswith(f"{self._directory}/cell-{self._cell}-") for name in self.files)
        name = f"{self._directory}/cell-{self._cell}-{number}{suffix}"
        self.files[name] = content
        return quote(name)

    @property
    def notices(self) -> tuple[str, ...]:
        if not self._lost:
            return ()
        return (f"{self._lost} pictures are named in words; written to a file, the page has them beside it",)
