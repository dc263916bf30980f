"""Srcbook's ``.src.md``, read: a Markdown page whose sixth-level headings name files of JavaScript or TypeScript.

::

    <!-- srcbook:{"language":"typescript","tsconfig.json":{…}} -->

    # The title

    ###### package.json     a fence of JSON, at most once
    ###### a.ts             a fence of code, or a link to the file
    any other text          a text cell

The title stays a text cell, the package and the compiler options go to the notebook's metadata. Writing is beside it
(see srcbook).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cellwright.errors import NotebookFormatError
from cellwright.formats.model import (
    Draft,
    DraftCell,
    Imported,
    Reading,
    Writing,
    Written,
    at_line,
    decoded,
    document_of,
    encoded,
    fence_word,
    fenced,
)
from cellwright.notebook import Cell, Document
from cellwright.notebook.cells import own_section
from cellwright.notebook.languages import BOOK_KEYS, find_language, language_of_file

__all__ = ["read_srcmd", "write_srcmd"]
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


# A notebook as Srcbook's ``.src.md``. What the format cannot hold is changed, and said; see srcmd for
# reading.

_EMPTY_PACKAGE: dict[str, Any] = {"type": "module", "dependencies": {}}

_filename = re.compile(r"[\w@.+~()-]+")

_inline = re.compile(r"\s+")


def write_srcmd(document: Document, writing: Writing) -> Written:
    """The page.

    Raises:
        NotebookFormatError: the notebook is in another language.
    """
    main = document.language
    if main not in LANGUAGES:
        raise NotebookFormatError(
            f"A Srcbook holds JavaScript or TypeScript, and this notebook is in {main}",
            hint="Export it as markdown",
        )
    about: dict[str, Any] = {"language": main}
    tsconfig = document.tsconfig
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
    package = document.package
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
            language = self._document.language_of(cell) if not isinstance(cell, str) else ""
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
        wanted = cell.filename
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


# The blocks of a ``.src.md`` page, found as Srcbook finds them: top-level headings, code, links and all
# else. Pure.

BlockKind: TypeAlias = Literal["title", "filename", "code", "link", "comment", "text"]

_link = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]*)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block: its first line, from 1, the line after its last, and what it says."""

    kind: BlockKind
    line: int
    end: int
    content: str
    """A heading's text, the code of a code block, a link's target, or the raw lines."""


def blocks_of(text: str) -> list[Block]:
    """Every top-level block of a page, in order."""
    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").parse(text)
    return [
        _block(token, tokens, place, lines)
        for place, token in enumerate(tokens)
        if token.level == 0 and token.map is not None and token.nesting >= 0
    ]


def _block(token: Token, tokens: Sequence[Token], place: int, lines: Sequence[str]) -> Block:
    first, end = token.map or [0, 0]
    raw = "\n".join(lines[first:end])
    kind, content = _meaning(token, tokens, place, raw)
    return Block(kind, first + 1, end + 1, content)


def _meaning(token: Token, tokens: Sequence[Token], place: int, raw: str) -> tuple[BlockKind, str]:
    match token.type, token.tag:
        case "heading_open", "h1":
            return "title", tokens[place + 1].content
        case "heading_open", "h6":
            return "filename", tokens[place + 1].content
        case "fence" | "code_block", _:
            return "code", token.content.removesuffix("\n")
        case "html_block", _:
            return "comment", raw
        case "paragraph_open", _ if found := _link.fullmatch(raw.strip()):
            return "link", found["target"]
        case _:
            return "text", raw
