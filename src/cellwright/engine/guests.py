"""Programs beside us that hold a notebook in memory, such as JupyterLab, and save what they hold over our file.

Such a program may never have read what we wrote meanwhile. So what it saves is compared with the version it came from,
which is not always the newest: else everything that it does not know of would count as deleted. Merging itself is the
``keeper``'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cellwright.notebook import Document

__all__ = ["Guests", "came_from"]

# Between the first and the newest there is little to tell; a copy shares its cells with the next.
_MOST_VERSIONS = 8
_States: TypeAlias = dict[str, tuple[str, str, int | None, int]]


class Guests:
    """Who else has the notebook open, and which versions of the file they may have read."""

    def __init__(self) -> None:
        self._count = 0
        self._versions: list[Document] = []

    def __bool__(self) -> bool:
        return self._count > 0

    def came(self, base: Document) -> None:
        """One more reads the file, in which ``base`` is."""
        if not self:
            self._versions = [base]
        self._count += 1

    def left(self) -> None:
        self._count -= 1

    def wrote(self, document: Document) -> None:
        """The file has this from now on, by our hand."""
        if self:
            self._versions.append(document)
            del self._versions[1 : -_MOST_VERSIONS + 1]

    def base_of(self, theirs: Document, otherwise: Document) -> Document:
        """The version that somebody's file came from; nobody here has read one before it again."""
        if not self:
            return otherwise
        base = came_from(self._versions, theirs)
        self._versions = [theirs]
        return base


def came_from(versions: Sequence[Document], theirs: Document) -> Document:
    """The newest of a file's versions, oldest first, that ``theirs`` can be an edit of.

    A version is ruled out where ``theirs`` has no cell that was new in it, or has a cell as it was before it: nobody
    brings back what was there once. That ``theirs`` has what was new proves nothing: it may have run there too.
    """
    states = [_states(version) for version in versions]
    found = _states(theirs)
    for place in range(len(versions) - 1, 0, -1):
        if not any(_rules_out(states[place], earlier, found) for earlier in states[:place]):
            return versions[place]
    return versions[0]


def _rules_out(version: _States, earlier: _States, found: _States) -> bool:
    if version.keys() - earlier.keys() - found.keys():
        return True
    return any(found.get(cell_id) == before != version.get(cell_id) for cell_id, before in earlier.items())


def _states(document: Document) -> _States:
    """What tells versions apart, whoever wrote them down: texts, and which runs their outputs are of."""
    return {
        cell.id: (cell.kind, cell.source, cell.execution_count, len(cell.outputs)) for cell in document.cells
    }
