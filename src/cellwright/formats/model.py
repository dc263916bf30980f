"""Input and output of a format. Holds data; the formats themselves are beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cellwright.errors import NotebookFormatError, TooManyCells
from cellwright.notebook import CellAdded, CellKind, Document, NotebookMetadataSet, OutputsSet
from cellwright.notebook.cells import derived_id, is_valid_id
from cellwright.notebook.languages import canonical_language, cell_metadata

__all__ = [
    "Block",
    "Draft",
    "DraftCell",
    "Exported",
    "FindFile",
    "Format",
    "Imported",
    "Reader",
    "Reading",
    "Writer",
    "Writing",
    "Written",
    "at_line",
    "blocks_in",
    "check_size",
    "closing_line",
    "decoded",
    "document_of",
    "encoded",
    "fence_word",
    "fenced",
    "opening_fence",
]

FindFile: TypeAlias = Callable[[str], bytes | None]
"""A file beside the one that is read, by its relative name; none where it is not to be had."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How a notebook is to be written. Outputs that are not wanted are gone from the document already."""

    name: str
    files_at: str | None = None
    """The directory for pictures, relative to the page; none where the page is all there will be."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a writer made of a notebook."""

    content: bytes
    notices: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    suffix: str | None = None
    """Where it depends on the notebook, as a script's does."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A notebook in some format."""

    content: bytes
    mime: str
    suffix: str
    notices: tuple[str, ...] = ()
    """What the format could not hold, a sentence each."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the content refers to, by names relative to it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a content comes from, and how much of it is taken."""

    name: str
    max_cells: int
    find_file: FindFile = lambda _: None
    language: str = "python"
    """Of code whose language the content does not tell."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A notebook that was read from some format."""

    document: Document
    title: str | None = None
    notices: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[Document, Writing], Written]

Reader: TypeAlias = Callable[[bytes, Reading], Imported]


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write a notebook, and to read it where that can be done."""

    name: str
    mime: str
    suffixes: tuple[str, ...]
    """Of its files; the first is the one that is written."""
    write: Writer
    read: Reader | None = None
    extra: str | None = None
    """What must be installed besides."""
    needs: tuple[str, ...] = ()
    """The modules that the extra brings for it."""
    binary: bool = False
    outputs: bool = True
    """Whether it holds what cells put out."""


@dataclass(frozen=True, slots=True)
class DraftCell:
    kind: CellKind
    source: str
    id: str | None = None
    language: str | None = None
    """Its own, where it is not the notebook's."""
    filename: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[dict[str, Any]] = ()
    execution_count: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A notebook that was read and is not yet one of ours."""

    cells: tuple[DraftCell, ...]
    title: str | None = None
    language: str = "python"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The notebook's, beside what its language brings along."""
    notices: tuple[str, ...] = ()


def document_of(draft: Draft, *, max_cells: int) -> Document:
    """A document with a draft's cells. The same draft always gets the same ids.

    Raises:
        TooManyCells: there are more than a notebook may hold.
    """
    check_size(len(draft.cells), max_cells=max_cells)
    document = Document.new(language=canonical_language(draft.language))
    if draft.metadata:
        document.apply(NotebookMetadataSet({**document.metadata, **draft.metadata}))
    wanted = {cell.id for cell in draft.cells if is_valid_id(cell.id)}
    for position, cell in enumerate(draft.cells):
        keeps = is_valid_id(cell.id) and cell.id not in document
        cell_id = cell.id if keeps and cell.id else derived_id(cell.source, _Taken(document, wanted))
        metadata = cell_metadata(
            language=cell.language, filename=cell.filename, tags=cell.tags, also=cell.metadata
        )
        document.apply(CellAdded(cell_id, cell.kind, cell.source, position, metadata))
        if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
            document.apply(OutputsSet(cell_id, list(cell.outputs), cell.execution_count))
    return document


@dataclass(frozen=True, slots=True)
class _Taken:
    """Ids that are in the document, or will be."""

    document: Document
    wanted: set[str | None]

    def __contains__(self, cell_id: object) -> bool:
        return cell_id in self.document or cell_id in self.wanted


def check_size(cells: int, *, max_cells: int) -> None:
    """Refuse a notebook with more cells than one may hold.

    Raises:
        TooManyCells: it has.
    """
    if cells > max_cells:
        raise TooManyCells(
            f"The notebook has {cells} cells, and the setting max_cells allows {max_cells}",
            hint="Import a part of it, or raise CELLWRIGHT_MAX_CELLS",
        )


# Between a file's bytes and its text, with the line of what is wrong. Knows no format.

MAX_BYTES = 100_000_000

_HEAD = 8_000

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def decoded(content: bytes, name: str) -> str:
    """A text file's text, without a byte order mark.

    Raises:
        NotebookFormatError: it is too large, not text, or in another encoding.
    """
    if len(content) > MAX_BYTES:
        raise NotebookFormatError(
            f"{name} has {len(content):,} bytes, and at most {MAX_BYTES:,} are read",
            hint="Leave the outputs out, or split it",
        )
    encoding = "utf-16" if content.startswith(_UTF16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in content[:_HEAD]:
            raise NotebookFormatError(
                f"{name} is a binary file, not text",
                hint="Give a notebook in one of the formats that are read",
            ) from error
        line = content.count(b"\n", 0, error.start) + 1
        raise at_line(
            line,
            f"byte 0x{content[error.start]:02x} is not UTF-8",
            name=name,
            hint="Save the file as UTF-8",
        ) from error


def encoded(text: str) -> tuple[bytes, tuple[str, ...]]:
    """A text as UTF-8, and a notice where it holds what no encoding can."""
    try:
        return text.encode(), ()
    except UnicodeEncodeError:
        # Half of a pair, as a cut emoji leaves it; JSON has an escape for it, text has none.
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode(), ("Broken characters (halves of surrogate pairs) were replaced by \ufffd",)


def at_line(line: int, problem: str, *, name: str, hint: str | None = None) -> NotebookFormatError:
    """An error that says where in a file it is."""
    return NotebookFormatError(f"{name}, line {line}: {problem}", hint=hint)


# Fenced blocks of Markdown: written so that nothing in them can end them, and found again line by line.
# Pure.

_opening = re.compile(r"(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\r\n]*)")

_tildes = re.compile(r"(?P<mark>~{3,})[ \t]*(?P<info>[^\r\n]*)")

_word = re.compile(r"[A-Za-z0-9][\w+#.-]*")


@dataclass(frozen=True, slots=True)
class Block:
    """A line of text, or a whole fence."""

    line: int
    """The first one's number, from 1."""
    raw: str
    info: str | None = None
    """What follows a fence's opening marks; none for a line of text."""
    inside: str = ""


def fenced(source: str, info: str = "") -> str:
    """A fence around a source, with marks that are longer than any within."""
    longest = max((len(run) for run in re.findall(r"`{3,}", source)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{info}\n{source}\n{mark}" if source else f"{mark}{info}\n{mark}"


def fence_word(language: str) -> str:
    """A language's name where it can stand on a fence, else nothing."""
    return language if _word.fullmatch(language) else ""


def opening_fence(line: str) -> tuple[str, str] | None:
    """The marks and the info of a line that opens a fence."""
    found = _opening.fullmatch(line.rstrip("\r")) or _tildes.fullmatch(line.rstrip("\r"))
    return (found["mark"], found["info"].strip()) if found else None


def closing_line(lines: Sequence[str], start: int, mark: str) -> int | None:
    """Which line from ``start`` on closes a fence that these marks opened."""
    for place in range(start, len(lines)):
        line = lines[place].rstrip()
        if len(line) >= len(mark) and set(line) == {mark[0]}:
            return place
    return None


def blocks_in(lines: Sequence[str], *, first: int = 1) -> list[Block]:
    """Lines and fences, in order; ``first`` is the number of the first line."""
    found: list[Block] = []
    place = 0
    hopeless: set[tuple[str, int]] = set()
    while place < len(lines):
        opening = opening_fence(lines[place])
        end = None
        if opening is not None and (opening[0][0], len(opening[0])) not in hopeless:
            end = closing_line(lines, place + 1, opening[0])
            if end is None:
                # Nothing below closes such marks: looking again for each of a million of them takes for ever.
                hopeless.add((opening[0][0], len(opening[0])))
        if opening is None or end is None:
            found.append(Block(first + place, lines[place]))
            place += 1
            continue
        raw = "\n".join(lines[place : end + 1])
        found.append(Block(first + place, raw, opening[1], "\n".join(lines[place + 1 : end])))
        place = end + 1
    return found
