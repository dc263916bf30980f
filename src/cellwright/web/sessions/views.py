"""The first page: every session with where it runs and how it stands, kept true while it is looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response

from cellwright.engine import Engine, Missed
from cellwright.web.live import Change, LiveResponse
from cellwright.web.sessions.rows import session_rows
from cellwright.web.templates import render
from cellwright.web.visits import Visit, deed, page

__all__ = ["ROUTES"]

_PART = "sessions"
_CHANGING = frozenset(
    {
        "notebook.state.changed",
        "notebook.host.changed",
        "notebook.cell.executing",
        "notebook.cell.completed",
        "notebook.session.branched",
        "notebook.session.adopted",
    }
)


async def _sessions(visit: Visit) -> Response:
    seq = visit.engine.last_event
    rows = session_rows(visit.engine)
    return visit.html("sessions.html", title="Sessions", rows=rows, seq=seq)


class _Source:
    """The table of sessions, as one part."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        with self._engine.subscribe() as events:
            if since is not None and since < self._engine.last_event:
                yield Change(self._engine.last_event, frozenset({_PART}))
            async for event in events:
                if isinstance(event, Missed):
                    yield Change(event.last_seq, frozenset({_PART}))
                elif event.kind in _CHANGING:
                    yield Change(event.seq, frozenset({_PART}))

    async def render(self, part: str, upto: int) -> str | None:
        del upto  # made anew each time: it is small
        return render("sessions_table.html", rows=session_rows(self._engine)) if part == _PART else None


async def _live(visit: Visit) -> Response:
    return LiveResponse(visit.request, _Source(visit.engine))


async def _suspend(visit: Visit) -> Response:
    session = visit.session()
    await session.suspend(reason=f"{visit.person.name} suspended it")
    return visit.done(f"{session.name} is suspended")


async def _resume(visit: Visit) -> Response:
    session = visit.session()
    await session.resume()
    return visit.done(f"{session.name} has a kernel again")


async def _delete(visit: Visit) -> Response:
    session = visit.session()
    await visit.engine.delete(session.id)
    return visit.done(f"{session.name} is deleted; its notebook file stays", go="/")


ROUTES = [
    page("/", _sessions),
    page("/live", _live),
    deed("/sessions/{session_id}/suspend", _suspend, needs="own"),
    deed("/sessions/{session_id}/resume", _resume, needs="own"),
    deed("/sessions/{session_id}/delete", _delete, needs="own"),
]
