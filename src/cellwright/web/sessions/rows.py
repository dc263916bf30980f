"""A session as one line of a table. Pure but for asking the engine what it knows."""

from __future__ import annotations

from dataclasses import dataclass

from cellwright.engine import Engine, Session

__all__ = ["SessionRow", "session_rows"]


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
    created_at: float
    reason: str | None
    branch_of: str | None


def session_rows(engine: Engine) -> list[SessionRow]:
    """Every session, the newest first."""
    rows = [_row(session) for session in engine.sessions()]
    return sorted(rows, key=lambda row: row.created_at, reverse=True)


def _row(session: Session) -> SessionRow:
    record, live = session.record, len(session.runs.live)
    state = "suspended" if session.state == "suspended" else "running" if live else "idle"
    return SessionRow(
        id=session.id,
        name=session.name,
        language=session.language,
        state=state,
        running=live,
        host=record.on or record.host,
        tier=session.tier,
        created_at=record.created_at,
        reason=session.reason,
        branch_of=record.branch_of,
    )
