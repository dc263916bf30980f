"""The languages that notebooks are written in: one table of names, aliases, file suffixes and comments. Pure.

Also where a notebook and its cells say which language they are in. What runs a language is not known here (see
kernels).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cellwright.notebook.cells import OWN_SECTION, Cell, own_section

if TYPE_CHECKING:
    from cellwright.notebook.document import Document

__all__ = [
    "BOOK_KEYS",
    "LANGUAGES",
    "Language",
    "canonical_language",
    "cell_language",
    "cell_metadata",
    "find_language",
    "language_of_file",
    "notebook_language",
    "notebook_package",
    "notebook_tsconfig",
]

BOOK_KEYS = ("tsconfig", "package", "tsconfig_source", "package_source")
"""What the ``cellwright`` section of a notebook's metadata says about its text, and not about a run. The sources are
the JSON of the two as somebody wrote it: an ``.ipynb`` sorts the keys of objects."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language as the rest of the world writes it."""

    name: str
    """What Cellwright calls it, and what a Markdown fence says."""
    suffixes: tuple[str, ...]
    """Of its files; the first is the one that is written."""
    aliases: tuple[str, ...] = ()
    comment: str = "#"
    """What begins a comment that goes to the end of the line."""
    editor_name: str = ""
    """What VS Code calls it, where that is another name."""


LANGUAGES: tuple[Language, ...] = (
    Language("python", (".py",), ("py", "py3", "python3", "ipython", "ipython3")),
    Language("typescript", (".ts", ".mts", ".cts"), ("ts", "mts", "cts", "tsx", "deno"), "//"),
    Language("javascript", (".js", ".mjs", ".cjs"), ("js", "mjs", "cjs", "jsx", "node", "nodejs"), "//"),
    Language("sql", (".sql",), ("duckdb", "sqlite", "postgresql", "postgres", "mysql"), "--"),
    Language("r", (".R", ".r"), ("ir", "rlang")),
    Language("julia", (".jl",), ("jl",)),
    Language("bash", (".sh", ".bash"), ("sh", "shell", "shellscript", "zsh"), editor_name="shellscript"),
)

_BY_NAME: Mapping[str, Language] = MappingProxyType(
    {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}
)
_BY_SUFFIX: Mapping[str, Language] = MappingProxyType(
    {suffix: language for language in LANGUAGES for suffix in language.suffixes}
)


def find_language(name: str) -> Language | None:
    """The language of this name or alias; none where it is not one of the table's."""
    return _BY_NAME.get(name.strip().lower())


def canonical_language(name: str) -> str:
    """What Cellwright calls a language; a name that is not known is only brought to lower case."""
    found = find_language(name)
    return found.name if found is not None else name.strip().lower()


def language_of_file(filename: str) -> str | None:
    """The language that a file's name tells; none where it tells none."""
    found = _BY_SUFFIX.get(PurePosixPath(filename).suffix)
    return found.name if found is not None else None


def notebook_language(document: Document) -> str:
    """The language that a notebook says it is written in; Python where it says nothing."""
    metadata = document.metadata
    for owner, key in (("kernelspec", "language"), ("language_info", "name")):
        section = metadata.get(owner)
        named = section.get(key) if isinstance(section, Mapping) else None
        if isinstance(named, str) and named.strip():
            return canonical_language(named)
    return "python"


def cell_language(document: Document, cell: Cell) -> str:
    """The language of a code cell: its own, or the notebook's."""
    return canonical_language(cell.language) if cell.language else notebook_language(document)


def notebook_tsconfig(document: Document) -> dict[str, Any] | None:
    """The compiler options that a TypeScript notebook brings along."""
    return _object(own_section(document.metadata).get("tsconfig"))


def notebook_package(document: Document) -> dict[str, Any] | None:
    """The ``package.json`` that a notebook brings along."""
    return _object(own_section(document.metadata).get("package"))


def cell_metadata(
    *,
    language: str | None = None,
    filename: str | None = None,
    tags: Sequence[str] = (),
    explains: bool = False,
    also: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A cell's metadata that says these things, in our own words and in those of editors that know them.

    ``explains``: a plan writes it to explain a step. ``also`` is metadata that it has besides.
    """
    metadata = dict(also or {})
    said = (("language", language), ("filename", filename), ("explains", explains))
    own = {name: value for name, value in said if value}
    if own:
        metadata[OWN_SECTION] = {**own_section(metadata), **own}
    if language:
        known = find_language(language)
        editor = (known.editor_name or known.name) if known is not None else language
        section = metadata.get("vscode")
        metadata["vscode"] = {**(section if isinstance(section, Mapping) else {}), "languageId": editor}
    if tags:
        metadata["tags"] = list(tags)
    return metadata


def _object(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None
