"""Keeps one session's document and its file together: notices what others wrote, merges it, saves ours.

The document in memory is the truth while a session is open. ``base`` is what the file and the document last had in
common, so that a merge knows who changed what. It journals nothing by itself (see ``document``).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio

from cellwright.engine.journal import Statement
from cellwright.errors import NotebookError, NotebookFormatError
from cellwright.notebook import (
    Conflict,
    Document,
    FileState,
    changed_since,
    merge,
    read_notebook,
    write_atomically,
)

__all__ = ["Halfway", "NotebookFile", "Noticed", "came_from"]
Alter: TypeAlias = Callable[[Document], object]

# Many programs empty a file before they write it, Jupyter's server among them: what is no notebook may become one.
_WRITING_S = 5.0


class Halfway(Exception):
    """Somebody seems to be writing the file or changing the document just now: look again."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """Somebody else changed the file; what of theirs could not be reconciled with ours."""

    conflicts: tuple[Conflict, ...]


@dataclass(slots=True, eq=False)
class Proposal:
    """Something in the document that the journal does not have yet; ``seq`` is the number of its first event."""

    alter: Alter
    seq: int
    accepted: bool = False


class NotebookFile:
    """A document, its file, and what they last had in common."""

    def __init__(
        self, path: Path, document: Document, *, base: Document, file: FileState | None, seq: int
    ) -> None:
        self.path = path
        self.document = document
        self.dirty = False
        self.owed = False
        """Whether the file lacks something that others are waiting to find in it."""
        self.guests = Guests()
        """Others who have the file open and save over it."""
        self._base = base
        self._file = file
        self._seq = seq
        self._saving = anyio.Lock()
        self._removed = False
        self._sure: Document | None = None
        """The document without what the journal may still refuse, and without what came after that."""
        self._unsure: deque[Proposal] = deque()
        """What the document has more, in order, the first of it one that may be refused."""

    @property
    def base(self) -> Document:
        """What the file and the document last had in common."""
        return self._base

    @property
    def is_due(self) -> bool:
        """Whether the file is to be written. Under a guest's hands only for what it does not know: it is asked then."""
        return self.dirty and not self._removed and (self.owed or not self.guests)

    def notice(self, seq: int, by_hand: Container[str] = ()) -> Noticed | None:
        """Take in what somebody else wrote to the file since we last looked; cheap when nobody did.

        ``seq`` is the number of the newest event that the document has taken in, ``by_hand`` are the cells that
        somebody ran who shows them by himself.

        Raises:
            Halfway: it is no notebook, and was written a moment ago; or what it is merged with may still be refused.
        """
        try:
            if not self._changed():
                return None
            if self._sure is not None:
                raise Halfway
            if not self.path.exists():
                # Deleted or moved away under us: the next save puts it back, nothing is lost.
                self.dirty, self._file = True, None
                return None
            theirs, file = read_notebook(self.path)
        except NotebookFormatError as error:
            if self._is_fresh():
                raise Halfway from error
            return self._set_aside(error)
        except NotebookError:
            # Not to be read just now: work goes on, and the next save tells what is wrong with it.
            self.dirty = True
            return None
        merged = merge(self.guests.base_of(theirs, self._base), self.document, theirs)
        self.document = merged.document
        self._base, self._file, self._seq = theirs, file, seq
        self.dirty = self.dirty or merged.document.to_bytes() != theirs.to_bytes()
        self.owed = self.owed or _gist(merged.document, by_hand) != _gist(theirs, by_hand)
        return Noticed(merged.conflicts) if merged.changed else None

    def alter(self, alter: Alter) -> None:
        """Let the document have something that has happened."""
        alter(self.document)
        if self._sure is not None:
            self._unsure.append(Proposal(alter, 0, accepted=True))

    def propose(self, alter: Alter, seq: int) -> Proposal:
        """Let the document have something that is to be journalled from number ``seq`` on, and may be refused.

        Raises:
            NotebookError: it does not fit the document, which is as it was.
        """
        before = self.document.copy()
        try:
            alter(self.document)
        except NotebookError:
            self.document = before
            raise
        proposal = Proposal(alter, seq)
        self._sure = self._sure or before
        self._unsure.append(proposal)
        return proposal

    def accept(self, proposal: Proposal) -> None:
        """The journal has a proposal, and so all before it."""
        proposal.accepted = True
        if all(one.accepted for one in self._unsure):
            self._sure, self._unsure = None, deque()
        while self._sure is not None and self._unsure[0].accepted:
            self._unsure.popleft().alter(self._sure)

    def refuse(self) -> None:
        """The journal refuses all proposals: the document is as if nobody had made them."""
        if self._sure is None:
            return
        self.document, unsure = self._sure, self._unsure
        self._sure, self._unsure = None, deque()
        for one in unsure:
            # What happened to a cell that a proposal had brought is gone with it.
            with suppress(NotebookError):
                if one.accepted:
                    one.alter(self.document)

    def _changed(self) -> bool:
        """Whether somebody else wrote the file. It is read only where its times or size are not what they were."""
        known = self._file
        if known is None:
            return self.path.exists()
        try:
            now = self.path.stat()
        except OSError:
            return True
        if (now.st_size, now.st_mtime_ns, now.st_ino) == (known.size, known.mtime_ns, known.inode):
            return False
        return changed_since(self.path, known)

    def _is_fresh(self) -> bool:
        try:
            return abs(time.time() - self.path.stat().st_mtime) < _WRITING_S
        except OSError:
            return False

    def _set_aside(self, error: NotebookFormatError) -> Noticed:
        """Keep what somebody wrote that is no notebook, before the next save takes its place."""
        aside = self.path.with_name(f"{self.path.stem}.unreadable-{secrets.token_hex(3)}{self.path.suffix}")
        self.path.replace(aside)
        self.dirty, self._file = True, None
        note = f"{error.message}; that file is kept as {aside.name}, and the document here goes on"
        return Noticed((Conflict(None, None, note),))

    async def save(self, seq: Callable[[], int]) -> bool:
        """Write the document to its file if they differ; true if it was written.

        ``seq`` tells the number of the newest event that the document has taken in.

        Raises:
            SaveFailed: the file could not be written; the document stays dirty.
        """
        async with self._saving:
            if self._removed or not self.dirty:
                return False
            if self._sure is None:
                snapshot, at = self.document.copy(), seq()
            else:
                snapshot, at = self._sure.copy(), self._unsure[0].seq - 1
            self.dirty = self.owed = self._sure is not None
            write = partial(write_atomically, self.path, snapshot.to_bytes(), follow=False)
            try:
                self._file = await anyio.to_thread.run_sync(write)
            except BaseException:
                self.dirty = self.owed = True
                raise
            self._base, self._seq = snapshot, at
            self.guests.wrote(snapshot)
            return True

    async def rename(self, path: Path) -> bool:
        """Give the file another name in its folder; false where that name is taken."""
        async with self._saving:
            if not await anyio.to_thread.run_sync(_renamed, self.path, path):
                return False
            self.path = path
            return True

    async def remove(self) -> None:
        """Remove the file for good: after a save that is under way, and no later save brings it back."""
        async with self._saving:
            self._removed = True
            await anyio.to_thread.run_sync(lambda: self.path.unlink(missing_ok=True))

    def base_row(self, session_id: str) -> Statement:
        """The row from which the document can be rebuilt, together with the events after its number."""
        file = json.dumps(asdict(self._file)) if self._file is not None else None
        versions = json.dumps(self._base.versions)
        return (
            "INSERT OR REPLACE INTO documents VALUES (?,?,?,?,?)",
            (session_id, self._seq, self._base.to_bytes().decode(), versions, file),
        )


def _renamed(old: Path, new: Path) -> bool:
    """Move a file to a name that nobody has; one that is not there is written under it later."""
    try:
        # Unlike a rename it never takes another file's place.
        os.link(old, new)
    except FileExistsError:
        return False
    except FileNotFoundError:
        return not new.exists()
    except PermissionError:  # a file system without links says so
        if new.exists():
            return False
        old.rename(new)
        return True
    old.unlink(missing_ok=True)
    return True


def _gist(document: Document, by_hand: Container[str]) -> list[tuple[str, str, str, int | None]]:
    """What of a notebook a person would miss; not our own notes, nor what they ran and saved before its end."""
    return [
        (cell.id, cell.kind, cell.source, cell.execution_count if cell.id not in by_hand else None)
        for cell in document.cells
    ]


# Programs beside us that hold a notebook in memory, such as JupyterLab, and save what they hold over our
# file.

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
