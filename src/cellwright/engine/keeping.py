"""Keeps one session's document and its file together: notices what others wrote, merges it, saves ours.

The document in memory is the truth while a session is open. ``base`` is what the file and the document last had in
common, so that a merge knows who changed what. It journals nothing by itself (see ``sessions``).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Container
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from cellwright.engine.guests import Guests
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

__all__ = ["Halfway", "Keeper", "Noticed"]

# Many programs empty a file before they write it, Jupyter's server among them: what is no notebook may become one.
_WRITING_S = 5.0


class Halfway(Exception):
    """Somebody seems to be writing the file just now: look again."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """Somebody else changed the file; what of theirs could not be reconciled with ours."""

    conflicts: tuple[Conflict, ...]


class Keeper:
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
            Halfway: it is no notebook, and was written a moment ago.
        """
        try:
            if not self._changed():
                return None
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

    def _changed(self) -> bool:
        if self._file is None:
            return self.path.exists()
        return changed_since(self.path, self._file)

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
            snapshot, at = self.document.copy(), seq()
            self.dirty = self.owed = False
            try:
                self._file = await anyio.to_thread.run_sync(write_atomically, self.path, snapshot.to_bytes())
            except BaseException:
                self.dirty = self.owed = True
                raise
            self._base, self._seq = snapshot, at
            self.guests.wrote(snapshot)
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


def _gist(document: Document, by_hand: Container[str]) -> list[tuple[str, str, str, int | None]]:
    """What of a notebook a person would miss; not our own notes, nor what they ran and saved before its end."""
    return [
        (cell.id, cell.kind, cell.source, cell.execution_count if cell.id not in by_hand else None)
        for cell in document.cells
    ]
