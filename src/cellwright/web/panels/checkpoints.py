"""A session's checkpoints as a timeline: what would be lost by going back to each, and what a person may do with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from cellwright.engine import Branch, CheckpointRecord, RolledBack, Session
from cellwright.engine.lineage import contains
from cellwright.engine.records import ExecutionRecord
from cellwright.web.panels.cell_numbers import cell_words, places_of
from cellwright.web.requests import PageRequest, action

__all__ = ["ROUTES", "Moment", "branched_words", "checkpoints", "moments_of", "rolled_back_words"]

_MOST_NAME = 200
_MOST_WORDS = 5


@dataclass(frozen=True, slots=True)
class Moment:
    """One checkpoint on the timeline."""

    id: str
    title: str
    time: float
    before: str
    """The cell that it was taken before, in words."""
    memory_bytes: int
    files: int
    undone: str
    """What ran since then and would be undone, in words."""
    cannot_return: tuple[str, ...]


async def checkpoints(request: PageRequest) -> dict[str, Any]:
    """The timeline, the newest first."""
    session = request.session()
    made = await session.state_history() if session.checkpoints else []
    return {"moments": moments_of(session.checkpoints, made, places_of(session.cells))}


def moments_of(
    kept: Sequence[CheckpointRecord], made: Sequence[ExecutionRecord], places: Mapping[str, int]
) -> list[Moment]:
    """Checkpoints, the newest first, against what made the state that there is now."""
    return [
        Moment(
            id=one.id,
            title=one.name or one.id,
            time=one.time,
            before=cell_words([one.cell_id], places) if one.cell_id is not None else "",
            memory_bytes=one.private_bytes,
            files=one.files,
            undone=cell_words((ran.cell_id for ran in made if not contains(one.lineage, ran)), places),
            cannot_return=(*one.cannot_return, *(f"the file {name}" for name in one.files_left_out)),
        )
        for one in reversed(kept)
    ]


async def _take(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    kept = await session.checkpoint(form.get("name", "").strip()[:_MOST_NAME] or None)
    return request.done(f"Kept as {kept.name or kept.id}")


async def _roll_back(request: PageRequest) -> Response:
    session = request.session()
    await request.site.planner.pause(session.id)
    done = await session.roll_back(request.http.path_params["checkpoint"])
    return request.done(rolled_back_words(done, session))


async def _drop(request: PageRequest) -> Response:
    session = request.session()
    kept = session.find_checkpoint(request.http.path_params["checkpoint"])
    await session.drop_checkpoint(kept.id)
    return request.done(f"{kept.name or kept.id} is dropped")


async def _branch(request: PageRequest) -> Response:
    session = request.session()
    kept = session.find_checkpoint(request.http.path_params["checkpoint"])
    [branch] = await request.engine.branch(session.id, checkpoint=kept.id)
    return request.done(branched_words(branch))


def rolled_back_words(done: RolledBack, session: Session) -> str:
    """What going back did, for whoever asked for it."""
    where = (done.checkpoint.name or done.checkpoint.id) if done.checkpoint is not None else "before the cell"
    stale = cell_words(done.stale, places_of(session.cells))
    told = [f"Rolled back to {where}.", f"Stale now: {stale}." if stale else "No cell is stale."]
    return " ".join([*told, *_listed("Not restored", done.not_restored)])


def branched_words(branch: Branch) -> str:
    """How a branch was made."""
    how = "" if branch.by == "checkpoint" else f", by running its cells again ({branch.reason})"
    told = [f"{branch.session.name} ({branch.session.id}) is a branch now{how}."]
    return " ".join([*told, *_listed("Not carried over", branch.not_carried)])


def _listed(title: str, words: Iterable[str]) -> list[str]:
    named = list(words)
    more = [f"{len(named) - _MOST_WORDS} more"] if len(named) > _MOST_WORDS else []
    return [f"{title}: {'; '.join([*named[:_MOST_WORDS], *more])}."] if named else []


_ONE = "/sessions/{session_id}/checkpoints/{checkpoint}"
ROUTES = (
    action("/sessions/{session_id}/checkpoints", _take),
    action(f"{_ONE}/rollback", _roll_back),
    action(f"{_ONE}/drop", _drop),
    action(f"{_ONE}/branch", _branch),
)
