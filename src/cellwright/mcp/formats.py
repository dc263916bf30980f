"""Notebooks as JSON and as Markdown, and back. Pure; ``.ipynb`` is the document's own business.

Markdown holds code in fences of the notebook's language. Where a text cell has such a fence of its own, code cells are
marked as MyST does it, ``{code-cell}``, so that reading it back gives the same cells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.errors import NotebookFormatError, TooManyCells
from cellwright.mcp.outputs import parts_of
from cellwright.notebook import Cell, CellKind, Document, add_cell

__all__ = [
    "Draft",
    "DraftCell",
    "document_of",
    "read_json",
    "read_markdown",
    "to_ipynb",
    "to_json",
    "to_markdown",
]

_BETWEEN = "<!-- cell -->"
_fence = re.compile(r"^(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")
_RESULT = "output"
_CODE_CELL = "{code-cell}"
_ALIASES = {"py": "python", "python3": "python", "ipython": "python", "ipython3": "python", "sh": "bash"}


@dataclass(frozen=True, slots=True)
class DraftCell:
    kind: CellKind
    source: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A notebook that was read and is not yet one of ours."""

    cells: tuple[DraftCell, ...]
    title: str | None = None
    language: str | None = None


def document_of(draft: Draft, *, language: str, max_cells: int) -> Document:
    """A document with a draft's cells.

    Raises:
        TooManyCells: there are more than a notebook may hold.
    """
    document = Document.new(language=language)
    for cell in draft.cells:
        document.apply(add_cell(document, cell.kind, cell.source, max_cells=max_cells))
    return document


def check_size(document: Document, *, max_cells: int) -> None:
    """Refuse a notebook with more cells than one may hold.

    Raises:
        TooManyCells: it has.
    """
    if len(document) > max_cells:
        raise TooManyCells(
            f"The notebook has {len(document)} cells, and the setting max_cells allows {max_cells}",
            hint="Import a part of it, or raise CELLWRIGHT_MAX_CELLS",
        )


# Writing -------------------------------------------------------------------------------------------------------------


def to_ipynb(document: Document, *, outputs: bool) -> str:
    """The file's own text, without outputs if they are not wanted."""
    text = document.to_bytes().decode()
    if outputs:
        return text
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def to_json(cells: Iterable[Cell], *, name: str, language: str, outputs: bool) -> str:
    """A notebook as a plain object: name, language, and cells with their content."""
    listed: list[dict[str, Any]] = []
    for cell in cells:
        about: dict[str, Any] = {"id": cell.id, "type": cell.kind, "content": cell.source}
        if outputs and cell.kind == "code":
            about |= {"execution_count": cell.execution_count, "outputs": list(cell.outputs)}
        listed.append(about)
    return (
        json.dumps({"name": name, "language": language, "cells": listed}, ensure_ascii=False, indent=1) + "\n"
    )


def to_markdown(cells: Sequence[Cell], *, language: str, outputs: bool) -> str:
    """A notebook as a Markdown page."""
    texts = [cell.source for cell in cells if cell.kind != "code"]
    marked = any(_fence.match(line) for text in texts for line in text.splitlines())
    blocks: list[str] = []
    previous: CellKind | None = None
    for cell in cells:
        if cell.kind == "code":
            blocks.append(_fenced(cell.source, f"{_CODE_CELL} {language}" if marked else language))
            shown = [part.text for part in parts_of(cell.outputs) if part.text] if outputs else []
            blocks += [_fenced("\n".join(text.rstrip("\n") for text in shown), _RESULT)] if shown else []
        else:
            blocks += [_BETWEEN] if previous not in {None, "code"} else []
            blocks.append(cell.source)
        previous = cell.kind
    return "\n\n".join(blocks) + "\n"


def _fenced(source: str, info: str) -> str:
    longest = max((len(run) for run in re.findall(r"^`{3,}", source, re.MULTILINE)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{info}\n{source}\n{mark}" if source else f"{mark}{info}\n{mark}"


# Reading -------------------------------------------------------------------------------------------------------------


def read_json(content: str) -> Draft | Document:
    """A notebook from JSON: an object or a list of cells, or an ``.ipynb``.

    Raises:
        NotebookFormatError: it is none of these.
    """
    try:
        held = json.loads(content)
    except ValueError as error:
        raise NotebookFormatError(
            f"The content is not JSON: {error}", hint="Give format='markdown' for a Markdown page"
        ) from error
    if isinstance(held, dict) and "nbformat" in held:
        return Document.from_bytes(content.encode(), name="The imported notebook")
    cells = held.get("cells") if isinstance(held, dict) else held
    if not isinstance(cells, list):
        raise NotebookFormatError("The JSON has no list of cells", hint=_JSON_SHAPE)
    about = held if isinstance(held, dict) else {}
    return Draft(
        tuple(_read_cell(cell) for cell in cells), _text(about.get("name")), _text(about.get("language"))
    )


_JSON_SHAPE = 'Give {"name": …, "cells": [{"type": "code" or "markdown", "content": "…"}]}'


def _read_cell(cell: Any) -> DraftCell:
    if isinstance(cell, dict):
        kind = cell.get("type", cell.get("cell_type", "code"))
        source = cell.get("content", cell.get("source"))
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if kind in {"code", "markdown", "raw"} and isinstance(source, str):
            return DraftCell(kind, source)
    raise NotebookFormatError(f"This is not a cell: {str(cell)[:80]}", hint=_JSON_SHAPE)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def read_markdown(content: str, *, language: str | None = None) -> Draft:
    """A notebook from a Markdown page: fences of its language are code, the rest is text."""
    blocks = _blocks(content)
    marked = any(info is not None and info.startswith(_CODE_CELL) for info, _, _ in blocks)
    language = language or _language(blocks, marked=marked)
    cells: list[DraftCell] = []
    text: list[str] = []

    def end_text() -> None:
        source = "\n".join(text).strip("\n")
        text.clear()
        if source.strip():
            cells.append(DraftCell("markdown", source))

    for info, source, raw in blocks:
        if info is not None and _is_code(info, language, marked=marked):
            end_text()
            cells.append(DraftCell("code", source))
        elif info is None and raw.strip() == _BETWEEN:
            end_text()
        elif info != _RESULT:
            text.append(raw)
    end_text()
    title = re.search(r"^#\s+(.+)$", content, re.MULTILINE)
    return Draft(tuple(cells), title[1].strip() if title else None, language)


def _blocks(content: str) -> list[tuple[str | None, str, str]]:
    """Lines that are text, and whole fences: what follows the opening marks, what is inside, and all of it."""
    found: list[tuple[str | None, str, str]] = []
    lines = content.replace("\r\n", "\n").split("\n")
    place = 0
    while place < len(lines):
        opening = _fence.match(lines[place])
        end = _closing(lines, place, opening["mark"]) if opening else None
        if opening is None or end is None:
            found.append((None, "", lines[place]))
            place += 1
            continue
        raw = "\n".join(lines[place : end + 1])
        found.append((opening["info"].strip(), "\n".join(lines[place + 1 : end]), raw))
        place = end + 1
    return found


def _closing(lines: list[str], opening: int, mark: str) -> int | None:
    for place in range(opening + 1, len(lines)):
        line = lines[place].rstrip()
        if len(line) >= len(mark) and set(line) == {mark[0]}:
            return place
    return None


def _language(blocks: list[tuple[str | None, str, str]], *, marked: bool) -> str:
    for info, _, _ in blocks:
        words = (info or "").replace(_CODE_CELL, " ").split()
        if words and info != _RESULT and (not marked or (info or "").startswith(_CODE_CELL)):
            return _ALIASES.get(words[0].lower(), words[0].lower())
    return "python"


def _is_code(info: str, language: str, *, marked: bool) -> bool:
    if marked:
        return info.startswith(_CODE_CELL)
    word = (info.split() or [""])[0].lower()
    return _ALIASES.get(word, word) == language
