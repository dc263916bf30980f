"""The first page: every session with where it runs and how it stands, and the hosts, kept true while it is looked at.

What changes is only named to the page, which loads its own table again: each person may look at another choice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from cellwright.engine import Engine, Missed
from cellwright.web.live import Change, LiveResponse
from cellwright.web.sessions.rows import STATES, Choice, chosen, counted, session_rows
from cellwright.web.visits import Visit, deed, page

__all__ = ["ROUTES"]

_TOUCHED = frozenset({"@sessions"})
_HOSTS_TOO = frozenset({"@sessions", "@hosts"})
_CHANGING = {
    "notebook.state.changed": _HOSTS_TOO,
    "notebook.host.changed": _HOSTS_TOO,
    "notebook.cell.executing": _TOUCHED,
    "notebook.cell.completed": _TOUCHED,
    "notebook.session.branched": _HOSTS_TOO,
    "notebook.session.adopted": _HOSTS_TOO,
    "notebook.session.taken": _TOUCHED,
    "notebook.session.given_back": _TOUCHED,
}


async def _sessions(visit: Visit) -> Response:
    seq = visit.engine.last_event
    return visit.html("sessions.html", title="Sessions", seq=seq, states=STATES, **await _table(visit))


async def _rows(visit: Visit) -> Response:
    return visit.fragment("sessions_table.html", **await _table(visit))


async def _table(visit: Visit) -> dict[str, Any]:
    asked = visit.request.query_params
    choice = Choice(asked.get("state", ""), asked.get("text", ""))
    rows = session_rows(visit.engine, await visit.engine.hosts.kernel_memory())
    query = urlencode({"state": choice.state, "text": choice.text})
    return {
        "rows": chosen(rows, choice),
        "total": len(rows),
        "counts": counted(rows),
        "choice": choice,
        "query": query,
    }


class _Source:
    """The names of what changed; there is nothing to render here."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        with self._engine.subscribe() as events:
            if since is not None and since < self._engine.last_event:
                yield Change(self._engine.last_event, _HOSTS_TOO)
            async for event in events:
                if isinstance(event, Missed):
                    yield Change(event.last_seq, _HOSTS_TOO)
                elif (parts := _touched(event.kind, event.data)) is not None:
                    yield Change(event.seq, parts)

    async def render(self, part: str, upto: int) -> str | None:
        del part, upto
        return ""


def _touched(kind: str, data: Any) -> frozenset[str] | None:
    """What an event makes untrue; an edit of a notebook nothing."""
    return None if "change" in data else _CHANGING.get(kind)


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
    await visit.site.planner.pause(session.id)
    await visit.engine.delete(session.id)
    return visit.done(f"{session.name} is deleted; its notebook file stays", go="/")


ROUTES = [
    page("/", _sessions),
    page("/live", _live),
    page("/sessions", _rows),
    deed("/sessions/{session_id}/suspend", _suspend, needs="own"),
    deed("/sessions/{session_id}/resume", _resume, needs="own"),
    deed("/sessions/{session_id}/delete", _delete, needs="own"),
]
