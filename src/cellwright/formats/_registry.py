"""Every format in one table, and the two ways through it: a document out, a document in.

A format is a row: adding one is writing its functions and naming them here. Rows whose libraries are heavy import
them in their functions.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePath
from typing import TypeAlias

from cellwright.errors import MissingExtra, NotebookFormatError
from cellwright.formats._html import write_html
from cellwright.formats._json_formats import read_ipynb, read_json, without_outputs, write_ipynb, write_json
from cellwright.formats._jupytext_formats import read_myst, read_script, write_myst, write_percent
from cellwright.formats._markdown import read_markdown, write_markdown
from cellwright.formats._pdf import write_pdf
from cellwright.formats._srcbook import read_srcmd, write_srcmd
from cellwright.formats.model import Exported, FindFile, Imported, Reading, Writing, Written, encoded
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import LANGUAGES, Language, cell_language, find_language, notebook_language

__all__ = [
    "FORMATS",
    "Format",
    "export",
    "format_named",
    "format_of_file",
    "missing_extra",
    "read",
    "readable",
    "writable",
]
# A notebook as a plain program of its language: its code in order, and all else as comments. Pure, and one
# way.


_NEAR = {"typescript": {"javascript"}}

_magic = re.compile(r"[ \t]*[%!?]")


def write_script(document: Document, writing: Writing) -> Written:
    """The program.

    Raises:
        NotebookFormatError: nothing is known of the language's files.
    """
    main = notebook_language(document)
    language = find_language(main)
    if language is None:
        known = ", ".join(one.name for one in LANGUAGES)
        raise NotebookFormatError(
            f"There are no scripts in {main}", hint=f"Export it as markdown; there are: {known}"
        )
    name = "" if _has_title(document) else _comment(writing.name, language)
    parts = [name, *_parts(document, language)]
    content, notices = encoded("\n\n".join(part for part in parts if part) + "\n")
    others = sorted(
        {
            name
            for cell in document.cells
            if cell.kind == "code"
            and (name := cell_language(document, cell))
            and not _is_main(name, language)
        }
    )
    told = (f"Cells in {', '.join(others)} are comments",) if others else ()
    return Written(content, (*notices, *told), suffix=language.suffixes[0])


def _has_title(document: Document) -> bool:
    """Whether the notebook begins with a title of its own."""
    first = document.cells[0] if len(document) else None
    return first is not None and first.kind == "markdown" and first.source.lstrip().startswith("# ")


def _parts(document: Document, language: Language) -> Iterator[str]:
    for cell in document.cells:
        if cell.kind != "code":
            yield _comment(cell.source, language)
            continue
        named = cell_language(document, cell)
        if _is_main(named, language):
            filename = cell.filename
            head = f"{_comment(filename, language)}\n" if filename else ""
            yield head + _code(cell, language)
        else:
            yield _comment(f"A cell in {named}:\n{cell.source}", language)


def _is_main(named: str, language: Language) -> bool:
    return named == language.name or named in _NEAR.get(language.name, ())


def _code(cell: Cell, language: Language) -> str:
    source = cell.source.strip("\n")
    match language.name:
        case "python":
            return _python(source, language)
        case "sql" if source.strip() and not source.rstrip().endswith(";"):
            return f"{source}\n;"
        case _:
            return source


def _python(source: str, language: Language) -> str:
    """Python that Python understands: what only IPython does becomes a comment."""
    if _is_python(source):
        return source
    if source.lstrip().startswith("%%"):
        return _comment(source, language)
    lines = [_comment(line, language) if _magic.match(line) else line for line in source.split("\n")]
    repaired = "\n".join(lines)
    return repaired if _is_python(repaired) else source


def _is_python(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and the like: the user's business, not ours
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _comment(text: str, language: Language) -> str:
    # Every character that any language takes for the end of a line must end the comment's line too; and Python
    # reads no file with a NUL in it.
    text = text.replace("\0", "\ufffd")
    return "\n".join(f"{language.comment} {line}".rstrip() for line in text.strip("\r\n").splitlines())


Writer: TypeAlias = Callable[[Document, Writing], Written]

Reader: TypeAlias = Callable[[bytes, Reading], Imported]

_MANY_CELLS = 100_000

_HEAD = 4_000

# What people call files of plain text, or what has no name at all.
_TEXTS = frozenset({"", ".txt", ".text"})

_srcbook = re.compile(rb"<!--\s*srcbook:")

_myst = re.compile(rb"---\r?\n(?:.*\n)*?\s+format_name: myst\r?\n")

_SCRIPTS = tuple(suffix for language in LANGUAGES for suffix in language.suffixes)


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


FORMATS: tuple[Format, ...] = (
    Format("ipynb", "application/x-ipynb+json", (".ipynb",), write_ipynb, read_ipynb),
    Format("json", "application/json", (".json",), write_json, read_json),
    Format("markdown", "text/markdown", (".md", ".markdown"), write_markdown, read_markdown),
    Format("src.md", "text/markdown", (".src.md",), write_srcmd, read_srcmd, outputs=False),
    Format(
        "myst",
        "text/markdown",
        (".myst.md", ".myst"),
        write_myst,
        read_myst,
        extra="export",
        needs=("jupytext",),
        outputs=False,
    ),
    Format(
        "percent",
        "text/plain",
        _SCRIPTS,
        write_percent,
        read_script,
        extra="export",
        needs=("jupytext",),
        outputs=False,
    ),
    Format("html", "text/html", (".html", ".htm"), write_html, extra="export", needs=("nbconvert",)),
    Format("pdf", "application/pdf", (".pdf",), write_pdf, extra="export", needs=("typst",), binary=True),
    Format("script", "text/plain", (), write_script, read_script, extra="export", outputs=False),
)


def writable() -> tuple[str, ...]:
    """The names of the formats that can be written."""
    return tuple(one.name for one in FORMATS)


def readable() -> tuple[str, ...]:
    """The names of the formats that can be read."""
    return tuple(one.name for one in FORMATS if one.read is not None)


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        NotebookFormatError: there is none.
    """
    found = next((one for one in FORMATS if one.name == name), None)
    if found is None:
        raise NotebookFormatError(f"There is no format {name!r}", hint=f"Give one of {', '.join(writable())}")
    return found


def format_of_file(filename: str) -> Format | None:
    """The format that a file's name tells; the longest suffix counts."""
    fitting = [
        (len(suffix), one) for one in FORMATS for suffix in one.suffixes if filename.lower().endswith(suffix)
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
