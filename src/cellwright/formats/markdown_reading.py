"""A notebook from a Markdown page: one of ours without loss, anybody else's by its fences. Pure.

On anybody's page fences of its main language are code, and all else is text, fences of other languages included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cellwright.formats.encoding import at_line, decoded
from cellwright.formats.fences import Block, blocks_in, closing_line, fence_word, opening_fence
from cellwright.formats.marks import Region, read_head, regions_of
from cellwright.formats.model import Draft, DraftCell, Imported, Reading, document_of
from cellwright.notebook import CellKind
from cellwright.notebook.languages import BOOK_KEYS, canonical_language, find_language

__all__ = ["read_markdown"]

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
    draft = _own_page(lines, head, reading.name) if head is not None else _plain_page(lines)
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


def _plain_page(lines: Sequence[str]) -> Draft:
    front = _front_matter(lines)
    blocks = blocks_in(lines[len(front) :], first=len(front) + 1)
    marked = any(block.info is not None and block.info.startswith(_CODE_CELL) for block in blocks)
    language = _main_language(blocks, marked=marked)
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


def _main_language(blocks: Sequence[Block], *, marked: bool) -> str:
    """The first that is a notebook's; a shell's commands mostly tell how to install something."""
    infos = [block.info for block in blocks if block.info and block.info != _RESULT]
    named = [_language_in(info) for info in infos if not marked or info.startswith(_CODE_CELL)]
    known = [name for name in named if find_language(name) is not None]
    return next((name for name in known if name != "bash"), known[0] if known else "python")


def _is_code(info: str, language: str, *, marked: bool) -> bool:
    if marked:
        return info.startswith(_CODE_CELL)
    named = _language_in(info)
    return named == language or named in _NEAR.get(language, ())


def _language_in(info: str) -> str:
    words = info.removeprefix(_CODE_CELL).replace(",", " ").split()
    return canonical_language(words[0]) if words else ""
