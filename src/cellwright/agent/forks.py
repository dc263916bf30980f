"""Puts an earlier question of a conversation again, on a fork from before it: a conversation and a session of its own.

The conversation is copied up to the question, and its session branched and taken back to before the first cell that the
question's run ran. Neither original is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from cellwright.agent.conversations import Conversations
from cellwright.agent.trace.export import read_run
from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError, UnknownSession

__all__ = ["fork"]

_PAGE = 1_000


async def fork(engine: Engine, conversation_id: str, run_id: str) -> tuple[str | None, str | None]:
    """The conversation to ask in and the session to begin from; None where the question was the first, or made its own.

    Raises:
        UnknownConversation, UnknownRun: there is none of that id.
        CellwrightError: the session's state before the question cannot be had any more.
    """
    conversations = Conversations(engine.settings.storage / "conversations")
    history = await conversations.get(conversation_id)
    before = await conversations.fork(conversation_id, run_id)
    try:
        session = _session(engine, before.notebook.session_id) if before.notebook is not None else None
        directory = conversations.directory_of(conversation_id)
        runs = [one.run_id for one in history.runs]
        later = [await _ran(directory, one) for one in runs[runs.index(run_id) :]]
        if session is None and (about := _first_session(later[0])) is not None and about not in history.made:
            session = _session(engine, about)  # the question was about a notebook that was there
        began = next(one.began for one in history.runs if one.run_id == run_id)
        branch = (
            await _before(engine, session, [step for run in later for step in run], began)
            if session
            else None
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            await conversations.delete(before.id)
        raise
    if before.runs:
        return before.id, branch.id if branch is not None else None
    await conversations.delete(before.id)
    return None, branch.id if branch is not None else None


def _session(engine: Engine, session_id: str) -> Session | None:
    try:
        return engine.session(session_id)
    except UnknownSession:
        return None


async def _ran(directory: Path, run_id: str) -> list[dict[str, Any]]:
    """The steps of a run on its main branch; none where its trace is gone."""
    path = directory / "runs" / f"{run_id}.jsonl"
    if not await anyio.Path(path).is_file():
        return []
    steps: list[dict[str, Any]] = (await anyio.to_thread.run_sync(read_run, path))["steps"]
    return [step for step in steps if step["branch"] == "main"]


def _first_session(steps: list[dict[str, Any]]) -> str | None:
    return next((step["session_id"] for step in steps if step["session_id"]), None)


async def _before(engine: Engine, session: Session, steps: list[dict[str, Any]], began: float) -> Session:
    """A branch of a session as it was before these steps."""
    runs = [
        run for step in steps if step["session_id"] == session.id for run in step["runs"] if run["cell_id"]
    ]
    first = runs[0] if runs else None
    kept = next(
        (
            one
            for one in session.record.checkpoints
            if first is not None and one.execution_id == first["execution_id"]
        ),
        None,
    )
    [grown] = await engine.branch(session.id, checkpoint=kept.id if kept is not None else None)
    branch = grown.session
    try:
        if first is not None and kept is None:
            await branch.roll_back(cell_id=first["cell_id"])
        await _without_later_edits(engine, session, branch, began)
    except CellwrightError:
        await engine.delete(branch.id, remove_file=True)
        raise
    return branch


async def _without_later_edits(engine: Engine, session: Session, branch: Session, began: float) -> None:
    """Take cells that came since out of the branch, and give those that were edited the source that ran before."""
    state = {record.cell_id: record.source for record in await branch.state_history() if record.cell_id}
    changed = _changed_since(engine, session.id, began)
    for cell in branch.cells:
        kinds = changed.get(cell.id, set())
        if "cell_added" in kinds:
            await branch.delete_cell(cell.id)
        elif "source_changed" in kinds and cell.id in state:
            await branch.edit_cell(cell.id, state[cell.id])


def _changed_since(engine: Engine, session_id: str, began: float) -> dict[str, set[str]]:
    """How each cell was changed since then."""
    found: dict[str, set[str]] = {}
    since = 0
    while events := engine.events(since=since, session_id=session_id, limit=_PAGE):
        since = events[-1].seq
        for event in events:
            change = event.data.get("change")
            if event.time >= began and isinstance(change, dict) and event.cell_id is not None:
                found.setdefault(event.cell_id, set()).add(str(change.get("change")))
    return found
