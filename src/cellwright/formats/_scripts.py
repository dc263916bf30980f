"""A notebook as a plain program of its language: its code in order, and all else as comments. Pure, and one way."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from cellwright.errors import NotebookFormatError
from cellwright.formats.model import Writing, Written, encoded
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import Language, every_language, find_language

__all__ = ["write_script"]

_NEAR = {"typescript": {"javascript"}}

_magic = re.compile(r"[ \t]*[%!?]")


def write_script(document: Document, writing: Writing) -> Written:
    """The program.

    Raises:
        NotebookFormatError: nothing is known of the language's files.
    """
    main = document.language
    language = find_language(main)
    if language is None:
        known = ", ".join(one.name for one in every_language())
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
            if cell.kind == "code" and (name := document.language_of(cell)) and not _is_main(name, language)
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
        named = document.language_of(cell)
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
