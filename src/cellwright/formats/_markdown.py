"""A notebook as a Markdown page that a forge shows well and that is read back without loss.

Code stands in fences of each cell's own language, outputs below it as fences, tables and pictures. Comments, which a
forge does not show, hold what Markdown has no word for (see markdown). Reading is beside it (see markdown).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from cellwright.formats.markup import markdown_table, rows_in, text_of_html
from cellwright.formats.model import (
    Block,
    Draft,
    DraftCell,
    Imported,
    Reading,
    Writing,
    Written,
    at_line,
    blocks_in,
    closing_line,
    decoded,
    document_of,
    encoded,
    fence_word,
    fenced,
    opening_fence,
)
from cellwright.notebook import Cell, CellKind, Document
from cellwright.notebook.cells import own_section
from cellwright.notebook.languages import BOOK_KEYS, canonical_language, find_language
from cellwright.notebook.outputs import clean, names_only_itself
from cellwright.notebook.widgets import with_widgets_as_text

__all__ = ["kept_metadata", "read_markdown", "write_markdown"]
_VERSION = 1

# Told in other words, or true only of the run that wrote them.
_NOT_KEPT = frozenset({"cellwright", "tags", "vscode", "execution", "ExecuteTime", "papermill", "collapsed"})


def write_markdown(document: Document, writing: Writing) -> Written:
    """The page, and its pictures where there is a directory for them."""
    gallery = _Gallery(writing.files_at)
    main = document.language
    shown: dict[str, str] = {}
    for number, cell in enumerate(document.cells, 1):
        gallery.begin(number)
        shown[cell.id] = "\n\n".join(
            blocks_of(with_widgets_as_text(cell.outputs, document.metadata), gallery.place)
        )
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
    main = document.language
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
            return fenced(cell.source, fence_word(document.language_of(cell)))
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
    if (filename := cell.filename) is not None:
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


# A notebook from a Markdown page: one of ours without loss, anybody else's by its fences. Pure.

_CODE_CELL = "{code-cell}"

_BETWEEN = "<!-- cell -->"

_RESULT = "output"

_NEAR = {"typescript": {"javascript"}, "javascript": {"typescript"}}

_title = re.compile(r"^#[ \t]+(?P<title>.*\S)", re.MULTILINE)

_FRONT = "---"


def read_markdown(content: bytes, reading: Reading) -> Imported:
    """A notebook from a page.

    Raises:
        NotebookFormatError: it is not text, or one of our marks cannot be understood; with its line.
        TooManyCells: there are more cells than a notebook may hold.
    """
    text = decoded(content, reading.name)
    first, _, _ = text.partition("\n")
    # Only a file that another program converted as a whole has this in a line that we wrote.
    if first.endswith("\r") or "<!-- cellwright:" not in first:
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    head = read_head(lines[0], reading.name)
    draft = _own_page(lines, head, reading.name) if head is not None else _plain_page(lines, reading.language)
    return Imported(document_of(draft, max_cells=reading.max_cells), draft.title, draft.notices)


# Our own pages -------------------------------------------------------------------------------------------------------


def _own_page(lines: Sequence[str], head: Mapping[str, Any], name: str) -> Draft:
    language = canonical_language(str(head.get("language") or "python"))
    # The page's last line end is the file's, not the last cell's.
    body = lines[1:-1] if lines[-1] == "" else lines[1:]
    cells: list[DraftCell] = []
    regions = regions_of(body, str(head.get("mark") or "cell"), name, first=2)
    for region in regions:
        last = region is regions[-1]
        match region.kind:
            case "markdown":
                cells.append(_cell("markdown", _text_of(region.lines, last=last), region.about))
            case "code" | "raw":
                cells += _fenced_cell(region, language, name)
            case "end":
                cells += _plain_cells(blocks_in(region.lines), language, marked=False)
            case _:
                pass  # outputs are not read back: only running makes them
    metadata: dict[str, Any] = {}
    if isinstance(head.get("kernelspec"), dict):
        metadata["kernelspec"] = head["kernelspec"]
    own = {key: head[key] for key in BOOK_KEYS if key in head}
    if own:
        metadata["cellwright"] = own
    title = head.get("name")
    return Draft(tuple(cells), title if isinstance(title, str) and title else None, language, metadata)


def _text_of(lines: Sequence[str], *, last: bool) -> str:
    """A text cell's source: what stands between the blank line after its mark and that before the next."""
    start = 1 if lines and not lines[0].strip() else 0
    end = len(lines)
    if not last and end > start and not lines[-1].strip():
        end -= 1
    return "\n".join(lines[start:end])


def _fenced_cell(region: Region, main: str, name: str) -> Iterator[DraftCell]:
    lines = region.lines
    start = next((place for place, line in enumerate(lines) if line.strip()), None)
    opening = opening_fence(lines[start]) if start is not None else None
    if start is None or opening is None:
        raise at_line(region.line, f"the {region.kind} cell's mark is followed by no code block", name=name)
    mark, info = opening
    end = closing_line(lines, start + 1, mark)
    if end is None:
        raise at_line(region.line + 1 + start, f"the code block is never closed by {mark}", name=name)
    source = "\n".join(lines[start + 1 : end])
    fence = canonical_language(info) if fence_word(info) else ""
    language = fence if region.kind == "code" and fence not in {"", main} else None
    yield _cell(cast("CellKind", region.kind), source, region.about, language)
    yield from _plain_cells(blocks_in(lines[end + 1 :]), main, marked=False)


def _cell(kind: CellKind, source: str, about: Mapping[str, Any], language: str | None = None) -> DraftCell:
    def text(key: str) -> str | None:
        value = about.get(key)
        return value if isinstance(value, str) and value else None

    tags, metadata = about.get("tags"), about.get("metadata")
    return DraftCell(
        kind,
        source,
        id=text("id"),
        language=text("language") or language,
        filename=text("filename"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


# Anybody's pages -----------------------------------------------------------------------------------------------------


def _plain_page(lines: Sequence[str], language: str) -> Draft:
    front = _front_matter(lines)
    blocks = blocks_in(lines[len(front) :], first=len(front) + 1)
    marked = any(block.info is not None and block.info.startswith(_CODE_CELL) for block in blocks)
    language = _main_language(blocks, marked=marked) or language
    cells = [DraftCell("raw", "\n".join(front))] if front else []
    cells += _plain_cells(blocks, language, marked=marked)
    titles = (_title.search(cell.source) for cell in cells if cell.kind == "markdown")
    title = next((found["title"] for found in titles if found), None)
    return Draft(tuple(cells), title, language)


def _front_matter(lines: Sequence[str]) -> Sequence[str]:
    """The lines of a page's front matter, marks included; it says things of the page and is no text of it."""
    if lines[0].rstrip() != _FRONT:
        return ()
    end = next((place for place, line in enumerate(lines) if place and line.rstrip() == _FRONT), None)
    return lines[: end + 1] if end is not None else ()


def _plain_cells(blocks: Sequence[Block], language: str, *, marked: bool) -> list[DraftCell]:
    cells: list[DraftCell] = []
    text: list[str] = []

    def end_text() -> None:
        source = "\n".join(text).strip("\n")
        text.clear()
        if source.strip():
            cells.append(DraftCell("markdown", source))

    for block in blocks:
        if block.info is not None and _is_code(block.info, language, marked=marked):
            end_text()
            named = _language_in(block.info)
            cells.append(
                DraftCell("code", block.inside, language=named if named not in {"", language} else None)
            )
        elif block.info is None and block.raw.strip() == _BETWEEN:
            end_text()
        elif block.info != _RESULT:
            text.append(block.raw)
    end_text()
    return cells


def _main_language(blocks: Sequence[Block], *, marked: bool) -> str | None:
    """The first that is a notebook's; a shell's commands mostly tell how to install something."""
    infos = [block.info for block in blocks if block.info and block.info != _RESULT]
    named = [_language_in(info) for info in infos if not marked or info.startswith(_CODE_CELL)]
    known = [name for name in named if find_language(name) is not None]
    return next((name for name in known if name != "bash"), known[0] if known else None)


def _is_code(info: str, language: str, *, marked: bool) -> bool:
    if marked:
        return info.startswith(_CODE_CELL)
    named = _language_in(info)
    return named == language or named in _NEAR.get(language, ())


def _language_in(info: str) -> str:
    words = info.removeprefix(_CODE_CELL).replace(",", " ").split()
    return canonical_language(words[0]) if words else ""


# The comments by which a Markdown page of ours says where its cells begin. Pure.

_mark_head = re.compile(r"<!-- cellwright:notebook (?P<about>\{.*\}) -->")

_HEAD_WORD = "cellwright"

_KINDS = "code|markdown|raw|output|end"


@dataclass(frozen=True, slots=True)
class Region:
    """What stands between one mark and the next."""

    kind: str
    about: Mapping[str, Any]
    line: int
    """The mark's, from 1; the lines that follow it are the region's."""
    lines: Sequence[str]


def choose_word(texts: Collection[str]) -> str:
    """A word whose marks none of the texts holds."""
    for number in count(1):
        word = f"cell{number}" if number > 1 else "cell"
        if not any(f"<!-- {word}:" in text for text in texts):
            return word
    raise AssertionError  # count() never ends


def head_line(about: Mapping[str, Any]) -> str:
    return f"<!-- {_HEAD_WORD}:notebook {_inert(about)} -->"


def mark_line(word: str, kind: str, about: Mapping[str, Any] | None = None) -> str:
    return f"<!-- {word}:{kind} {_inert(about)} -->" if about else f"<!-- {word}:{kind} -->"


def read_head(line: str, name: str) -> dict[str, Any] | None:
    """What a page's first line says about the notebook; none where the page is not one of ours.

    Raises:
        NotebookFormatError: the line is ours, and cannot be understood.
    """
    found = _mark_head.fullmatch(line.rstrip())
    return _about(found["about"], 1, name) if found else None


def regions_of(lines: Sequence[str], word: str, name: str, *, first: int) -> list[Region]:
    """The page's regions; lines before the first mark are a region of the kind ``end``.

    Raises:
        NotebookFormatError: a mark cannot be understood.
    """
    mark = re.compile(rf"<!-- {re.escape(word)}:(?P<kind>{_KINDS})(?: (?P<about>\{{.*\}}))? -->")
    regions: list[Region] = []
    about: dict[str, Any] = {}
    kind, begun = "end", -1
    for place, line in enumerate(lines):
        found = mark.fullmatch(line.rstrip()) if line.startswith(f"<!-- {word}:") else None
        if found is None:
            continue
        regions.append(Region(kind, about, first + begun, lines[begun + 1 : place]))
        kind, begun = found["kind"], place
        about = _about(found["about"], first + place, name) if found["about"] else {}
    regions.append(Region(kind, about, first + begun, lines[begun + 1 :]))
    return regions


def _inert(about: Mapping[str, Any] | None) -> str:
    """JSON that cannot end the comment it stands in."""
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    return re.sub(
        r"[>\r\n\x85\u2028\u2029]|(?<=-)-|[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text
    )


def _about(text: str, line: int, name: str) -> dict[str, Any]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise at_line(line, f"the comment's JSON cannot be read: {error}", name=name) from error
    return about if isinstance(about, dict) else {}


# A cell's outputs as blocks of Markdown that a forge shows: fences, tables, and links to pictures. Pure.

PlacePicture: TypeAlias = Callable[[str, bytes], str | None]
"""Takes a picture's file suffix and content; gives the link to it, or none where there is no place for files."""

_PICTURES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
}

_unsafe_alt = re.compile(r"[\[\]\\\r\n]+")

_MAX_ALT = 100


def blocks_of(outputs: Sequence[Mapping[str, Any]], place: PlacePicture) -> list[str]:
    """Every output that can be shown, in order."""
    return [block for output in outputs if (block := _block(output, place))]


def _block(output: Mapping[str, Any], place: PlacePicture) -> str:
    match output.get("output_type"):
        case "stream":
            return _text_block(_joined(output.get("text", "")))
        case "error":
            frames = [str(frame) for frame in output.get("traceback") or ()]
            headline = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
            return _text_block("\n".join(frames) or headline)
        case _:
            data = output.get("data")
            return _shown(data, place) if isinstance(data, Mapping) else ""


def _shown(data: Mapping[str, Any], place: PlacePicture) -> str:
    html, plain = _joined(data.get("text/html", "")), _joined(data.get("text/plain", ""))
    plain = "" if names_only_itself(plain) else plain
    ways: tuple[Callable[[], str], ...] = (
        lambda: _joined(data.get("text/markdown", "")).strip(),
        lambda: markdown_table(rows_in(html)),
        lambda: _picture(data, plain, place),
        lambda: _joined(data.get("text/latex", "")).strip(),
        lambda: _text_block(plain),
        lambda: _text_block(text_of_html(html)),
        lambda: _anything(data),
    )
    return next((block for way in ways if (block := way())), "")


def _anything(data: Mapping[str, Any]) -> str:
    for mime, held in data.items():
        if mime == "application/json" or mime.endswith("+json"):
            return fenced(json.dumps(held, ensure_ascii=False, indent=1, default=str), "json")
        if mime.startswith("text/") and mime not in {"text/html", "text/plain"}:
            return _text_block(_joined(held))
    return ""


def _picture(data: Mapping[str, Any], plain: str, place: PlacePicture) -> str:
    for mime, suffix in _PICTURES.items():
        if isinstance(held := data.get(mime), str):
            return _placed(mime, suffix, held, plain, place)
    return ""


def _placed(mime: str, suffix: str, held: str, plain: str, place: PlacePicture) -> str:
    try:
        content = held.encode() if suffix == ".svg" else base64.b64decode(held)
    except ValueError:  # of base64, of letters that are none of its, of half a character
        return f"*a broken picture ({mime})*"
    link = place(suffix, content)
    if link is None:
        return f"*a picture ({mime}, {len(content):,} bytes), which is not in this text*"
    alt = _unsafe_alt.sub(" ", clean(plain)).strip()[:_MAX_ALT] or "output"
    return f"![{alt}]({link})"


def _text_block(text: str) -> str:
    text = clean(text).strip("\n")
    return fenced(text, "text") if text.strip() else ""


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
