"""The languages that notebooks are written in, each a plugin: names, aliases, file suffixes, comments, and what runs them.

Also what the metadata of a new notebook or cell says of its language; ``document`` reads it. Ours are in
``own_languages``; how a kernel is started is not known here (see kernels).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from cellwright.notebook.cells import OWN_SECTION, own_section

if TYPE_CHECKING:
    from cellwright.plugins.registry import Registry

__all__ = [
    "BOOK_KEYS",
    "Language",
    "OnDeno",
    "OnKernelspec",
    "OnPython",
    "Runtime",
    "canonical_language",
    "cell_metadata",
    "every_language",
    "find_language",
    "language_of_file",
    "new_notebook_metadata",
]

BOOK_KEYS = ("tsconfig", "package", "tsconfig_source", "package_source")
"""What the ``cellwright`` section of a notebook's metadata says about its text, and not about a run. The sources are
the JSON of the two as somebody wrote it: an ``.ipynb`` sorts the keys of objects."""


@dataclass(frozen=True, slots=True)
class OnPython:
    """Cells run in the Python kernel, among its variables."""

    cells: str = ""
    """A module that the kernel imports: its ``python_of(source)`` gives what is run in a cell's place, its
    ``complete(shell, code, cursor)``, where it has one, Jupyter's reply to completion. Empty where cells are Python."""


@dataclass(frozen=True, slots=True)
class OnDeno:
    """Cells run in the Deno kernel."""

    dialect: str = ""
    """What its driver takes them for: ``javascript``, or TypeScript unless told."""


@dataclass(frozen=True, slots=True)
class OnKernelspec:
    """Cells run in a kernel that a Jupyter kernelspec starts."""

    name: str
    folder: Path | None = None
    """Where its ``kernel.json`` lies; None for one that is installed."""


Runtime: TypeAlias = OnPython | OnDeno | OnKernelspec

_NAME = re.compile(r"[a-z][a-z0-9_+#.-]*")
_SUFFIX = re.compile(r"\.[A-Za-z0-9_+#.-]+")


@dataclass(frozen=True, slots=True)
class Language:
    """A language as the rest of the world writes it, and what runs it. A plugin of the kind ``languages``."""

    name: str
    """What Cellwright calls it, and what a Markdown fence says: the name of its entry point."""
    suffixes: tuple[str, ...]
    """Of its files; the first is the one that is written."""
    aliases: tuple[str, ...] = ()
    comment: str = "#"
    """What begins a comment that goes to the end of the line."""
    editor_name: str = ""
    """What VS Code calls it, where that is another name."""
    runs: Runtime | None = None
    """None: a kernelspec that is installed under its name."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What a new notebook says in Jupyter's ``kernelspec`` and ``language_info``, where that is more than the name."""

    def __post_init__(self) -> None:
        for what, pattern, names in (
            ("name", _NAME, (self.name,)),
            ("alias", _NAME, self.aliases),
            ("suffix", _SUFFIX, self.suffixes),
        ):
            for one in names:
                if not pattern.fullmatch(one):
                    raise ValueError(f"{one!r} is no {what} of a language")
        if not self.suffixes or not self.comment:
            raise ValueError(f"{self.name} needs a suffix, and what begins a comment")


@dataclass(frozen=True, slots=True)
class _Table:
    """The languages of one registry by what they are called."""

    languages: tuple[Language, ...]
    by_name: Mapping[str, Language]
    by_suffix: Mapping[str, Language]


@lru_cache(maxsize=1)
def _table() -> _Table:
    from cellwright.plugins.registry import registry, when_replaced

    # Kept, since every cell looks into it.
    when_replaced(_table.cache_clear)
    return _table_of(registry())


def _table_of(there: Registry) -> _Table:
    languages: list[Language] = []
    by_name: dict[str, Language] = {}
    by_suffix: dict[str, Language] = {}
    for plugin, language in there.every("languages"):
        if plugin.entry.name != language.name:
            plugin.refused = (
                f"Its entry point is called {plugin.entry.name!r}, and its language {language.name!r}"
            )
        elif (first := by_name.get(language.name)) is not None:
            plugin.refused = f"{language.name!r} is another name of {first.name}"
        else:
            languages.append(language)
            # What stands first keeps its names: ours do.
            for name in (language.name, *language.aliases):
                by_name.setdefault(name, language)
            for suffix in language.suffixes:
                by_suffix.setdefault(suffix, language)
    return _Table(tuple(languages), by_name, by_suffix)


def every_language() -> tuple[Language, ...]:
    """All that are registered, ours first."""
    return _table().languages


def find_language(name: str) -> Language | None:
    """The language of this name or alias; none where it is not registered."""
    return _table().by_name.get(name.strip().lower())


def canonical_language(name: str) -> str:
    """What Cellwright calls a language; a name that is not known is only brought to lower case."""
    found = find_language(name)
    return found.name if found is not None else name.strip().lower()


def language_of_file(filename: str) -> str | None:
    """The language that a file's name tells; none where it tells none."""
    found = _table().by_suffix.get(PurePosixPath(filename).suffix)
    return found.name if found is not None else None


def new_notebook_metadata(language: str) -> dict[str, Any]:
    """What the metadata of a new notebook in this language says."""
    found = find_language(language)
    metadata = found.metadata if found is not None else {}
    return {**metadata, "language_info": metadata.get("language_info", {"name": language})}


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
    fields = (("language", language), ("filename", filename), ("explains", explains))
    own = {name: value for name, value in fields if value}
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
