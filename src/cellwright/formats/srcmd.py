"""Srcbook's ``.src.md``, read: a Markdown page whose sixth-level headings name files of JavaScript or TypeScript.

::

    <!-- srcbook:{"language":"typescript","tsconfig.json":{…}} -->

    # The title

    ###### package.json     a fence of JSON, at most once
    ###### a.ts             a fence of code, or a link to the file
    any other text          a text cell

The title stays a text cell, the package and the compiler options go to the notebook's metadata. Writing is beside it
(see srcmd_writing).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cellwright.formats.encoding import at_line, decoded
from cellwright.formats.model import Draft, DraftCell, Imported, Reading, document_of
from cellwright.formats.srcmd_blocks import Block, blocks_of
from cellwright.notebook.languages import BOOK_KEYS, language_of_file

__all__ = ["BETWEEN", "LANGUAGES", "PACKAGE", "Srcbook", "parse_srcmd", "read_srcmd"]

PACKAGE = "package.json"
LANGUAGES = ("javascript", "typescript")
"""What a Srcbook can be written in."""
BETWEEN = "<!-- cell -->"
"""Stands between two text cells, which would be one otherwise; Srcbook shows nothing of it."""
_TSCONFIG = "tsconfig.json"
_about = re.compile(r"<!--\s*srcbook:(?P<json>.+?)\s*-->", re.DOTALL)
_blank_lines = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Srcbook:
    """A page taken apart. The title is not among the cells."""

    title: str
    language: str
    cells: tuple[DraftCell, ...]
    tsconfig: dict[str, Any] | None = None
    package: dict[str, Any] | None = None
    tsconfig_source: str | None = None
    package_source: str | None = None
    notices: tuple[str, ...] = ()


def read_srcmd(content: bytes, reading: Reading) -> Imported:
    """A notebook from a Srcbook.

    Raises:
        NotebookFormatError: the page is not as Srcbook writes it; with its line.
        TooManyCells: there are more cells than a notebook may hold.
    """
    book = parse_srcmd(decoded(content, reading.name), reading)
    own = {key: held for key in BOOK_KEYS if (held := getattr(book, key)) is not None}
    draft = Draft(
        (DraftCell("markdown", f"# {book.title}"), *book.cells),
        book.title,
        book.language,
        {"cellwright": own} if own else {},
    )
    return Imported(document_of(draft, max_cells=reading.max_cells), book.title, book.notices)


def parse_srcmd(text: str, reading: Reading) -> Srcbook:
    """Take a page apart.

    Raises:
        NotebookFormatError: the page is not as Srcbook writes it; with its line.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    blocks = blocks_of(text)
    language, tsconfig, blocks = _metadata(blocks, reading.name)
    title = _title(blocks, reading.name)
    parts = _Parts(lines, language, reading)
    parts.read(blocks)
    return Srcbook(
        title,
        language,
        tuple(parts.cells),
        tsconfig,
        parts.package,
        json.dumps(tsconfig, ensure_ascii=False) if tsconfig is not None else None,
        parts.package_source,
        tuple(parts.notices),
    )


def _metadata(blocks: list[Block], name: str) -> tuple[str, dict[str, Any] | None, list[Block]]:
    """The language and the compiler options, and the blocks without the comment that holds them."""
    for place, block in enumerate(blocks):
        found = _about.fullmatch(block.content.strip()) if block.kind == "comment" else None
        if found is None:
            continue
        about = _json(found["json"], block.line, "the srcbook comment", name)
        language = about.get("language")
        if language not in LANGUAGES:
            raise at_line(
                block.line, f"the language is {language!r}, not {' or '.join(LANGUAGES)}", name=name
            )
        tsconfig = about.get(_TSCONFIG)
        if tsconfig is not None and not isinstance(tsconfig, dict):
            raise at_line(block.line, f"{_TSCONFIG} is not an object", name=name)
        return str(language), tsconfig, blocks[:place] + blocks[place + 1 :]
    raise at_line(
        1,
        'there is no srcbook comment, as <!-- srcbook:{"language":"typescript"} -->',
        name=name,
        hint="Give format='markdown' for any other Markdown page",
    )


def _title(blocks: list[Block], name: str) -> str:
    titles = [block for block in blocks if block.kind == "title"]
    if not titles:
        raise at_line(1, "there is no title, a heading of the first level", name=name)
    if blocks[0].kind != "title":
        raise at_line(blocks[0].line, "something stands before the title", name=name)
    if len(titles) > 1:
        problem = f"{titles[1].content!r} is a second heading of the first level"
        raise at_line(titles[1].line, problem, name=name, hint="Make it a heading of the second level")
    return titles[0].content


class _Parts:
    """Cells in the order of the page. Every line below the title is a file's or a text's."""

    def __init__(self, lines: list[str], language: str, reading: Reading) -> None:
        self._lines = lines
        self._main = language
        self._reading = reading
        self.cells: list[DraftCell] = []
        self.package: dict[str, Any] | None = None
        self.package_source: str | None = None
        self.notices: list[str] = []

    def read(self, blocks: list[Block]) -> None:
        """Take in the blocks from the title on."""
        begun, text, place = blocks[0].end, list[Block](), 1
        while place < len(blocks):
            block = blocks[place]
            if block.kind != "filename":
                text.append(block)
                place += 1
                continue
            self._text(text, begun, block.line)
            following = blocks[place + 1] if place + 1 < len(blocks) else None
            if following is None or following.kind not in {"code", "link"}:
                problem = f"'###### {block.content}' is followed by no code block"
                raise at_line(block.line, problem, name=self._reading.name)
            self._file(block, following)
            begun, text = following.end, []
            place += 2
        self._text(text, begun, len(self._lines) + 1)

    def _file(self, heading: Block, block: Block) -> None:
        filename, source = heading.content, block.content
        if block.kind == "link":
            source = self._linked(filename, block)
        if filename == PACKAGE:
            if self.package is not None:
                raise at_line(heading.line, f"there is a second {PACKAGE}", name=self._reading.name)
            fenced = self._lines[block.line - 1].lstrip().startswith(("```", "~~~"))
            self.package = _json(source, block.line + fenced, PACKAGE, self._reading.name)
            self.package_source = source
            return
        language = language_of_file(filename)
        if language not in LANGUAGES:
            known = "a name that ends in .ts, .mts, .cts, .js, .mjs or .cjs"
            raise at_line(heading.line, f"{filename!r} is not {known}", name=self._reading.name)
        own = language if language != self._main else None
        self.cells.append(DraftCell("code", source, language=own, filename=filename))

    def _linked(self, filename: str, block: Block) -> str:
        found = self._reading.find_file(block.content)
        if found is None:
            self.notices.append(
                f"line {block.line}: {filename} is a link to {block.content}, which was not to be had"
            )
            return "{}" if filename == PACKAGE else ""
        return decoded(found, block.content).replace("\r\n", "\n")

    def _text(self, blocks: list[Block], begun: int, end: int) -> None:
        """The text cells of these lines; ``begun`` and ``end`` are numbers from 1."""
        between = [block for block in blocks if block.kind == "comment" and block.content.strip() == BETWEEN]
        for block in (*between, None):
            inside = [one for one in blocks if begun <= one.line < (block.line if block else end)]
            source = "".join(self._pieces(inside, begun, block.line if block else end)).strip()
            if source:
                self.cells.append(DraftCell("markdown", source))
            begun = block.end if block else end

    def _pieces(self, blocks: list[Block], begun: int, end: int) -> Iterator[str]:
        """The lines with at most one that is blank in a row, except within code: as Srcbook does it."""
        before = ""
        for block in (block for block in blocks if block.kind == "code"):
            yield _blank_lines.sub("\n\n", before + self._raw(begun, block.line))
            yield self._raw(block.line, block.end).removesuffix("\n")
            # The end of the code's last line counts among the blank ones that follow.
            before, begun = "\n", block.end
        yield _blank_lines.sub("\n\n", before + self._raw(begun, end))

    def _raw(self, begun: int, end: int) -> str:
        return "".join(f"{line}\n" for line in self._lines[begun - 1 : end - 1])


def _json(text: str, line: int, what: str, name: str) -> dict[str, Any]:
    try:
        held = json.loads(text)
    except json.JSONDecodeError as error:
        raise at_line(line + error.lineno - 1, f"{what} is not JSON: {error.msg}", name=name) from error
    except (ValueError, RecursionError) as error:
        raise at_line(line, f"{what} cannot be read as JSON: {error}", name=name) from error
    if not isinstance(held, dict):
        raise at_line(line, f"{what} is not an object", name=name)
    return held
