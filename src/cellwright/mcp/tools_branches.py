"""Tools that try several ways at once: branches of a session, compared, and one of them taken back."""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp.types import ToolAnnotations
from pydantic import Field

from cellwright.engine import Branch, Session, SessionView
from cellwright.errors import UnknownSession
from cellwright.mcp.arguments import Arguments, SessionId
from cellwright.mcp.budget import cut_tail
from cellwright.mcp.calls import CHANGES, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.context import fit_lists
from cellwright.mcp.outputs import clean
from cellwright.mcp.tools_checkpoints import bounded_words
from cellwright.mcp.waiting import done_with_progress

__all__ = ["BRANCH_TOOLS"]

_MAX_NAME = 200
_MOST_BRANCHES = 64
_TOKENS = 4_000
_VALUE_WIDTH = 120


class BranchSession(Arguments):
    session_id: SessionId = None
    checkpoint: str | None = Field(
        default=None, min_length=1, max_length=_MAX_NAME, description="Id or name; default: the state of now"
    )
    count: int = Field(default=1, ge=1, le=_MOST_BRANCHES)


async def session_branch(call: Call, args: BranchSession) -> Reply:
    """Make second sessions from a session's state, each with its own cells, files and kernel, to try things apart."""
    session = call.session(args.session_id)
    grow = partial(call.engine.branch, session.id, checkpoint=args.checkpoint, count=args.count)
    branches = await done_with_progress(call, grow)
    for branch in branches:
        call.client.worked_with(branch.session.id)
        call.client.generations[branch.session.id] = branch.session.generation
    call.client.worked_with(session.id)
    told = [_about(branch) for branch in branches]
    return data_reply({"session_id": session.id, "generation": session.generation, "branches": told}, call)


def _about(branch: Branch) -> dict[str, Any]:
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
    """Give a branch's cells, files and kernel to the session it came from. Its other branches end."""
    branch = call.session(args.session_id)
    origin = branch.record.branch_of
    for session in call.engine.sessions():
        if session.id == origin:
            session.refuse_if_taken()
    for one in (branch.id, origin) if origin is not None else ():
        await call.shared.planner.pause(one)
    adopted = await call.engine.adopt(branch.id)
    session = adopted.session
    for gone in (branch.id, *adopted.dropped):
        call.client.forget(gone)
    call.client.worked_with(session.id)
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
    """How a session's branches differ from it: cells, files, variables."""
    named = call.session(args.session_id, reads=True)
    original, branches = _family(call, named)
    first, *views = await call.engine.compare([original.id, *(branch.id for branch in branches)])
    tokens = _TOKENS // (len(views) + 1)
    told = {
        "session_id": original.id,
        "generation": original.generation,
        "files": [cut_tail(clean(path), _VALUE_WIDTH) for path in first.files],
        "branches": [fit_lists(_differences(view), tokens) for view in views],
    }
    return data_reply(fit_lists(told, tokens + _TOKENS), call)


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
