"""Who is at a session now: people with its page open, MCP clients that work on it, the data agent. In memory only.

Frontends report who comes, what they do and who leaves (see ADR 48); the page shows it. The edits and runs themselves are in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import anyio

__all__ = ["Presence", "Present", "Visit", "Visitor", "name_of"]

_QUIET_S = 600.0
"""How long a visitor stays whose leaving nobody would notice, after the last that was heard of them."""

_NAMES = {
    "lab": "JupyterLab",
    "file": "another program",
    "person": "somebody in JupyterLab",
    "mcp:unnamed": "an agent",
    "mcp:claude-code": "Claude Code",
    "mcp:codex-mcp-client": "Codex",
    "mcp:gemini-cli-mcp-client": "Gemini CLI",
}


@dataclass(eq=False, slots=True, weakref_slot=True)
class Visitor:
    """One open page or one client's connection. It leaves when nobody holds it any more, at the latest."""

    stays: bool = True
    """Whether its leaving is noticed; one without a connection is gone once it was quiet for a while."""


@dataclass(slots=True)
class Visit:
    """What one visitor does at one session."""

    who: str
    """As the audit log names them."""
    at: float
    """When they were last heard of."""
    cell_id: str | None = None
    """The cell that they are writing in."""
    calls: dict[object, bool] = field(default_factory=dict)
    """For each call that goes on, whether it changes anything."""
    wants: bool = False
    """Whether they were refused because somebody else has the session."""


@dataclass(frozen=True, slots=True)
class Present:
    """Somebody who is here, with everything that they have open."""

    who: str
    name: str
    at: float
    cell_id: str | None
    calling: bool
    changing: bool
    wants: bool

    @property
    def is_person(self) -> bool:
        return self.who.startswith("page:")


class Presence:
    """Everybody at every session of one engine."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._visits: WeakKeyDictionary[Visitor, dict[str, Visit]] = WeakKeyDictionary()
        self._numbers: dict[str, int] = {}
        self._changed = anyio.Event()

    # Coming and going --------------------------------------------------------------------------------------------

    def came(self, visitor: Visitor, session_id: str, who: str) -> Visit:
        """Note that a visitor is at a session, or still is."""
        at_sessions = self._visits.setdefault(visitor, {})
        visit = at_sessions.get(session_id)
        if visit is None:
            visit = at_sessions[session_id] = Visit(who, self._clock())
        visit.at = self._clock()
        self.ring(session_id)
        return visit

    def left(self, visitor: Visitor) -> None:
        """Note that a page was closed or a client has gone."""
        self.ring(*self._visits.pop(visitor, {}))

    @contextmanager
    def staying(self, session_id: str, who: str) -> Iterator[None]:
        """Somebody is at a session meanwhile."""
        visitor = Visitor()
        self.came(visitor, session_id, who)
        try:
            yield
        finally:
            self.left(visitor)

    # What they do ------------------------------------------------------------------------------------------------

    def calls(self, visitor: Visitor, session_id: str, who: str, *, changes: bool) -> Callable[[], None]:
        """Note a call about a session, which goes on until what is returned is called."""
        visit, call = self.came(visitor, session_id, who), object()
        visit.calls[call] = changes
        visit.wants = visit.wants and not changes

        def ended() -> None:
            if visit.calls.pop(call, None) is not None:
                visit.at = self._clock()
                self.ring(session_id)

        return ended

    def wants(self, visitor: Visitor, session_id: str, who: str) -> None:
        """Note that a visitor was refused, since a person has taken the session over."""
        visit = self.came(visitor, session_id, who)
        if not visit.wants:
            visit.wants = True
            self.ring(session_id)

    def person_wants(self, session_id: str, who: str) -> None:
        """Note that a person whose page is open would like to have a session that another has."""
        for visit in self._of(session_id, who):
            visit.wants = True
        self.ring(session_id)

    def given_back(self, session_id: str) -> None:
        """Forget the refused visitors of a session that a person has given back."""
        for visits in self._visits.values():
            if (visit := visits.get(session_id)) is not None:
                visit.wants = False
        self.ring(session_id)

    def writes(self, session_id: str, who: str, cell_id: str | None) -> None:
        """Note which cell a person whose page is open is writing in."""
        for visit in self._of(session_id, who):
            visit.cell_id, visit.at = cell_id, self._clock()
        self.ring(session_id)

    def _of(self, session_id: str, who: str) -> list[Visit]:
        found = (visits.get(session_id) for visits in self._visits.values())
        return [visit for visit in found if visit is not None and visit.who == who]

    # Who is here -------------------------------------------------------------------------------------------------

    def at(self, session_id: str) -> list[Present]:
        """Everybody at a session, each once: people before programs, by name."""
        found: dict[str, list[Visit]] = {}
        for visitor, visits in list(self._visits.items()):
            visit = visits.get(session_id)
            if visit is not None and (visitor.stays or visit.calls or self._clock() - visit.at < _QUIET_S):
                found.setdefault(visit.who, []).append(visit)
        present = [_together(who, visits) for who, visits in found.items()]
        return sorted(present, key=lambda one: (not one.is_person, one.name))

    async def changed(self, session_id: str, since: int) -> int:
        """Wait until presence at a session changes after this number, and return the next number."""
        while self._numbers.get(session_id, 0) == since:
            await self._changed.wait()
        return self._numbers[session_id]

    def number(self, session_id: str) -> int:
        """The number of what changed last at a session."""
        return self._numbers.get(session_id, 0)

    def ring(self, *session_ids: str) -> None:
        """Wake the followers of these sessions."""
        for session_id in session_ids:
            self._numbers[session_id] = self._numbers.get(session_id, 0) + 1
        self._changed.set()
        self._changed = anyio.Event()


def _together(who: str, visits: list[Visit]) -> Present:
    calls = [changes for visit in visits for changes in visit.calls.values()]
    return Present(
        who=who,
        name=name_of(who),
        at=max(visit.at for visit in visits),
        cell_id=next((visit.cell_id for visit in visits if visit.cell_id), None),
        calling=bool(calls),
        changing=any(calls),
        wants=any(visit.wants for visit in visits),
    )


def name_of(who: str) -> str:
    """What people call somebody whom the audit log names so."""
    return _NAMES.get(who) or who.removeprefix("page:").removeprefix("mcp:")
