"""The formats there are, ours and other people's, and the two ways through them: a document out, a document in.

Each is a plugin of the kind ``formats``; ours are in ``_own_formats``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import PurePath

from cellwright.errors import MissingExtra, NotebookFormatError
from cellwright.formats._json_formats import without_outputs
from cellwright.formats.model import Exported, FindFile, Format, Imported, Reading, Writing, Written
from cellwright.notebook import Document
from cellwright.plugins.registry import registry

__all__ = [
    "every_format",
    "export",
    "format_named",
    "format_of_file",
    "missing_extra",
    "read",
    "readable",
    "writable",
]
_MANY_CELLS = 100_000

_HEAD = 4_000

# What people call files of plain text, or what has no name at all.
_TEXTS = frozenset({"", ".txt", ".text"})

_srcbook = re.compile(rb"<!--\s*srcbook:")

_myst = re.compile(rb"---\r?\n(?:.*\n)*?\s+format_name: myst\r?\n")


def every_format() -> tuple[Format, ...]:
    """All formats, ours first."""
    there = registry()
    found: list[Format] = []
    for plugin, one in there.every("formats"):
        reads = there.guarded(plugin, one.read, Imported) if one.read is not None else None
        writes = there.guarded(plugin, one.write, Written)
        # Ours go as they are; another's has the name under which it was let in.
        same = plugin.entry.is_ours
        found.append(one if same else replace(one, name=plugin.entry.name, read=reads, write=writes))
    return tuple(found)


def writable() -> tuple[str, ...]:
    """The names of the formats that can be written."""
    return tuple(one.name for one in every_format())


def readable() -> tuple[str, ...]:
    """The names of the formats that can be read."""
    return tuple(one.name for one in every_format() if one.read is not None)


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        NotebookFormatError: there is none.
    """
    found = next((one for one in every_format() if one.name == name), None)
    if found is None:
        raise NotebookFormatError(f"There is no format {name!r}", hint=f"Give one of {', '.join(writable())}")
    return found


def format_of_file(filename: str) -> Format | None:
    """The format that a file's name tells; the longest suffix counts."""
    fitting = [
        (len(suffix), one)
        for one in every_format()
        for suffix in one.suffixes
        if filename.lower().endswith(suffix)
    ]
    return max(fitting, key=lambda found: found[0])[1] if fitting else None


def missing_extra(chosen: Format) -> str | None:
    """The extra to install before a format can be written; None where nothing is missing."""
    return chosen.extra if any(find_spec(module) is None for module in chosen.needs) else None


def export(
    document: Document,
    *,
    name: str,
    format: str,  # the word that everybody uses
    include_outputs: bool = True,
    files_at: str | None = None,
) -> Exported:
    """A notebook in another format; the document is left as it is.

    ``files_at`` is a directory beside the file that will be written, for pictures that it refers to.

    Raises:
        NotebookFormatError: there is no such format, or it cannot hold this notebook.
        MissingExtra: the format's libraries are not installed.
    """
    chosen = format_named(format)
    given = document if include_outputs else without_outputs(document)
    try:
        written = chosen.write(given, Writing(name, files_at))
    except ImportError as error:
        raise MissingExtra(chosen.name, error, extra=chosen.extra or "export") from error
    notices = (*written.notices, *_without_outputs(chosen, given))
    return Exported(
        written.content, chosen.mime, written.suffix or chosen.suffixes[0], notices, written.files
    )


def _without_outputs(chosen: Format, document: Document) -> tuple[str, ...]:
    count = 0 if chosen.outputs else sum(bool(cell.outputs) for cell in document.cells)
    if not count:
        return ()
    whose = "1 cell is" if count == 1 else f"{count} cells are"
    return (f"The output of {whose} left out: {chosen.name} holds none",)


def read(
    content: bytes,
    *,
    name: str,
    format: str | None = None,  # as above
    max_cells: int = _MANY_CELLS,
    find_file: FindFile | None = None,
    language: str = "python",
) -> Imported:
    """A notebook from a file's content; ``name`` is the file's, and tells the format where none is given.

    ``language`` is that of code whose own the content does not tell. A Srcbook is known for one among Markdown pages.

    Raises:
        NotebookFormatError: the content is not what the format asks for; with the line, where there is one.
        TooManyCells: there are more than a notebook may hold.
        MissingExtra: the format's libraries are not installed.
    """
    chosen = format_named(format) if format is not None else _guessed(content, name)
    if chosen.name == "markdown" and _srcbook.match(_beginning(content)):
        chosen = format_named("src.md")
    if chosen.read is None:
        raise NotebookFormatError(
            f"Notebooks are written as {chosen.name} and not read from it",
            hint=f"Give one of {', '.join(readable())}",
        )
    try:
        return chosen.read(content, Reading(name, max_cells, find_file or (lambda _: None), language))
    except ImportError as error:
        raise MissingExtra(chosen.name, error, extra=chosen.extra or "export") from error


def _beginning(content: bytes) -> bytes:
    return content[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")


def _guessed(content: bytes, name: str) -> Format:
    """The format by the file's name, or else by how its content begins; a page may be one of several.

    Raises:
        NotebookFormatError: neither tells.
    """
    found = format_of_file(name)
    if found is not None and found.name != "markdown":
        return found
    head = _beginning(content)
    if found is None and head[:1] in {b"{", b"["}:
        return format_named("json")
    if _myst.match(head):
        return format_named("myst")
    if found is None and PurePath(name).suffix not in _TEXTS:
        raise NotebookFormatError(
            f"{name!r} does not tell its format", hint=f"Give the format: {', '.join(readable())}"
        )
    return format_named("markdown")
