"""A notebook as Srcbook's ``.src.md``. What the format cannot hold is changed, and said; see srcmd for reading.

Only JavaScript and TypeScript can be cells there. Cells of other languages become fences in the text, further
headings of the first level go to the second, and headings of the sixth level, which name files, to the fifth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from cellwright.errors import NotebookFormatError
from cellwright.formats.encoding import encoded
from cellwright.formats.fences import fence_word, fenced
from cellwright.formats.model import Reading, Writing, Written
from cellwright.formats.srcmd import BETWEEN, LANGUAGES, PACKAGE, parse_srcmd
from cellwright.formats.srcmd_blocks import blocks_of
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import (
    cell_filename,
    cell_language,
    find_language,
    language_of_file,
    notebook_language,
    notebook_package,
    notebook_tsconfig,
    own_section,
)

__all__ = ["write_srcmd"]

_EMPTY_PACKAGE: dict[str, Any] = {"type": "module", "dependencies": {}}
_filename = re.compile(r"[\w@.+~()-]+")
_inline = re.compile(r"\s+")


def write_srcmd(document: Document, writing: Writing) -> Written:
    """The page.

    Raises:
        NotebookFormatError: the notebook is in another language.
    """
    main = notebook_language(document)
    if main not in LANGUAGES:
        raise NotebookFormatError(
            f"A Srcbook holds JavaScript or TypeScript, and this notebook is in {main}",
            hint="Export it as markdown",
        )
    about: dict[str, Any] = {"language": main}
    tsconfig = notebook_tsconfig(document)
    if tsconfig is not None and main == "typescript":
        source = own_section(document.metadata).get("tsconfig_source")
        about["tsconfig.json"] = _in_order(tsconfig, source)
    page = _Page(document)
    title, cells = page.title_and_rest(writing.name)
    parts = [
        f"<!-- srcbook:{_dumped(about)} -->",
        f"# {title}",
        f"###### {PACKAGE}\n\n{fenced(_package(document), 'json')}",
        *page.cells(cells),
    ]
    content, broken = encoded("\n\n".join(parts).rstrip() + "\n")
    return Written(content, (*broken, *page.notices, *_lost(content, page.texts)))


def _dumped(about: dict[str, Any]) -> str:
    """JSON as JavaScript writes it, which cannot end the comment that it stands in."""
    return json.dumps(about, ensure_ascii=False, separators=(",", ":")).replace("-->", "--\\u003e")


def _in_order(held: dict[str, Any], source: Any) -> dict[str, Any]:
    """An object with its keys in the order of its source, which is no longer true where the object was changed."""
    found = _parsed(source)
    return found if isinstance(found, dict) and found == held else held


def _package(document: Document) -> str:
    package = notebook_package(document)
    source = own_section(document.metadata).get("package_source")
    if package is None:
        package = _EMPTY_PACKAGE
    elif isinstance(source, str) and _parsed(source) == package:
        return source
    return json.dumps(package, ensure_ascii=False, indent=2)


def _parsed(source: Any) -> Any:
    try:
        return json.loads(source) if isinstance(source, str) else None
    except (ValueError, RecursionError):
        return None


class _Page:
    """The cells of a page, and what was changed in them."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._taken = {PACKAGE}
        self.notices: list[str] = []
        self.texts: list[tuple[str, str]] = []
        """What reading the page must give: kinds and sources."""

    def title_and_rest(self, name: str) -> tuple[str, list[Cell | str]]:
        """The title, and the cells without it; a text cell's rest is a text of its own."""
        cells: list[Cell | str] = list(self._document.cells)
        first = self._document.cells[0] if len(self._document) else None
        if first is not None and first.kind == "markdown":
            blocks = blocks_of(_line_ends(first.source))
            if blocks and blocks[0].kind == "title" and blocks[0].content:
                lines = _line_ends(first.source).split("\n")
                rest = "\n".join(lines[blocks[0].end - 1 :]).strip()
                return blocks[0].content, [*([rest] if rest else []), *cells[1:]]
        return _inline.sub(" ", name).strip() or "Notebook", cells

    def cells(self, cells: Sequence[Cell | str]) -> Iterator[str]:
        follows_text = False
        for number, cell in enumerate(cells, 1):
            source = cell if isinstance(cell, str) else cell.source
            is_code = not isinstance(cell, str) and cell.kind == "code"
            language = cell_language(self._document, cell) if not isinstance(cell, str) else ""
            if is_code and language in LANGUAGES and not isinstance(cell, str):
                self.texts.append(("code", source))
                yield f"###### {self._name(cell, language, number)}\n\n{fenced(source, language)}"
                follows_text = False
                continue
            if not isinstance(cell, str) and cell.kind != "markdown":
                self.notices.append(
                    f"The {language if is_code else 'raw'} cell {cell.id} is a block of the text"
                )
                source = fenced(source, fence_word(language) if is_code else "")
            text = self._plain(source)
            if not text:
                self.notices.append("An empty text cell is left out")
                continue
            self.texts.append(("markdown", text))
            if follows_text:
                yield BETWEEN
            yield text
            follows_text = True

    def _name(self, cell: Cell, language: str, number: int) -> str:
        """A file name of its own for every code cell, of which Srcbook tells the language."""
        wanted = cell_filename(cell)
        suffix = found.suffixes[0] if (found := find_language(language)) else ""
        fits = wanted and _filename.fullmatch(wanted) and language_of_file(wanted) == language
        stem = wanted if fits and wanted else f"cell-{number}{suffix}"
        chosen, attempt = stem, 1
        while chosen in self._taken:
            attempt += 1
            chosen = f"{stem.removesuffix(suffix)}-{attempt}{suffix}"
        if wanted and chosen != wanted:
            self.notices.append(f"The file {wanted!r} is called {chosen!r}")
        self._taken.add(chosen)
        return chosen

    def _plain(self, source: str) -> str:
        """A text without headings that mean something else in a Srcbook."""
        text = _line_ends(source).strip()
        lines = text.split("\n")
        for block in reversed(blocks_of(text)):
            if block.kind in {"title", "filename"}:
                level = "##" if block.kind == "title" else "#####"
                lines[block.line - 1 : block.end - 1] = [f"{level} {block.content}".rstrip()]
                self.notices.append(f"The heading {block.content!r} is now one of level {len(level)}")
        return "\n".join(lines).strip()


def _lost(content: bytes, expected: list[tuple[str, str]]) -> tuple[str, ...]:
    """Whether the page reads back: a text with half a fence or comment swallows what follows it."""
    try:
        found = parse_srcmd(content.decode(), Reading("page", len(expected) + 1))
    except NotebookFormatError as error:
        return (f"The page cannot be read back: {error.message}",)
    if [(cell.kind, cell.source) for cell in found.cells] != expected:
        return (
            "The page does not read back as the same cells: a text cell holds Markdown that is not closed",
        )
    return ()


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
