"""Which session a caller means: by id, by its notebook's name with or without the time in front, or by saying nothing.

Pure. Certain or refused: nobody's notebook is written to on a guess, and a refusal names the candidates.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from cellwright.engine import Session
from cellwright.errors import UnknownSession
from cellwright.notebook import slug

__all__ = ["Found", "find_session", "untimed"]

_SHOWN = 5
_timestamp = re.compile(r"^\d{8}_\d{6}_|_\d{8}_\d{6}$")
_number = re.compile(r"_\d+$")
_SAYS_NOTHING = frozenset({"", "current", "default", "latest", "none", "null"})


@dataclass(frozen=True, slots=True)
class Found:
    """A session, and a sentence where the caller did not name it by its id."""

    session: Session
    note: str | None = None


def untimed(name: str) -> str:
    """A notebook's name without the time that made it unique."""
    return _timestamp.sub("", name)


def find_session(
    sessions: Sequence[Session], wanted: str | None, *, own: Sequence[str], reads: bool = False
) -> Found:
    """The session that is meant.

    ``own`` are the ids that this client has worked with. Only a call that ``reads`` may fall back on a session that
    the client has never named.

    Raises:
        UnknownSession: none or several could be meant; the error names them.
    """
    if wanted is None or wanted.strip().lower() in _SAYS_NOTHING:
        return Found(_unnamed(sessions, own, reads=reads))
    wanted = wanted.strip()
    for session in sessions:
        if session.id == wanted:
            return Found(session)
    named = _by_name(sessions, wanted)
    if len(named) == 1:
        return Found(named[0], f"{wanted!r} is session {named[0].id} (notebook {named[0].name})")
    if named:
        raise UnknownSession(
            f"{wanted!r} could be {len(named)} sessions", hint=f"Repeat with one of: {_list(named)}"
        )
    near = _alike(sessions, wanted) or [session for session in sessions if session.id in own]
    raise UnknownSession(f"There is no session {wanted!r}", hint=_next_call(near or sessions))


def _unnamed(sessions: Sequence[Session], own: Sequence[str], *, reads: bool) -> Session:
    """The one that goes without saying: the client's own, and where it has several the one that is active."""
    mine = [session for session in sessions if session.id in own]
    candidates = mine or (list(sessions) if reads else [])
    active = [session for session in candidates if session.state == "active"]
    if len(active or candidates) == 1:
        return (active or candidates)[0]
    if candidates:
        raise UnknownSession(
            "The call names no session_id, and several could be meant",
            hint=f"Repeat with one of: {_list(active or candidates)}",
        )
    raise UnknownSession(
        "The call names no session_id, and this client has not worked with a session yet",
        hint=_next_call(sessions),
    )


def _by_name(sessions: Sequence[Session], wanted: str) -> list[Session]:
    path = PurePath(wanted)
    stem = path.stem if path.suffix == ".ipynb" else path.name
    exact = [session for session in sessions if session.name == stem or str(session.path) == wanted]
    if exact:
        return exact
    plain = slug(untimed(stem))
    return [
        session
        for session in sessions
        if plain in (name := untimed(session.name), _number.sub("", name)) and _same_time(stem, session.name)
    ]


def _same_time(wanted: str, name: str) -> bool:
    """Whether a name that carries a time carries this notebook's."""
    time = re.search(r"\d{8}_\d{6}", wanted)
    return time is None or time.group() in name


def _alike(sessions: Sequence[Session], wanted: str) -> list[Session]:
    """Sessions whose id or name looks like it: worth telling, not sure enough to act on."""
    plain = slug(untimed(wanted))
    words = {session.id: session for session in sessions} | {untimed(each.name): each for each in sessions}
    near = difflib.get_close_matches(wanted, words, n=_SHOWN) + difflib.get_close_matches(
        plain, words, n=_SHOWN
    )
    found = {words[word].id for word in near}
    return [session for session in sessions if session.id in found]


def _next_call(sessions: Sequence[Session]) -> str:
    if not sessions:
        return "There are no sessions yet: call notebook_create"
    return f"Perhaps: {_list(sessions)}. notebook_list(filter='all') has them all"


def _list(sessions: Sequence[Session]) -> str:
    return ", ".join(f"{session.id} ({session.name}, {session.state})" for session in sessions[-_SHOWN:])
