"""A notebook as PDF, by typst: no browser, no LaTeX, nothing fetched, and the same bytes for the same notebook.

What is printed is decided in ``pdf``; here it is compiled, with what can go wrong there: pictures that typst
cannot read, and letters that no font has.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright.errors import NotebookError
from cellwright.formats._pdf_prose import Node, ProseSetter, formula_node, grid_of, reads_from_right, set_grid
from cellwright.formats.certificates import CellStanding, cell_standing, notebook_notes
from cellwright.formats.display_data import (
    PICTURES,
    SVG,
    Exhibit,
    attached_pictures,
    bare_text,
    cut_text,
    exhibits_of,
    picture_bytes,
    sound,
    svg_text,
)
from cellwright.formats.markup import MAX_CHARACTERS, elements, parse_html, text_in
from cellwright.formats.model import Writing, Written
from cellwright.formats.prose import bare_latex
from cellwright.notebook import Cell, Document
from cellwright.notebook.widgets import with_widgets_as_text

__all__ = ["Pdf", "missing_glyphs", "to_pdf", "write_pdf"]
_TEMPLATE = Path(__file__).parent / "templates" / "notebook.typ"

_PICTURE = b"#set page(width: auto, height: auto)\n#image(sys.inputs.file)"

_SHOWN_CHARACTERS = 12


class PrintFailed(NotebookError):
    """Typst could not make pages of a notebook."""

    code = "print_failed"


@dataclass(frozen=True, slots=True)
class Pdf:
    """A print, and what is not in it as it is in the notebook."""

    content: bytes
    notices: tuple[str, ...]


def to_pdf(document: Document, *, name: str, include_outputs: bool = True) -> Pdf:
    """A notebook as PDF; ``name`` is its title where it has none of its own.

    Raises:
        ImportError: a library of the extra ``export`` is not installed.
        PrintFailed: typst refused it.
    """
    import typst  # an extra

    book = set_book(document, name=name, include_outputs=include_outputs)
    notices = [*book.notices, *_undrawn(book)]
    with tempfile.TemporaryDirectory(prefix="cellwright-print-") as directory:
        root = Path(directory)
        for file, data in book.files.items():
            (root / file).write_bytes(data)
        (root / "notebook.typ").write_bytes(_TEMPLATE.read_bytes())
        try:
            return Pdf(_compiled(root, book.tree), tuple(notices))
        except typst.TypstError as error:
            broken = {file for file in book.files if not _readable(root, file)}
            if not broken:
                raise PrintFailed(
                    f"Typst cannot print this notebook: {error}", hint="Export it as html"
                ) from error
        pictures = f"{len(broken)} picture{'s' * (len(broken) != 1)}"
        notices.append(f"{pictures} cannot be read, and a note stands in the place of each")
        return Pdf(_compiled(root, _without(book.tree, broken)), tuple(notices))


def write_pdf(document: Document, writing: Writing) -> Written:
    """The format ``pdf``."""
    printed = to_pdf(document, name=writing.name)
    return Written(printed.content, printed.notices)


def _compiled(root: Path, tree: Any) -> bytes:
    import typst  # an extra, checked by the caller

    (root / "book.json").write_text(json.dumps(tree, ensure_ascii=False))
    return typst.compile(root / "notebook.typ", root=root)


def _readable(root: Path, file: str) -> bool:
    import typst  # an extra, checked by the caller

    main = root / "picture.typ"
    main.write_bytes(_PICTURE)
    try:
        typst.compile(main, root=root, sys_inputs={"file": file}, format="svg")
    except typst.TypstError:
        return False
    return True


def _without(node: Any, broken: set[str]) -> Any:
    """The same tree with notes in the place of some pictures."""
    if isinstance(node, list):
        return [_without(one, broken) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("t") == "picture" and node["file"] in broken:
        return {"t": "note", "v": "[a picture that cannot be read]"}
    return {key: _without(value, broken) for key, value in node.items()}


def _undrawn(book: Book) -> Iterable[str]:
    """What to say about letters that come out as empty boxes."""
    unusual = unusual_characters(texts_of(book.tree))
    missing = missing_glyphs(unusual) if unusual else []
    if not missing:
        return
    shown = " ".join(missing[:_SHOWN_CHARACTERS]) + (" …" if len(missing) > _SHOWN_CHARACTERS else "")
    yield (
        f"No font on this machine has {len(missing)} of the characters, which are printed as empty boxes: {shown}. "
        "Install a font that has them (Debian: fonts-noto-cjk, fonts-noto-color-emoji, fonts-noto-core)"
    )


# A notebook as data for print: the tree that ``templates/notebook.typ`` lays out, and the pictures beside
# it.

# Colouring is slow for long texts, which are data anyway; beyond the second number nobody reads on paper.
_COLOURED_CHARACTERS = 60_000

_CODE_CHARACTERS = 400_000

_LONG = re.compile(r"\S{18}")

# What is in the tree and does not come to the page as letters.
_UNSEEN = frozenset({"svg", "alt", "url", "lang", "file", "t"})


@dataclass(frozen=True, slots=True)
class Book:
    """What is to be printed."""

    tree: dict[str, Any]
    files: dict[str, bytes]
    notices: tuple[str, ...]


def set_book(document: Document, *, name: str, include_outputs: bool) -> Book:
    """A notebook ready to be printed."""
    album = Album()
    prose = ProseSetter(album.from_link)
    outputs = OutputSetter(album, prose)
    language = document.language
    blocks: list[Node] = []
    for place, (cell, record) in enumerate(zip(document.cells, document.records, strict=True), 1):
        if cell.kind == "markdown":
            blocks += prose.blocks(sound(cell.source), attached_pictures(record.fields.get("attachments")))
        elif cell.kind == "raw":
            blocks += [{"t": "code", "v": sound(cell.source)[:_CODE_CHARACTERS], "lang": None}]
        else:
            called = f"Cell [{cell.execution_count}]" if cell.execution_count else f"Cell {place}"
            shown = (
                exhibits_of(with_widgets_as_text(cell.outputs, document.metadata)) if include_outputs else []
            )
            nodes = [node for one in shown for node in outputs.nodes(one, cell=called)]
            blocks += _input(cell, cell_standing(cell, language), outputs.notices, sticky=bool(nodes))
            blocks += nodes
    for block in blocks:
        _mark_long(block)
    title = prose.titles[0] if prose.titles else sound(name)
    tree = {
        "title": title,
        "titled": bool(prose.titles),
        "rtl": reads_from_right(title),
        "name": sound(name),
        "notes": [{"tone": note.tone, "text": note.text} for note in notebook_notes(document)],
        "blocks": blocks,
    }
    return Book(tree, album.files, tuple(dict.fromkeys([*prose.notices, *outputs.notices])))


def _input(cell: Cell, standing: CellStanding, notices: list[str], *, sticky: bool) -> list[Node]:
    source = sound(cell.source).strip("\n").expandtabs(4)
    if not source.strip():
        return []
    if len(source) > _CODE_CHARACTERS:
        notices.append(
            f"Cell {standing.number}: only {_CODE_CHARACTERS:,} of {len(source):,} characters are printed"
        )
        source = source[:_CODE_CHARACTERS]
    notes = [{"tone": note.tone, "text": note.text} for note in standing.notes]
    if standing.other_language:
        notes.insert(0, {"tone": "plain", "text": standing.language})
    lang = standing.language if len(source) <= _COLOURED_CHARACTERS else None
    return [
        {"t": "input", "number": standing.number, "notes": notes, "v": source, "lang": lang, "sticky": sticky}
    ]


def _mark_long(node: Any) -> bool:
    """Say of every block whether it has a word that is longer than a line may be; asking typst of all is slow."""
    if isinstance(node, str):
        return _LONG.search(node) is not None
    if isinstance(node, list):
        marked = [_mark_long(one) for one in node]  # all of them, not up to the first
        return any(marked)
    if not isinstance(node, dict):
        return False
    marked = [_mark_long(value) for key, value in node.items() if key not in _UNSEEN]
    long = any(marked)
    if long:
        node["long"] = True
    return long


def texts_of(tree: Any) -> Iterator[str]:
    """Every text of the tree that comes to the page as letters."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [value for key, value in one.items() if key not in _UNSEEN]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            yield one


# Outputs as data for print: one form of each, the fullest that stands on paper.

_TEXT_CHARACTERS = 40_000

_TEXT_LINES = 400

_MAX_TABLES = 20

# Types that are cut to what fits; a longer text of the others would not be read rightly.
_CUT = frozenset({"text/plain", "application/json", "text/html"})

_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", SVG: "svg"}

_DATA = re.compile(r"data:(image/(?:png|jpeg|gif|webp|svg\+xml));base64,([A-Za-z0-9+/=\s]+)")


@dataclass(slots=True)
class Album:
    """The pictures of one print, as files beside it."""

    files: dict[str, bytes] = field(default_factory=dict)

    def place(self, mime: str, data: bytes, words: str) -> Node:
        name = f"{len(self.files) + 1}.{_SUFFIXES[mime]}"
        self.files[name] = data
        return {"t": "picture", "file": name, "alt": words[:500] or None}

    def from_link(self, link: str, words: str) -> Node | None:
        """A picture that is written down in a data link."""
        match = _DATA.fullmatch(link.strip())
        if match is None:
            return None
        if match[1] == SVG:
            try:
                text = svg_text(base64.b64decode(match[2]).decode())
            except ValueError:
                return None
            return self.place(SVG, text.encode(), words) if text else None
        data = picture_bytes(match[1], match[2])
        return self.place(match[1], data, words) if data is not None else None


@dataclass(slots=True)
class OutputSetter:
    """Sets the outputs of one print, and keeps what had to be left out."""

    album: Album
    prose: ProseSetter
    notices: list[str] = field(default_factory=list)
    _cell: str = ""

    def nodes(self, exhibit: Exhibit, *, cell: str) -> list[Node]:
        """One output; ``cell`` is what notices call the cell that it is of."""
        self._cell = cell
        if exhibit.kind in {"stdout", "stderr", "error"}:
            return self._text(exhibit.text, exhibit.kind)
        for write in (self._svg, self._picture, self._html, self._words):
            if nodes := write(exhibit):
                return nodes
        return []

    def _note(self, what: str) -> None:
        self.notices.append(f"{self._cell}: {what}")

    def _text(self, text: str, tone: str) -> list[Node]:
        bare = bare_text(text).strip("\n").expandtabs(8)
        head, left_out, tail = cut_text(bare, characters=_TEXT_CHARACTERS, lines=_TEXT_LINES)
        if not left_out:
            return [{"t": "printed", "v": bare, "tone": tone}] if bare.strip() else []
        self._note(left_out.strip("… ").removesuffix(" here"))
        shown: list[Node] = [{"t": "printed", "v": part, "tone": tone} for part in (head, tail)]
        return [shown[0], {"t": "output", "body": [{"t": "note", "v": left_out}]}, shown[1]]

    def _svg(self, exhibit: Exhibit) -> list[Node]:
        source = (exhibit.forms or {}).get(SVG)
        picture = svg_text(source) if source is not None else None
        if picture is not None:
            return [_boxed([self.album.place(SVG, picture.encode(errors="replace"), exhibit.description)])]
        if source is not None:
            self._note("an SVG picture cannot be read")
        return []

    def _picture(self, exhibit: Exhibit) -> list[Node]:
        for mime in PICTURES:
            if (content := (exhibit.forms or {}).get(mime)) is None:
                continue
            data = picture_bytes(mime, content)
            if data is not None:
                return [_boxed([self.album.place(mime, data, exhibit.description)])]
            self._note("a picture cannot be read")
        return []

    def _html(self, exhibit: Exhibit) -> list[Node]:
        """The tables and pictures of HTML; other HTML is told by its text, or by the output's own."""
        source = (exhibit.forms or {}).get("text/html", "")
        if not source or len(source) > MAX_CHARACTERS:
            return []
        root = parse_html(source)
        nodes: list[Node] = []
        for table in list(elements(root, "table"))[:_MAX_TABLES]:
            if (grid := grid_of(table)) is not None:
                nodes += set_grid(grid)
                if grid.left_out:
                    self._note(f"of a table, {grid.left_out.strip('… ')}")
        for image in elements(root, "img"):
            placed = self.album.from_link(image.attributes.get("src", ""), image.attributes.get("alt", ""))
            nodes += [placed] if placed is not None else []
        return [_boxed(nodes)] if nodes else []

    def _words(self, exhibit: Exhibit) -> list[Node]:
        """A form that is text."""
        forms = exhibit.forms or {}
        writers: dict[str, Callable[[str], list[Node]]] = {
            "text/markdown": lambda text: [_boxed(self.prose.blocks(text, {}))],
            "text/latex": lambda text: [_boxed([formula_node(bare_latex(text), display=True)])],
            "text/plain": lambda text: self._text(text, "result"),
            "application/json": lambda text: self._text(_indented(text), "result"),
            "text/html": lambda text: self._text(text_in(parse_html(text)), "result"),
        }
        for mime, write in writers.items():
            if forms.get(mime, "").strip() and (mime in _CUT or len(forms[mime]) <= _TEXT_CHARACTERS):
                return write(forms[mime])
        if not forms:
            return []
        if not any(mime in forms for mime in (*PICTURES, SVG)):
            self._note(f"an output of the type {next(iter(forms))} cannot be shown")
        return [_boxed([{"t": "note", "v": "[an output that cannot be shown]"}])]


def _boxed(nodes: list[Node]) -> Node:
    return {"t": "output", "body": nodes}


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


# Which characters of a print no font here can draw. Asks typst itself, in a picture of nothing but those
# characters.

# Latin, Greek, Cyrillic, usual punctuation, arrows, operators, box drawing: in the fonts that typst brings along.
_USUAL = re.compile(
    "[\\s\x20-\x7e\xa0-\u024f\u0370-\u03ff\u0400-\u045f\u2010-\u2027\u2030-\u203a\u2190-\u2199\u2500-\u257f]+"
)

_MAX_PROBED = 3_000

_UNDRAWN = frozenset({"Cc", "Cf", "Cs", "Mn", "Me", "Zs", "Zl", "Zp"})

# A place in the private use area that no font fills.
_NEVER_DRAWN = "\U0010fffd"

_GLYPH = re.compile(rb'href="#(g[0-9A-F]+)"')

_PROBE = b"""#set page(width: 50pt, height: 20pt, margin: 0pt)
#set text(font: ("Libertinus Serif",), size: 8pt)
#for character in json(bytes(sys.inputs.characters)) { page(text(character)) }
"""


def unusual_characters(texts: Iterable[str]) -> list[str]:
    """Characters that fonts may lack, each once."""
    found: dict[str, None] = {}
    for text in texts:
        if not text.isascii():
            found |= dict.fromkeys(_USUAL.sub("", text))
    return [one for one in found if unicodedata.category(one) not in _UNDRAWN]


def missing_glyphs(characters: list[str]) -> list[str]:
    """Those of the characters that come out as an empty box."""
    import typst  # an extra, and whoever asks has it

    probed = [_NEVER_DRAWN, *characters[:_MAX_PROBED]]
    # One picture a page, although its type says one in all.
    pictures: Any = typst.compile(_PROBE, format="svg", sys_inputs={"characters": json.dumps(probed)})
    box = _GLYPH.search(pictures[0])
    if box is None or len(pictures) != len(probed):
        return []
    return [
        one
        for one, picture in zip(probed[1:], pictures[1:], strict=True)
        if box[1] in _GLYPH.findall(picture)
    ]
