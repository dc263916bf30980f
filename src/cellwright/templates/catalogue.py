"""Which templates there are: the folders of plugins, ours first, and what the user added. Runs nothing of them."""

from __future__ import annotations

import difflib
import json
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from cellwright.errors import TemplateError, UnknownTemplate
from cellwright.plugins.registry import Registry, registry
from cellwright.templates.model import MANIFEST, MOST_BYTES, Template, belongs, read_template

__all__ = ["ORIGIN", "Catalogue", "files_of"]

ORIGIN = "origin.json"
"""Beside a template that came from a gallery: which one, and the SHA-256 of its files."""

_ADDED = "added"

_log = logging.getLogger(__name__)


class Catalogue:
    """The templates of some folders, each by its name; a folder earlier in the list wins."""

    def __init__(self, folders: Sequence[tuple[str, Path]], *, plugins: Registry | None = None) -> None:
        """``folders`` hold templates, besides those of plugins; each with the words for where those come from.

        ``plugins`` are those of this process by default.
        """
        self._folders = tuple(folders)
        self._plugins = plugins

    @classmethod
    def at(cls, storage: Path) -> Self:
        """The templates that a user of this storage directory has: ours, and those that were added."""
        return cls([(_ADDED, storage / "templates")])

    def templates(self) -> list[Template]:
        """Read every template; one that cannot be read is logged and left out."""
        found: dict[str, Template] = {}
        for source, folder in self._places():
            if folder.name in found:
                continue
            try:
                found[folder.name] = read_template(folder.name, files_of(folder), source=source)
            except TemplateError as error:
                _log.warning("template_left_out name=%s %s", folder.name, error)
        return list(found.values())

    def find(self, name: str) -> Template:
        """Read the template of this name.

        Raises:
            UnknownTemplate: there is none; the hint has the nearest.
            TemplateError: it cannot be read.
        """
        for source, folder in self._places():
            if folder.name == name:
                return read_template(name, files_of(folder), source=source)
        names = list(dict.fromkeys(folder.name for _, folder in self._places()))
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        lines = "; ".join(
            f"{one.name}({', '.join(p.name for p in one.parameters)})" for one in self.templates()
        )
        hint = f"Did you mean {near[0]}? There are: {lines}" if near else f"There are: {lines}"
        raise UnknownTemplate(f"There is no template {name[:80]!r}", hint=hint)

    def search(self, words: str) -> list[Template]:
        """The templates that have every one of these words in their name, title, description or keywords."""
        wanted = words.lower().split()
        return [one for one in self.templates() if all(word in _text_of(one) for word in wanted)]

    def _places(self) -> Iterator[tuple[str, Path]]:
        there = self._plugins or registry()
        registered = ((plugin.entry.distribution, path) for plugin, path in there.every("templates"))
        for source, folder in (*registered, *self._folders):
            for inner in _folders_in(folder):
                yield (_origin(inner) if source == _ADDED else None) or source, inner


def _folders_in(folder: Path) -> list[Path]:
    """Those that say that they are templates; none where the folder is not there, or not for us."""
    try:
        return [inner for inner in sorted(folder.iterdir()) if (inner / MANIFEST).is_file()]
    except OSError:
        return []


def _text_of(template: Template) -> str:
    return " ".join((template.name, template.title, template.description, *template.keywords)).lower()


def _origin(folder: Path) -> str | None:
    """The gallery that a template was added from."""
    try:
        return str(json.loads((folder / ORIGIN).read_bytes())["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def files_of(folder: Path) -> dict[str, bytes]:
    """Read a template's files: plain ones of bounded size; a link is followed nowhere.

    Raises:
        TemplateError: one of them is a link, no plain file or too large.
    """
    found: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        if belongs(path.name):
            found[path.name] = _content(path)
    return found


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_plainly) as file:
            is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(MOST_BYTES + 1) if is_plain else b""
        why = None if is_plain else "it is no plain file"
    except OSError as error:
        why = error.strerror
    if why is not None:
        raise TemplateError(
            f"{path.parent.name}/{path.name} cannot be read: {why}",
            hint="A template has plain files, and no links",
        )
    if len(content) > MOST_BYTES:
        raise TemplateError(
            f"{path.parent.name}/{path.name} has more than {MOST_BYTES:,} bytes",
            hint="Keep data out of templates: have the notebook read or make it",
        )
    return content


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
