"""The first page: every session with where it runs and how it stands, and the hosts, kept true while it is looked at.

What changes is only named to the page, which loads its own table again: each person may look at another choice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from cellwright.engine import Engine, Missed, Session
from cellwright.engine.host_actions import stop_host
from cellwright.engine.hosts import called_place
from cellwright.web._live import Change, LiveResponse
from cellwright.web.requests import PageRequest, action, page

__all__ = ["Choice", "SessionRow", "chosen", "counted"]

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


async def _sessions(request: PageRequest) -> Response:
    seq = request.engine.last_event
    return request.html("sessions.html", title="Sessions", seq=seq, states=STATES, **await _table(request))


async def _rows(request: PageRequest) -> Response:
    return request.fragment("sessions_table.html", **await _table(request))


async def _table(request: PageRequest) -> dict[str, Any]:
    asked = request.http.query_params
    choice = Choice(asked.get("state", ""), asked.get("text", ""), asked.get("sort", ""))
    rows = session_rows(request.engine, await request.engine.hosts.kernel_memory())
    return {
        "rows": chosen(rows, choice),
        "total": len(rows),
        "counts": counted(rows),
        "choice": choice,
        "heads": HEADS,
        "deleted": request.engine.deleted(),
        "undelete_s": request.engine.options.undelete_s,
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


async def _live(request: PageRequest) -> Response:
    return LiveResponse(request.http, _Source(request.engine))


async def _suspend(request: PageRequest) -> Response:
    session = request.session()
    await session.suspend(reason=f"{request.person.name} suspended it")
    return request.done(f"{session.title} is suspended")


async def _resume(request: PageRequest) -> Response:
    session = request.session()
    await session.resume()
    return request.done(f"{session.title} has a kernel again")


async def _delete(request: PageRequest) -> Response:
    session = request.session()
    await request.site.planner.pause(session.id)
    await request.engine.delete(session.id, later=True)
    return request.done(f"{session.title} is deleted; its notebook file stays")


async def _restore(request: PageRequest) -> Response:
    session = await request.engine.restore(request.http.path_params["deleted_id"])
    return request.done(f"{session.title} is back")


_SESSION_PAGES = [
    page("/", _sessions),
    page("/live", _live),
    page("/sessions", _rows),
    action("/sessions/{session_id}/suspend", _suspend, needs="own"),
    action("/sessions/{session_id}/resume", _resume, needs="own"),
    action("/sessions/{session_id}/delete", _delete, needs="own"),
    action("/sessions/{deleted_id}/restore", _restore, needs="own"),
]

# Sessions and hosts as lines of tables. Pure but for asking the engine what it knows.

STATES = ("running", "idle", "suspended", "held")
"""What the table can be narrowed to; a session that somebody has taken over is also one of the others."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What the table says of a session."""

    id: str
    title: str
    name: str
    """Of the notebook's file."""
    language: str
    state: str
    """``running``, ``idle``, ``suspended``."""
    running: int
    since: float | None
    """When the cell that runs began."""
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
    sort: str = ""
    """A column's name, with a ``-`` before it for the other way round."""

    def query(self, **wanted: str) -> str:
        """What an address says to ask for something else."""
        now = {"state": self.state, "text": self.text, "sort": self.sort}
        return urlencode({name: value for name, value in (now | wanted).items() if value})

    def order(self, column: str) -> str:
        """How a column's head is marked."""
        if self.sort.lstrip("-") != column:
            return "none"
        return "descending" if self.sort.startswith("-") else "ascending"


HEADS = {
    "title": "Notebook",
    "state": "State",
    "active": "Active",
    "memory": "Memory",
    "host": "Host",
    "client": "Client",
    "language": "Language",
    "created": "Age",
}
"""The columns that the table can be sorted by, in order."""

_ORDERS: dict[str, Callable[[SessionRow], Any]] = {
    "title": lambda row: row.title.casefold(),
    "state": lambda row: STATES.index(row.state),
    "active": lambda row: -row.active_at,
    "memory": lambda row: -(row.memory or 0),
    "host": lambda row: row.host,
    "client": lambda row: (row.held_by or row.client or "").casefold(),
    "language": lambda row: row.language,
    "created": lambda row: -row.created_at,
}


def session_rows(engine: Engine, memory: Mapping[str, int] | None = None) -> list[SessionRow]:
    """Every session, the newest first; ``memory`` by the ids of kernels."""
    rows = [_row(session, memory or {}) for session in engine.sessions()]
    return sorted(rows, key=lambda row: row.created_at, reverse=True)


def chosen(rows: Iterable[SessionRow], choice: Choice) -> list[SessionRow]:
    """Those that are wanted: in that state, with all of the words somewhere in what the table says."""
    words = choice.text.lower().split()
    found = [row for row in rows if _is_in(row, choice.state) and all(word in _text(row) for word in words)]
    order = _ORDERS.get(choice.sort.lstrip("-"))
    return sorted(found, key=order, reverse=choice.sort.startswith("-")) if order is not None else found


def counted(rows: Iterable[SessionRow]) -> dict[str, int]:
    """How many there are in each state."""
    count = Counter(row.state for row in rows)
    return {state: count[state] for state in STATES[:3]}


def _is_in(row: SessionRow, state: str) -> bool:
    return not state or row.state == state or (state == "held" and row.held_by is not None)


def _text(row: SessionRow) -> str:
    said = (row.id, row.title, row.name, row.language, row.host, row.client, row.held_by, row.reason)
    return " ".join(one for one in said if one).lower()


def _row(session: Session, memory: Mapping[str, int]) -> SessionRow:
    record, live = session.record, len(session.runs.live)
    state = "suspended" if session.state == "suspended" else "running" if live else "idle"
    return SessionRow(
        id=session.id,
        title=session.title,
        name=session.name,
        language=session.language,
        state=state,
        running=live,
        since=next((one.record.started_at for one in session.runs.live if one.record.started_at), None),
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


# The hosts that kernels live on: this machine, allocations with their place in the queue and their end,
# servers.


async def _hosts(request: PageRequest) -> Response:
    return request.fragment("hosts_table.html", hosts=await request.engine.hosts.list())


async def _stop(request: PageRequest) -> Response:
    """Let a host go with its kernels; the sessions stay."""
    host = (await request.form())["host"]
    stopped = await stop_host(request.engine, host)
    count = len(stopped.sessions)
    ended = f"{count} session{'s' if count != 1 else ''}, now suspended" if count else "no session"
    return request.done(f"{stopped.info.called or stopped.info.name} is stopped; it had kernels of {ended}")


_HOST_PAGES = [
    page("/hosts", _hosts),
    action("/hosts/stop", _stop, needs="own"),
]


# All sessions, and the hosts that they are on.

ROUTES = [*_SESSION_PAGES, *_HOST_PAGES]
