"""What sessions asked of the network, as the journal has it: noted with the other events, the newest of each kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgspec

from cellwright.engine.executions import Execution
from cellwright.engine.journal import Journal, Statement
from cellwright.engine.records import Batch, Recorder, SessionRecord
from cellwright.engine.recovery import read_event_rows
from cellwright.sandbox.network_log import NetworkEntry

__all__ = ["NetworkUse", "note_request", "read_requests"]

KEPT = 1_000
_TRIM_EVERY = 250
_KIND = "notebook.network.request"


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """A session's requests, oldest first; ``dropped`` counts older ones of the first of them's kernel."""

    entries: tuple[NetworkEntry, ...]
    dropped: int


def note_request(
    recorder: Recorder,
    batch: Batch,
    session: SessionRecord,
    entry: NetworkEntry,
    *,
    execution: Execution | None,
    at: float,
) -> None:
    """Journal a request; now and then the oldest go, since code may ask as often as it likes."""
    record = execution.record if execution is not None else None
    recorder.note(batch, "notebook.network.request", session, asdict(entry), execution=record, at=at)
    if entry.number % _TRIM_EVERY == 0:
        batch.statements.append(_trim(session.id))


def read_requests(journal: Journal, session_id: str) -> NetworkUse:
    """The newest requests of a session."""
    rows = read_event_rows(journal, "session = ? AND kind = ?", (session_id, _KIND))
    entries = tuple(msgspec.convert(dict(row.data), NetworkEntry) for row in rows[-KEPT:])
    return NetworkUse(entries, entries[0].number - 1 if entries else 0)


def _trim(session_id: str) -> Statement:
    newest = "SELECT seq FROM events WHERE session = ?1 AND kind = ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3"
    statement = f"DELETE FROM events WHERE session = ?1 AND kind = ?2 AND seq <= ({newest})"  # noqa: S608  # the line above
    return statement, (session_id, _KIND, KEPT)
