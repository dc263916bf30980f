"""What sessions hold that another does not, so that somebody can choose among branches. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from cellwright.engine.sessions import Session
from cellwright.errors import KernelError

__all__ = ["SessionView", "compare_sessions"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session, against the first of those that are compared."""

    session_id: str
    name: str
    state: str
    changed: tuple[str, ...] = ()
    """Cells with another source, by id."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """What it wrote into its working directory, or over the project."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Those that are different or only here, in short; none where it has no idle kernel to ask."""
    missing: tuple[str, ...] = ()
    """Variables that only the first one has."""


async def compare_sessions(sessions: Sequence[Session]) -> list[SessionView]:
    """Every session against the first."""
    if not sessions:
        return []
    first = sessions[0]
    known = await _variables(first)
    return [await _view(first, known, session) for session in sessions]


async def _view(first: Session, known: Mapping[str, str], session: Session) -> SessionView:
    sources = {cell.id: cell.source for cell in first.cells}
    own = {cell.id: cell.source for cell in session.cells}
    held = await _variables(session) if session is not first else known
    return SessionView(
        session_id=session.id,
        name=session.name,
        state=session.state,
        changed=tuple(cell for cell in own if cell in sources and own[cell] != sources[cell]),
        added=tuple(cell for cell in own if cell not in sources),
        removed=tuple(cell for cell in sources if cell not in own),
        files=tuple(file.path for file in (await session.files()).files),
        variables={name: text for name, text in held.items() if known.get(name) != text},
        missing=tuple(name for name in known if name not in held) if held else (),
    )


async def _variables(session: Session) -> dict[str, str]:
    if session.state != "active":
        return {}
    with suppress(KernelError, TimeoutError):  # busy, or of a language that cannot tell
        found = await session.inspect()
        return {variable.name: variable.digest or variable.type for variable in found.variables}
    return {}
