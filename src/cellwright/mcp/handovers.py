"""What agents are told of people who take sessions over and give them back. Pure; who is refused is decided in ``calls``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cellwright.engine.records import Handback, Hold
from cellwright.mcp.outputs import clean

__all__ = ["handback_note", "hold_data"]

_MOST_CELLS = 20
_MAX_NOTE = 1_000


def handback_note(handback: Handback) -> str:
    """That a session was given back, what was done with it meanwhile, and what the person says."""
    done = [f"{what} {_cells(cells)}" for what, cells in handback.meanwhile.told().items()]
    told = f"A person had this session and gave it back: {'; '.join(done) or 'no cell changed'}"
    if handback.note:
        told += f". {clean(handback.by)} says: {clean(handback.note)[:_MAX_NOTE]}"
    return told if not done else f"{told} (notebook_read shows how they are now)"


def hold_data(hold: Hold) -> dict[str, Any]:
    """Who has a session, and since when."""
    since = datetime.fromtimestamp(hold.at, tz=UTC).isoformat(timespec="seconds")
    return {"by": clean(hold.by), "since": since}


def _cells(cells: list[str]) -> str:
    more = f" and {len(cells) - _MOST_CELLS} more" if len(cells) > _MOST_CELLS else ""
    return ", ".join(cells[:_MOST_CELLS]) + more
