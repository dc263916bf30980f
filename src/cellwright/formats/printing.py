"""A notebook as data for print: the tree that ``templates/notebook.typ`` lays out, and the pictures beside it.

Compiles nothing (see ``pdf``). Nothing in the tree is markup: typst reads it as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cellwright.formats.exhibits import attached_pictures, exhibits_of, sound
from cellwright.formats.printoutputs import Album, OutputSetter
from cellwright.formats.printprose import Node, ProseSetter, reads_from_right
from cellwright.formats.standing import CellStanding, cell_standing, notebook_notes
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import notebook_language

__all__ = ["Book", "set_book", "texts_of"]

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
    language = notebook_language(document)
    blocks: list[Node] = []
    for place, (cell, record) in enumerate(zip(document.cells, document.records, strict=True), 1):
        if cell.kind == "markdown":
            blocks += prose.blocks(sound(cell.source), attached_pictures(record.fields.get("attachments")))
        elif cell.kind == "raw":
            blocks += [{"t": "code", "v": sound(cell.source)[:_CODE_CHARACTERS], "lang": None}]
        else:
            called = f"Cell [{cell.execution_count}]" if cell.execution_count else f"Cell {place}"
            shown = exhibits_of(cell.outputs) if include_outputs else []
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
        return any([_mark_long(one) for one in node])  # noqa: C419  # all of them must be marked
    if not isinstance(node, dict):
        return False
    long = any([_mark_long(value) for key, value in node.items() if key not in _UNSEEN])  # noqa: C419  # as above
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
