"""Tools that go back: checkpoints, rollback, and branches of a session.

They ask and tell; which checkpoints are kept, and what comes back with one, is decided below.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp.types import ToolAnnotations
from pydantic import Field

from cellwright.engine import Branch, CheckpointRecord, RolledBack, Session, SessionView
from cellwright.errors import CheckpointRefused, UnknownCheckpoint, UnknownSession
from cellwright.mcp._arguments import Arguments, CellId, SessionId
from cellwright.mcp._shapes import Checkpointed, Checkpoints
from cellwright.mcp._waits import done_with_progress
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.context import fit_lists
from cellwright.mcp.outputs import clean
from cellwright.text_budget import cut_tail

__all__ = ["BRANCH_TOOLS", "CHECKPOINT_TOOLS"]
_MAX_NAME = 200

_TOKENS = 2_000

_MOST_WORDS = 20

_WORDS_WIDTH = 200


class CreateCheckpoint(Arguments):
    session_id: SessionId = None
    name: str | None = Field(default=None, min_length=1, max_length=_MAX_NAME)


async def checkpoint_create(call: Call, args: CreateCheckpoint) -> Reply:
    """Save the state of now to come back to: the kernel's, and the working directory's files."""
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
    """List checkpoints, newest first. Cells run with on_error=rollback have one before each."""
    session = call.session(args.session_id, reads=True)
    kept = [_about(record) for record in reversed(session.checkpoints)]
    return data_reply(fit_lists({**_state(session), "checkpoints": kept}, _TOKENS), call)


class DropCheckpoint(Arguments):
    session_id: SessionId = None
    checkpoint: str = Field(min_length=1, max_length=_MAX_NAME)


async def checkpoint_drop(call: Call, args: DropCheckpoint) -> Reply:
    """Drop a checkpoint, by id or name."""
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
    """Undo what cells did: variables and files are again as at a checkpoint, or before a cell; whatever runs is ended. Names what
    cannot come back. Where there is no checkpoint the earlier cells run again (by: replay)."""
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
    shown = [cut_tail(clean(each), _WORDS_WIDTH) for each in words[:_MOST_WORDS]]
    return [*shown, f"… {len(words) - _MOST_WORDS} more"] if len(words) > _MOST_WORDS else shown


def _state(session: Session) -> dict[str, Any]:
    return {"session_id": session.id, "state": session.state, "generation": session.generation}


CHECKPOINT_TOOLS = (
    Definition(checkpoint_create, CreateCheckpoint, CHANGES, asks_for=("session_id",), gives=Checkpointed),
    Definition(checkpoint_list, OfSession, READS, asks_for=("session_id",), gives=Checkpoints),
    Definition(checkpoint_drop, DropCheckpoint, DESTROYS, asks_for=("session_id",)),
    Definition(session_rollback, RollBack, DESTROYS, asks_for=("session_id",)),
)


# Tools that try several ways at once: branches of a session, compared, and one of them taken back.


_MOST_BRANCHES = 64

_BRANCH_TOKENS = 4_000

_VALUE_WIDTH = 120


class BranchSession(Arguments):
    session_id: SessionId = None
    checkpoint: str | None = Field(
        default=None, min_length=1, max_length=_MAX_NAME, description="Id or name; default: the state of now"
    )
    count: int = Field(default=1, ge=1, le=_MOST_BRANCHES)


async def session_branch(call: Call, args: BranchSession) -> Reply:
    """Try approaches side by side: second sessions from a session's state, each with its own cells, files and kernel."""
    session = call.session(args.session_id)
    grow = partial(call.engine.branch, session.id, checkpoint=args.checkpoint, count=args.count)
    branches = await done_with_progress(call, grow)
    for branch in branches:
        call.client.worked_with(branch.session.id)
        call.client.generations[branch.session.id] = branch.session.generation
    call.client.worked_with(session.id)
    listed = [_about_branch(branch) for branch in branches]
    return data_reply({"session_id": session.id, "generation": session.generation, "branches": listed}, call)


def _about_branch(branch: Branch) -> dict[str, Any]:
    session = branch.session
    about: dict[str, Any] = {
        "session_id": session.id,
        "notebook": session.name,
        "path": str(session.path),
        "cwd": str(session.cwd),
        "mode": session.mode,
        "generation": session.generation,
        "by": branch.by,
    }
    if branch.reason is not None:
        about["reason"] = clean(branch.reason)
    if branch.not_carried:
        about["not_carried"] = bounded_words(branch.not_carried)
    return about


class AdoptBranch(Arguments):
    session_id: SessionId = Field(default=None, description="The branch's")


async def branch_adopt(call: Call, args: AdoptBranch) -> Reply:
    """Adopt a branch: its cells, files and kernel go to the session it came from. Its other branches end."""
    branch = call.session(args.session_id)
    origin = branch.record.branch_of
    for session in call.engine.sessions():
        if session.id == origin:
            call.refuse_if_taken(session)
    await call.engine.approve_adoption(branch.id)
    for one in (branch.id, origin) if origin is not None else ():
        await call.shared.planner.pause(one)
    adopted = await call.engine.adopt(branch.id)
    session = adopted.session
    for gone in (branch.id, *adopted.dropped):
        call.client.forget(gone)
    call.client.worked_with(session.id)
    call.about["session_id"] = session.id
    # The reply says whose state it is: no later one need say that the kernel was replaced.
    call.client.generations[session.id] = session.generation
    about = {
        "session_id": session.id,
        "state": session.state,
        "generation": session.generation,
        "adopted": branch.id,
        "dropped": list(adopted.dropped),
        "cells": len(session.document),
    }
    return data_reply(about, call)


class CompareBranches(Arguments):
    session_id: SessionId = None


async def branch_compare(call: Call, args: CompareBranches) -> Reply:
    """Compare branches with their session: cells, files, variables."""
    named = call.session(args.session_id, reads=True)
    original, branches = _family(call, named)
    first, *views = await call.engine.compare([original.id, *(branch.id for branch in branches)])
    tokens = _BRANCH_TOKENS // (len(views) + 1)
    compared = {
        "session_id": original.id,
        "generation": original.generation,
        "files": [cut_tail(clean(path), _VALUE_WIDTH) for path in first.files],
        "branches": [fit_lists(_differences(view), tokens) for view in views],
    }
    return data_reply(fit_lists(compared, tokens + _BRANCH_TOKENS), call)


def _family(call: Call, named: Session) -> tuple[Session, list[Session]]:
    """The session that branches were made of, and them; any of them may be named."""
    sessions = call.engine.sessions()
    original = next((each for each in sessions if each.id == named.record.branch_of), named)
    branches = [each for each in sessions if each.record.branch_of == original.id]
    if not branches:
        raise UnknownSession(f"Session {original.id} has no branches", hint="session_branch makes some")
    return original, branches


def _differences(view: SessionView) -> dict[str, Any]:
    """What only this branch has; what is the same is left out."""
    lists = {
        "changed_cells": list(view.changed),
        "added_cells": list(view.added),
        "removed_cells": list(view.removed),
        "files": [cut_tail(clean(path), _VALUE_WIDTH) for path in view.files],
        "variables": [
            cut_tail(clean(f"{name} = {text}"), _VALUE_WIDTH) for name, text in view.variables.items()
        ],
        "missing_variables": list(view.missing),
    }
    about = {"session_id": view.session_id, "notebook": view.name, "state": view.state}
    return {**about, **{name: found for name, found in lists.items() if found}}


# It takes the original's kernel and the other branches away, and can be done once.
_ADOPTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)

BRANCH_TOOLS = (
    Definition(session_branch, BranchSession, CHANGES, asks_for=("session_id",)),
    Definition(branch_adopt, AdoptBranch, _ADOPTS, asks_for=("session_id",)),
    Definition(branch_compare, CompareBranches, READS, asks_for=("session_id",)),
)
