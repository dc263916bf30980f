"""Room for one more notebook among the sessions that may be active: those that earlier questions left make it.

Every question leaves its notebook with a live kernel, so that one can go on from it. Nobody wants to clean up after ten
questions. Sessions that people or other agents made are not touched.
"""

from __future__ import annotations

from collections.abc import Collection

from cellwright.engine import Engine, Session

__all__ = ["make_room"]

_REASON = "Another question needed a kernel, and this one was idle the longest (max_sessions)"


async def make_room(engine: Engine, count: int, *, made: Collection[str], busy: Collection[str]) -> None:
    """Suspend as many as ``count`` more need, the longest idle first: of those that were ``made`` here, or branched
    from these, and that no run is ``busy`` with."""
    missing = len(engine.sessions("active")) + count - engine.settings.max_sessions
    for session in _spare(engine.sessions("active"), made, busy)[: max(0, missing)]:
        await session.suspend(reason=_REASON)


def _spare(active: Collection[Session], made: Collection[str], busy: Collection[str]) -> list[Session]:
    found = [
        one
        for one in active
        if (one.id in made or one.record.branch_of in made) and one.id not in busy and not one.runs.live
    ]
    return sorted(found, key=lambda one: one.last_active)
