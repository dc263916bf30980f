"""A person takes a session over from whoever works on it, and gives it back."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.people import may
from cellwright.web.requests import Visit, deed

__all__ = ["ROUTES"]

_MAX_NOTE = 2_000


async def _take(visit: Visit) -> Response:
    """An owner may take it from anybody; others only where no other person has it."""
    session, person, form = visit.session(), visit.person, await visit.form()
    if session.held_by != person.name and not may(person, "own"):
        session.refuse_if_taken()
    await session.take_over(person.name)
    if form.get("stop"):
        await visit.site.planner.pause(session.id)
        await session.interrupt()
    return visit.done("It is yours. Agents can only read it until you give it back")


async def _give_back(visit: Visit) -> Response:
    session, form = visit.session(), await visit.form()
    await session.give_back(visit.person.name, form.get("note", "").strip()[:_MAX_NOTE])
    return visit.done("Given back. Agents are told what you changed")


ROUTES = [
    deed("/sessions/{session_id}/take", _take, while_held=True),
    deed("/sessions/{session_id}/give-back", _give_back),
]
