"""What may stand for an argument of a prompt or of a resource's address, while a person types it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcp.types import Completion

from cellwright import formats
from cellwright.engine import Engine

__all__ = ["completed"]

_MOST = 100  # as the protocol has it


def completed(engine: Engine, argument: str, begun: str, given: Mapping[str, str]) -> Completion:
    """The values of an argument that go on from what was typed; ``given`` are the other arguments so far."""
    found = [value for value in _values(engine, argument, given) if begun.lower() in value.lower()]
    found.sort(key=lambda value: not value.lower().startswith(begun.lower()))
    return Completion(values=found[:_MOST], total=len(found), has_more=len(found) > _MOST)


def _values(engine: Engine, argument: str, given: Mapping[str, str]) -> Iterable[str]:
    newest = list(reversed(engine.sessions()))
    if argument == "session":  # of a prompt, which takes a name as well
        return [session.name for session in newest]
    if argument == "session_id":
        return [session.id for session in newest]
    if argument == "format":
        return formats.writable()
    session = next((session for session in newest if session.id == given.get("session_id")), None)
    cells = session.cells if session is not None else ()
    if argument == "cell_id":
        return [cell.id for cell in cells]
    shown = next((cell.outputs for cell in cells if cell.id == given.get("cell_id")), ())
    return [str(index) for index in range(len(shown))] if argument == "index" else []
