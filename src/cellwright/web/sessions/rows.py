"""Sessions and hosts as lines of tables. Pure but for asking the engine what it knows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cellwright.engine import Engine, Session
from cellwright.engine.hosts import called_place

__all__ = ["STATES", "Choice", "SessionRow", "chosen", "counted", "session_rows"]

STATES = ("running", "idle", "suspended", "held")
"""What the table can be narrowed to; a session that somebody has taken over is also one of the others."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What the table says of a session."""

    id: str
    name: str
    language: str
    state: str
    """``running``, ``idle``, ``suspended``."""
    running: int
    host: str
    tier: str | None
    memory: int | None
    """Of its kernel, in bytes; None where nobody can tell."""
    client: str | None
    """The program that works on it, or did last."""
    held_by: str | None
    created_at: float
    active_at: float
    reason: str | None
    branch_of: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which sessions somebody wants to see."""

    state: str = ""
    text: str = ""


def session_rows(engine: Engine, memory: Mapping[str, int] | None = None) -> list[SessionRow]:
    """Every session, the newest first; ``memory`` by the ids of kernels."""
    rows = [_row(session, memory or {}) for session in engine.sessions()]
    return sorted(rows, key=lambda row: row.created_at, reverse=True)


def chosen(rows: Iterable[SessionRow], choice: Choice) -> list[SessionRow]:
    """Those that are wanted: in that state, with all of the words somewhere in what the table says."""
    words = choice.text.lower().split()
    return [row for row in rows if _is_in(row, choice.state) and all(word in _text(row) for word in words)]


def counted(rows: Iterable[SessionRow]) -> dict[str, int]:
    """How many there are in each state."""
    count = Counter(row.state for row in rows)
    return {state: count[state] for state in STATES[:3]}


def _is_in(row: SessionRow, state: str) -> bool:
    return not state or row.state == state or (state == "held" and row.held_by is not None)


def _text(row: SessionRow) -> str:
    said = (row.id, row.name, row.language, row.host, row.client, row.held_by, row.reason)
    return " ".join(one for one in said if one).lower()


def _row(session: Session, memory: Mapping[str, int]) -> SessionRow:
    record, live = session.record, len(session.runs.live)
    state = "suspended" if session.state == "suspended" else "running" if live else "idle"
    return SessionRow(
        id=session.id,
        name=session.name,
        language=session.language,
        state=state,
        running=live,
        host=called_place(record) if session.state == "active" else record.host,
        tier=session.tier,
        memory=memory.get(record.kernel_id or ""),
        client=record.client,
        held_by=session.held_by,
        created_at=record.created_at,
        active_at=time.time() - (time.monotonic() - session.last_active),
        reason=session.reason,
        branch_of=record.branch_of,
    )
