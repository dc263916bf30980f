"""Tools that go back: checkpoints, rollback, and branches of a session.

They ask and tell; which checkpoints are kept, and what comes back with one, is decided below.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import Field

from cellwright.engine import CheckpointRecord, RolledBack, Session
from cellwright.errors import CheckpointRefused, UnknownCheckpoint
from cellwright.mcp.arguments import Arguments, CellId, SessionId
from cellwright.mcp.budget import cut_tail
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.context import fit_lists
from cellwright.mcp.outputs import clean
from cellwright.mcp.waiting import done_with_progress

__all__ = ["CHECKPOINT_TOOLS", "bounded_words"]

_MAX_NAME = 200
_TOKENS = 2_000
_MOST_WORDS = 20
_WORDS_WIDTH = 200


class CreateCheckpoint(Arguments):
    session_id: SessionId = None
    name: str | None = Field(default=None, min_length=1, max_length=_MAX_NAME)


async def checkpoint_create(call: Call, args: CreateCheckpoint) -> Reply:
    """Keep the kernel's whole state and the working directory's files as they are now."""
    session = call.session(args.session_id)
    try:
        kept = await session.checkpoint(args.name)
    except CheckpointRefused as error:
        raise CheckpointRefused(
            f"checkpoint: none ({error.message})",
            hint=error.hint or "Nothing has changed, and the session goes on without",
        ) from error
    return data_reply({**_state(session), **_about(kept)}, call)


class OfSession(Arguments):
    session_id: SessionId = None


async def checkpoint_list(call: Call, args: OfSession) -> Reply:
    """Kept checkpoints, newest first. Cells run with on_error=rollback have one before each."""
    session = call.session(args.session_id, reads=True)
    kept = [_about(record) for record in reversed(session.checkpoints)]
    return data_reply(fit_lists({**_state(session), "checkpoints": kept}, _TOKENS), call)


class DropCheckpoint(Arguments):
    session_id: SessionId = None
    checkpoint: str = Field(min_length=1, max_length=_MAX_NAME)


async def checkpoint_drop(call: Call, args: DropCheckpoint) -> Reply:
    """Let a checkpoint go, by id or name."""
    session = call.session(args.session_id)
    record = session.find_checkpoint(args.checkpoint)
    await session.drop_checkpoint(record.id)
    return data_reply(
        {**_state(session), "dropped": record.id, "checkpoints": len(session.checkpoints)}, call
    )


class RollBack(Arguments):
    session_id: SessionId = None
    checkpoint: str | None = Field(default=None, min_length=1, max_length=_MAX_NAME, description="Id or name")
    cell_id: CellId | None = Field(default=None, description="Or: to before this cell ran")


async def session_rollback(call: Call, args: RollBack) -> Reply:
    """Go back to a checkpoint: variables and files are as then, whatever runs is ended. Names what cannot come back.
    Before a cell without one the earlier cells run again (by: replay)."""
    session = call.session(args.session_id)
    if (args.checkpoint is None) == (args.cell_id is None):
        raise UnknownCheckpoint("Give checkpoint or cell_id, one of the two", hint=_offered(session))
    await call.shared.planner.pause(session.id)
    back = partial(session.roll_back, args.checkpoint, cell_id=args.cell_id)
    done = await done_with_progress(call, back, stop=session.interrupt)
    # The reply says what is there again: no later one need say that the kernel was replaced.
    call.client.generations[session.id] = session.generation
    return data_reply(fit_lists({**_state(session), **_about_return(done)}, _TOKENS), call)


def _offered(session: Session) -> str:
    kept = [
        f"{record.name or record.id}" + (f" (before cell {record.cell_id})" if record.cell_id else "")
        for record in reversed(session.checkpoints)
    ]
    if not kept:
        return f"Session {session.id} keeps no checkpoint yet: checkpoint_create takes one"
    return f"Session {session.id} keeps: {', '.join(bounded_words(kept))}"


def _about_return(done: RolledBack) -> dict[str, Any]:
    kept = done.checkpoint
    return {
        "checkpoint": kept.id if kept is not None else None,
        **({"name": kept.name} if kept is not None and kept.name else {}),
        "by": done.by,
        "stale": list(done.stale),
        "undone": list(done.undone),
        "not_restored": bounded_words(done.not_restored),
    }


def _about(record: CheckpointRecord) -> dict[str, Any]:
    """A checkpoint in few words; what does not apply is left out."""
    about: dict[str, Any] = {
        "checkpoint": record.id,
        "name": record.name,
        "before_cell": record.cell_id,
        "before_execution": record.execution_id,
        "of_generation": record.generation,
        "time": round(record.time, 3),
        "memory_bytes": record.private_bytes,
        "files": record.files,
        "files_left_out": bounded_words(record.files_left_out),
        "cannot_return": bounded_words(record.cannot_return),
    }
    return {key: value for key, value in about.items() if value not in (None, [])}


def bounded_words(words: tuple[str, ...] | list[str]) -> list[str]:
    """Sentences that code may have had a say in: printable, short, and not too many."""
    told = [cut_tail(clean(each), _WORDS_WIDTH) for each in words[:_MOST_WORDS]]
    return [*told, f"… {len(words) - _MOST_WORDS} more"] if len(words) > _MOST_WORDS else told


def _state(session: Session) -> dict[str, Any]:
    return {"session_id": session.id, "state": session.state, "generation": session.generation}


CHECKPOINT_TOOLS = (
    Definition(checkpoint_create, CreateCheckpoint, CHANGES, asks_for=("session_id",)),
    Definition(checkpoint_list, OfSession, READS, asks_for=("session_id",)),
    Definition(checkpoint_drop, DropCheckpoint, DESTROYS, asks_for=("session_id",)),
    Definition(session_rollback, RollBack, DESTROYS, asks_for=("session_id",)),
)
