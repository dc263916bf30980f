"""Percent scripts and MyST pages, written and read by jupytext; this says what of a notebook it is given.

A percent script is a program of the notebook's language, in which ``# %%`` begins a cell. Cells of other languages
stand in it as comments, with ``active="ipynb"``, jupytext's own word for it. Neither format keeps outputs or ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias, cast

from cellwright.errors import NotebookFormatError
from cellwright.formats._markdown import kept_metadata
from cellwright.formats.model import (
    Draft,
    DraftCell,
    Imported,
    Reading,
    Writing,
    Written,
    check_size,
    decoded,
    document_of,
    encoded,
)
from cellwright.notebook import Cell, CellKind, Document
from cellwright.notebook.cells import own_section
from cellwright.notebook.languages import (
    BOOK_KEYS,
    canonical_language,
    cell_metadata,
    every_language,
    find_language,
    language_of_file,
)

__all__ = ["read_myst", "read_script", "write_myst", "write_percent"]

Variant: TypeAlias = Literal["percent", "myst"]

# jupytext knows no SQL; a Lua script has the same comments, and its name stands only in the header.
_STAND_IN = {".sql": ".lua"}
_OURS = frozenset(
    {"cellwright", "vscode", "active", "lines_to_next_cell", "lines_to_end_of_cell_marker", "tags"}
)
_ACTIVE = {"active": "ipynb"}
# jupytext's own spelling: with another it knows no comments, and fails at a line that looks like a magic.
_SPELLED = {"r": "R"}
_percent = re.compile(r"^(?P<comment>#|//|--) ?%%(?:[ \t]|$)", re.MULTILINE)
_wide_margin = re.compile(r"(?:[^\n]{0,2000}\n)?[ \t\f]{2000}")
_long_mark = re.compile(r"^[ \t]{0,80}(?:#|//|--)[ \t]{0,80}%%[^\n]{4000}", re.MULTILINE)
_header = re.compile(r"^(?:#|//|--) +extension: (?P<suffix>\.\w+)$", re.MULTILINE)
_title = re.compile(r"^#[ \t]+(?P<title>.*\S)", re.MULTILINE)
_BY_COMMENT = {"#": "python", "//": "typescript", "--": "sql"}
_MAX_VALUES = 100_000
_MAX_REFERENCES = 10
_anchor = re.compile(r"[\s\[{,:-]&([^\s,\[\]{}]+)")
_alias = re.compile(r"[\s\[{,:-]\*([^\s,\[\]{}]+)")
_NOT_KEPT = frozenset({"jupytext", "kernelspec", "language_info"})


def write_percent(document: Document, writing: Writing) -> Written:  # every writer is called alike
    """The notebook as a script of its language.

    Raises:
        NotebookFormatError: there are no such scripts in this language.
    """
    suffix = _suffix(document.language)
    return _written(document, "percent", suffix)


def write_myst(document: Document, writing: Writing) -> Written:  # every writer is called alike
    """The notebook as a MyST page."""
    return _written(document, "myst", ".md")


def read_myst(content: bytes, reading: Reading) -> Imported:
    """A notebook from a MyST page.

    Raises:
        NotebookFormatError: jupytext cannot read it.
        TooManyCells: there are more cells than a notebook may hold.
    """
    draft = _parsed(decoded(content, reading.name), "myst", ".md", reading.name)
    return Imported(document_of(draft, max_cells=reading.max_cells), draft.title, draft.notices)


def read_script(content: bytes, reading: Reading) -> Imported:
    """A notebook from a script: its cells where it marks them, else one cell.

    Raises:
        NotebookFormatError: jupytext cannot read it.
        TooManyCells: there are more cells than a notebook may hold.
    """
    text = decoded(content, reading.name)
    suffix = _script_suffix(text, reading.name)
    if _percent.search(text) or _header.search(text):
        # Before jupytext, which takes the square of their number.
        check_size(sum(1 for _ in _percent.finditer(text)), max_cells=reading.max_cells)
        draft = _parsed(text, "percent", suffix, reading.name)
    else:
        source = text.replace("\r\n", "\n").rstrip("\n")
        draft = Draft((DraftCell("code", source),), language=language_of_file(f"x{suffix}") or "python")
    return Imported(document_of(draft, max_cells=reading.max_cells), draft.title, draft.notices)


# Writing -------------------------------------------------------------------------------------------------------------


def _written(document: Document, variant: Variant, suffix: str) -> Written:
    import jupytext  # type: ignore[import-untyped]  # an extra

    notebook = _notebook(document, variant)
    extension = _STAND_IN.get(suffix, suffix)
    text = jupytext.writes(notebook, fmt={"extension": extension, "format_name": variant})
    if extension != suffix:
        text = text.replace(f"extension: {extension}\n", f"extension: {suffix}\n", 1)
    content, notices = encoded(text)
    return Written(content, (*notices, *_lost(document, text, variant, suffix)), suffix=suffix)


def _notebook(document: Document, variant: Variant) -> Any:
    """What jupytext is given: nbformat's objects, with the metadata that belongs to the text."""
    import nbformat  # takes 50 ms that most commands do not need

    main = document.language
    spec = document.metadata.get("kernelspec")
    if not isinstance(spec, Mapping) or not all(
        isinstance(spec.get(key), str) for key in ("name", "display_name")
    ):
        spec = {"name": main, "display_name": main}
    own = {key: value for key, value in own_section(document.metadata).items() if key in BOOK_KEYS}
    metadata: dict[str, Any] = {
        "kernelspec": {
            "name": spec["name"],
            "display_name": spec["display_name"],
            "language": _SPELLED.get(main, main),
        },
        "jupytext": {"cell_metadata_filter": "all"},
    }
    if own:
        metadata["cellwright"] = own
        metadata["jupytext"]["notebook_metadata_filter"] = "cellwright"
    cells = [_node(document, cell, main, variant) for cell in document.cells]
    held = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return nbformat.from_dict(held)  # type: ignore[no-untyped-call]  # nbformat has no types


def _node(document: Document, cell: Cell, main: str, variant: Variant) -> dict[str, Any]:
    foreign = cell.kind == "code" and document.language_of(cell) != main
    also = kept_metadata(cell.metadata) | (_ACTIVE if foreign and variant == "percent" else {})
    metadata = cell_metadata(
        language=cell.language and canonical_language(cell.language),
        filename=cell.filename,
        tags=[str(tag) for tag in cell.tags],
        also=also,
    )
    metadata.pop("vscode", None)  # our own word says the same
    node = {"id": cell.id, "cell_type": cell.kind, "source": cell.source, "metadata": metadata}
    return node | ({"outputs": [], "execution_count": None} if cell.kind == "code" else {})


def _suffix(language: str) -> str:
    found = find_language(language)
    if found is None:
        known = ", ".join(one.name for one in every_language())
        raise NotebookFormatError(
            f"There are no percent scripts in {language}", hint=f"Export it as markdown; there are: {known}"
        )
    return found.suffixes[0]


def _lost(document: Document, text: str, variant: Variant, suffix: str) -> Iterator[str]:
    """What does not come back: some texts look like jupytext's own marks."""
    expected = [(cell.kind, cell.source) for cell in document.cells]
    try:
        draft = _parsed(text, variant, suffix, "The script")
    except NotebookFormatError as error:
        yield f"It cannot be read back: {error.message}"
        return
    found = [(cell.kind, cell.source) for cell in draft.cells]
    if found != expected:
        pairs = zip(document.cells, found, strict=False)
        first = next((cell.id for cell, one in pairs if (cell.kind, cell.source) != one), "the end")
        yield (
            f"From {first} on it does not read back the same: the format drops blank lines at a cell's end, and takes "
            "some texts for its own marks"
        )


# Reading -------------------------------------------------------------------------------------------------------------


def _script_suffix(text: str, name: str) -> str:
    """The script's suffix: its file's, what its header says, or that of a language with such comments."""
    suffix = PurePosixPath(name).suffix
    if language_of_file(name) is not None:
        return suffix
    if (header := _header.search(text)) is not None:
        return header["suffix"]
    found = _percent.search(text)
    return _suffix(_BY_COMMENT[found["comment"]] if found else "python")


def _parsed(text: str, variant: Variant, suffix: str, name: str) -> Draft:
    import jupytext  # an extra

    known = language_of_file(f"x{suffix}")
    usual = _suffix(known) if known is not None else suffix
    extension = _STAND_IN.get(usual, usual)
    if extension != usual:
        text = text.replace(f"extension: {usual}\n", f"extension: {extension}\n", 1)
    _check_references(text, name)
    _check_lines(text, name)
    try:
        notebook = jupytext.reads(text, fmt={"extension": extension, "format_name": variant})
        return _draft(notebook, known or "python")
    except NotebookFormatError:
        raise
    except RecursionError as error:
        raise NotebookFormatError(f"{name} is nested too deeply") from error
    except Exception as error:  # boundary: jupytext and its YAML raise whatever they stumble over
        reason = " ".join(str(error).split())[:300]
        raise NotebookFormatError(f"{name} is not a {variant} notebook: {reason}") from error


def _check_references(text: str, name: str) -> None:
    """Refuse YAML whose references multiply: nine lines of them can stand for a billion values."""
    anchors = set(_anchor.findall(text))
    if anchors and sum(alias in anchors for alias in _alias.findall(text)) > _MAX_REFERENCES:
        raise NotebookFormatError(
            f"{name} has more than {_MAX_REFERENCES} references in its YAML", hint="Write the values out"
        )


def _check_lines(text: str, name: str) -> None:
    """Refuse lines of which jupytext would take the square of their length, in expressions that nobody can stop."""
    if (found := _wide_margin.match(text) or _long_mark.search(text)) is not None:
        line = text.count("\n", 0, found.end()) + 1
        raise NotebookFormatError(f"{name}, line {line}: it is too long for what it says", hint="Shorten it")


def _draft(notebook: Any, language: str) -> Draft:
    budget = [_MAX_VALUES]
    metadata = _plain(dict(notebook.metadata), budget)
    spec = metadata.get("kernelspec")
    named = spec.get("language") if isinstance(spec, dict) else None
    # A script's suffix says its language; a page says it in its header, or nowhere.
    main = canonical_language(named) if isinstance(named, str) and named else language
    # A kernelspec that has its language's name says no more than that name.
    kept = {key: value for key, value in metadata.items() if key not in _NOT_KEPT}
    if isinstance(spec, dict) and spec.get("name") != main:
        kept["kernelspec"] = {**spec, "language": main}
    cells = tuple(_draft_cell(cell, budget) for cell in notebook.cells)
    titles = (_title.search(cell.source) for cell in cells if cell.kind == "markdown")
    return Draft(cells, next((found["title"] for found in titles if found), None), main, kept)


def _draft_cell(cell: Any, budget: list[int]) -> DraftCell:
    metadata = _plain(dict(cell.metadata), budget)
    own = own_section(metadata)
    language, filename, tags = own.get("language"), own.get("filename"), metadata.get("tags")
    return DraftCell(
        cast("CellKind", cell.cell_type),
        cell.source,
        language=language if isinstance(language, str) else None,
        filename=filename if isinstance(filename, str) else None,
        tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
        metadata={key: value for key, value in metadata.items() if key not in _OURS},
    )


def _plain(value: Any, budget: list[int]) -> Any:
    """YAML's value as JSON's, within bounds."""
    budget[0] -= 1
    if budget[0] < 0:
        raise NotebookFormatError(f"The metadata holds more than {_MAX_VALUES:,} values")
    match value:
        case dict():
            return {str(key): _plain(held, budget) for key, held in value.items()}
        case list() | tuple():
            return [_plain(held, budget) for held in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
