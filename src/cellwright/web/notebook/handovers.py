"""A person takes a session over from whoever works on it, and gives it back."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.people import may
from cellwright.web.requests import PageRequest, action

__all__ = ["ROUTES"]

_MAX_NOTE = 2_000


async def _take(request: PageRequest) -> Response:
    """An owner may take it from anybody; others only where no other person has it."""
    session, person, form = request.session(), request.person, await request.form()
    if session.held_by != person.name and not may(person, "own"):
        session.refuse_if_taken()
    await session.take_over(person.name)
    if form.get("stop"):
        await request.site.planner.pause(session.id)
        await session.interrupt()
    return request.done("It is yours. Agents can only read it until you give it back")


async def _give_back(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    await session.give_back(request.person.name, form.get("note", "").strip()[:_MAX_NOTE])
    return request.done("Given back. Agents are told what you changed")


ROUTES = [
    action("/sessions/{session_id}/take", _take, while_held=True),
    action("/sessions/{session_id}/give-back", _give_back),
]
