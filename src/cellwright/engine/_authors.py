"""Who edited and ran a session's cells last, and when: read from the journal once, then kept as events are noted."""

from __future__ import annotations

from dataclasses import dataclass

from cellwright.engine.journal import Event, Journal

__all__ = ["Author", "Authors", "CellAuthors"]

_QUEUED = "kind = 'notebook.cell.executing' AND json_extract(data, '$.state') = 'queued'"
_WRITTEN = (
    "kind = 'notebook.state.changed'"
    " AND json_extract(data, '$.change.change') IN ('cell_added', 'source_changed')"
)
# Of a group, SQLite gives the row that has the maximum.
_NEWEST = (
    "SELECT cell, max(seq), time, json_extract(data, '$.by')"
    " FROM events WHERE session = ? AND cell IS NOT NULL AND {condition} GROUP BY cell"
)
_WRITES = frozenset({"cell_added", "source_changed"})


@dataclass(frozen=True, slots=True)
class Author:
    """Who did something, and when."""

    by: str | None
    """As the audit log names them: ``page:NAME``, ``mcp:PROGRAM``, ``lab``; None where nobody was named."""
    at: float
    seq: int
    """Of the event that says so."""


@dataclass(frozen=True, slots=True)
class CellAuthors:
    """Who worked on one cell last; None where the journal no longer has it."""

    edited: Author | None = None
    ran: Author | None = None


class Authors:
    """The authors of one session's cells. The journal is read when somebody first asks."""

    def __init__(self, journal: Journal, session_id: str) -> None:
        self._journal = journal
        self._session_id = session_id
        self._edited: dict[str, Author] = {}
        self._ran: dict[str, Author] = {}
        self.is_read = False
        """Whether the journal was read: until then it has what is journalled, and nothing need be taken in."""

    def take(self, event: Event) -> None:
        """Take in that a cell was written or queued, which the journal has by now."""
        if event.cell_id is None:
            return
        by = event.data.get("by")
        author = Author(by if isinstance(by, str) else None, event.time, event.seq)
        if event.kind == "notebook.cell.executing":
            self._ran[event.cell_id] = author
        elif (change := event.data.get("change", {}).get("change")) in _WRITES:
            self._edited[event.cell_id] = author
        elif change == "cell_deleted":
            self._edited.pop(event.cell_id, None)
            self._ran.pop(event.cell_id, None)

    def of(self, cell_id: str) -> CellAuthors:
        """Who worked on this cell last."""
        if not self.is_read:
            self.is_read = True
            self._edited, self._ran = self._read(_WRITTEN), self._read(_QUEUED)
        return CellAuthors(self._edited.get(cell_id), self._ran.get(cell_id))

    def _read(self, condition: str) -> dict[str, Author]:
        rows = self._journal.read(_NEWEST.format(condition=condition), (self._session_id,))
        return {cell: Author(by, at, seq) for cell, seq, at, by in rows}
