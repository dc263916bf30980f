"""Jupyter's own format, which is what documents are made of, and documents without their outputs."""

from __future__ import annotations

import json
from typing import Any

from cellwright.errors import NotebookFormatError
from cellwright.formats.model import (
    Draft,
    DraftCell,
    Imported,
    Reading,
    Writing,
    Written,
    at_line,
    check_size,
    decoded,
    document_of,
)
from cellwright.notebook import Cell, Document, OutputsSet
from cellwright.notebook.cells import encode
from cellwright.notebook.languages import canonical_language

__all__ = ["read_ipynb", "read_json", "without_outputs", "write_ipynb", "write_json"]


def write_ipynb(document: Document, writing: Writing) -> Written:  # every writer is called alike
    return Written(document.to_bytes())


def read_ipynb(content: bytes, reading: Reading) -> Imported:
    """A document as it stands in its file.

    Raises:
        NotebookFormatError: it is not a notebook that this version reads.
        TooManyCells: there are more than a notebook may hold.
    """
    document = Document.from_bytes(content, name=reading.name)
    check_size(len(document), max_cells=reading.max_cells)
    return Imported(document, notices=document.repairs)


def without_outputs(document: Document) -> Document:
    """A copy that was never run."""
    bare = document.copy()
    for cell in document.cells:
        if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
            bare.apply(OutputsSet(cell.id, [], None))
    return bare


# A notebook as one plain JSON object: name, language, and cells with their content.
# docs/reference/json-format.md.

_SHAPE = 'Give {"name": …, "cells": [{"type": "code" or "markdown", "content": "…"}]}'

_SHOWN = 80


def write_json(document: Document, writing: Writing) -> Written:
    """The notebook as an object; cells in order, what has no value is left out."""
    held = {
        "name": writing.name,
        "language": document.language,
        "metadata": document.metadata,
        "cells": [_cell_json(document, cell) for cell in document.cells],
    }
    return Written(encode(json.dumps(held, ensure_ascii=False, indent=1)) + b"\n")


def _cell_json(document: Document, cell: Cell) -> dict[str, Any]:
    about: dict[str, Any] = {"id": cell.id, "type": cell.kind, "content": cell.source}
    if cell.kind == "code":
        about["language"] = document.language_of(cell)
    about |= {
        name: value
        for name, value in (
            ("filename", cell.filename),
            ("tags", [str(tag) for tag in cell.tags]),
            ("metadata", dict(cell.metadata)),
        )
        if value
    }
    if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
        about |= {"execution_count": cell.execution_count, "outputs": list(cell.outputs)}
    return about


def read_json(content: bytes, reading: Reading) -> Imported:
    """A notebook from JSON: an object or a list of cells, or an ``.ipynb``.

    Raises:
        NotebookFormatError: it is none of these.
        TooManyCells: there are more than a notebook may hold.
    """
    held = _parsed(decoded(content, reading.name), reading.name)
    if isinstance(held, dict) and "nbformat" in held:
        return read_ipynb(content, reading)
    cells = held.get("cells") if isinstance(held, dict) else held
    if not isinstance(cells, list):
        raise NotebookFormatError(f"{reading.name} has no list of cells", hint=_SHAPE)
    about: dict[str, Any] = held if isinstance(held, dict) else {}
    language = canonical_language(_text(about.get("language")) or reading.language)
    title = _text(about.get("name"))
    draft = Draft(
        tuple(_read_cell(cell, number, language, reading.name) for number, cell in enumerate(cells, 1)),
        title,
        language,
        _mapping(about.get("metadata"), f"{reading.name}: metadata"),
    )
    return Imported(document_of(draft, max_cells=reading.max_cells), title)


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise at_line(
            error.lineno,
            f"this is not JSON: {error.msg} at column {error.colno}",
            name=name,
            hint="Give format='markdown' for a Markdown page",
        ) from error
    except (ValueError, RecursionError) as error:
        raise NotebookFormatError(f"{name} cannot be read as JSON: {error}") from error


def _read_cell(cell: Any, number: int, main: str, name: str) -> DraftCell:
    where = f"{name}: cell {number}"
    about = cell if isinstance(cell, dict) else {}
    kind = about.get("type", about.get("cell_type", "code"))
    source = about.get("content", about.get("source"))
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if kind not in ("code", "markdown", "raw") or not isinstance(source, str):
        raise NotebookFormatError(f"{where} is not a cell: {str(cell)[:_SHOWN]}", hint=_SHAPE)
    metadata = _mapping(about.get("metadata"), f"{where}: metadata")
    language = _text(about.get("language"))
    foreign = language is not None and canonical_language(language) != main
    tags = about.get("tags", ())
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise NotebookFormatError(f"{where}: tags is not a list of texts", hint=_SHAPE)
    found = DraftCell(
        kind,
        source,
        id=_text(about.get("id")),
        language=language if foreign and kind == "code" else None,
        filename=_text(about.get("filename")),
        tags=tuple(tags),
        metadata=metadata,
        outputs=(about.get("outputs") or ()) if kind == "code" else (),
        execution_count=about.get("execution_count") if kind == "code" else None,
    )
    _check(found, where)
    return found


def _check(cell: DraftCell, where: str) -> None:
    """Refuse what nbformat would not have: metadata and outputs are written as they are."""
    import nbformat  # takes 100 ms that most commands do not need

    node: dict[str, Any] = {"cell_type": cell.kind, "source": ""}
    node["metadata"] = {**cell.metadata, **({"tags": list(cell.tags)} if cell.tags else {})}
    if cell.kind == "code":
        node |= {"outputs": cell.outputs or [], "execution_count": cell.execution_count}
    try:
        nbformat.validate({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [node]})
    except nbformat.ValidationError as error:
        place = ".".join(str(step) for step in list(error.absolute_path)[2:])
        reason = str(error.message)[:200]
        raise NotebookFormatError(
            f"{where} is not as Jupyter has it: {place}: {reason}", hint="Leave that out"
        ) from error


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotebookFormatError(f"{where} is not an object", hint=_SHAPE)
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
