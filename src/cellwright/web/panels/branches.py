"""A session's branches: what it was grown from, what was grown beside and from it, and which of them to go on with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import UnknownSession
from cellwright.web.panels.checkpoints import branched_words
from cellwright.web.requests import PageRequest, action

__all__ = ["ROUTES", "Relative", "branches", "relatives_of"]

Relation: TypeAlias = Literal["origin", "this session", "beside it", "branch of it"]


@dataclass(frozen=True, slots=True)
class Relative:
    """A session of the same family, and how it is related to the one that is looked at."""

    relation: Relation
    session: Session
    can_be_adopted: bool
    """Whether what it was grown from is still there."""


async def branches(request: PageRequest) -> dict[str, Any]:
    """The family."""
    return {"family": relatives_of(request.session(), request.engine.sessions())}


def relatives_of(session: Session, sessions: Iterable[Session]) -> list[Relative]:
    """Where it came from first, then what it stands beside, then what came of it; nobody where it is alone."""
    known = {one.id: one for one in sessions}
    origin = session.record.branch_of
    found = [
        Relative(relation, one, one.record.branch_of in known)
        for one in known.values()
        if (relation := _relation(one, session, origin)) is not None
    ]
    order = ("origin", "this session", "beside it", "branch of it")
    found.sort(key=lambda one: (order.index(one.relation), one.session.record.created_at))
    return found if len(found) > 1 else []


def _relation(one: Session, session: Session, origin: str | None) -> Relation | None:
    if one.id == session.id:
        return "this session"
    if one.id == origin:
        return "origin"
    if one.record.branch_of == session.id:
        return "branch of it"
    return "beside it" if origin is not None and one.record.branch_of == origin else None


async def _grow(request: PageRequest) -> Response:
    [branch] = await request.engine.branch(request.session().id)
    return request.done(branched_words(branch))


async def _adopt(request: PageRequest) -> Response:
    """Take a branch back. The others are suspended, not ended: that is for an owner to say, of each."""
    branch = _branch(request)
    origin = branch.record.branch_of
    for one in request.engine.sessions():
        if origin in (one.id, one.record.branch_of):
            request.refuse_if_anothers(one)
    for one_id in (branch.id, origin):
        await request.site.planner.pause(one_id or "")
    adopted = await request.engine.adopt(branch.id, keep_others=True)
    return request.done(
        f"{adopted.session.name} goes on with the cells, files and kernel of {branch.id}",
        go=f"/sessions/{adopted.session.id}",
    )


async def _delete(request: PageRequest) -> Response:
    session, branch = request.session(), _branch(request)
    request.refuse_if_anothers(branch)
    await request.site.planner.pause(branch.id)
    await request.engine.delete(branch.id)
    told = f"{branch.name} ({branch.id}) is deleted; its notebook file stays"
    if branch is session:
        return request.done(told, go=f"/sessions/{branch.record.branch_of}")
    return request.done(told, parts={"@branches": ""})


def _branch(request: PageRequest) -> Session:
    branch = request.engine.session(request.http.path_params["branch_id"])
    if branch.record.branch_of is None:
        raise UnknownSession(
            f"Session {branch.id} is no branch", hint="It is deleted on the page of sessions"
        )
    return branch


_ONE = "/sessions/{session_id}/branches/{branch_id}"
ROUTES = (
    action("/sessions/{session_id}/branches", _grow),
    action(f"{_ONE}/adopt", _adopt),
    action(f"{_ONE}/delete", _delete, needs="own"),
)
