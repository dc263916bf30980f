"""Who is at a notebook and what they do, and what a session needs of a person: as the notebook's page shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from cellwright.audit import actor
from cellwright.engine import Engine, Execution, Session
from cellwright.engine.approvals import Approval, as_choice
from cellwright.errors import CellwrightError, PlanError
from cellwright.people import may
from cellwright.plans.model import Plan, plan_of
from cellwright.presence import name_of
from cellwright.web._live import Change
from cellwright.web._templates import render
from cellwright.web.requests import PageRequest, action

if TYPE_CHECKING:
    from cellwright.presence import Presence, Present

__all__ = ["PRESENCE", "ROUTES", "Chip", "Need", "PresenceView", "presence_html", "presence_of", "visits"]

PRESENCE = "presence"
"""The part of the page that shows it."""


@dataclass(frozen=True, slots=True)
class Chip:
    """Somebody who is here, and what they do."""

    who: str
    name: str
    doing: str
    """In a few words; empty where they only look."""
    cell_id: str | None = None
    place: int | None = None
    """Of the cell that ``doing`` is about, counted from 1."""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Something that waits for a person."""

    key: str
    """Another one whenever it is needed again: a browser says each once."""
    text: str
    href: str
    of: str = ""
    """Who is meant, as the audit log names them; empty: anybody."""


@dataclass(frozen=True, slots=True)
class PresenceView:
    """What the template gets."""

    chips: list[Chip]
    needs: list[Need]
    approvals: list[tuple[Need, Approval]]
    """What a person is asked before it is done."""


async def visits(presence: Presence, session_id: str) -> AsyncIterator[Change]:
    """That somebody came to a session, left it, or does something else there."""
    number = presence.number(session_id)
    while True:
        yield Change(0, frozenset({PRESENCE}))
        number = await presence.changed(session_id, number)


def presence_html(engine: Engine, session: Session) -> str:
    """The part of the page."""
    return render("notebook_presence.html", session=session, presence=presence_of(engine, session))


def presence_of(engine: Engine, session: Session) -> PresenceView:
    """Who is at a session, and what it needs."""
    present, approvals = engine.presence.at(session.id), engine.approvals.waiting(session.id)
    places = {cell.id: place for place, cell in enumerate(session.cells, 1)}
    chips = [_chip(session, one, places) for one in present]
    asked = [
        Need(f"approval-{one.id}", f"{name_of(one.by)} asks to {one.matter.what}", f"#approval-{one.id}")
        for one in approvals
    ]
    return PresenceView(chips, list(_needs(session, present)), list(zip(asked, approvals, strict=True)))


def _chip(session: Session, one: Present, places: dict[str, int]) -> Chip:
    run = _run_of(session, one.who)
    if run is not None and run.cell_id in places:
        doing = "is running" if run.state == "running" else "waits to run"
        began = run.record.started_at or run.record.queued_at
        return Chip(one.who, one.name, doing, run.cell_id, places[run.cell_id], began)
    if one.cell_id in places and one.cell_id is not None:
        return Chip(one.who, one.name, "is writing in", one.cell_id, places[one.cell_id])
    if one.calling:
        return Chip(one.who, one.name, "is working" if one.changing else "is reading")
    return Chip(one.who, one.name, "" if one.is_person else "is here")


def _run_of(session: Session, who: str) -> Execution | None:
    """What somebody runs, or else waits to run."""
    theirs = [
        run
        for run in session.runs.live
        if run.cell_id is not None
        and (author := session.authors_of(run.cell_id).ran) is not None
        and author.by == who
    ]
    return next((run for run in theirs if run.state == "running"), theirs[0] if theirs else None)


def _needs(session: Session, present: list[Present]) -> Iterator[Need]:
    question = session.questions.current
    if question is not None:
        key = f"question-{question.execution_id}-{question.number}"
        field = f"#answer-{question.execution_id}-{question.number}"
        yield Need(key, "The code asks, and waits for an answer", field)
    plan = _plan(session)
    if plan is not None and plan.phase == "stopped":
        attempts = sum(len(todo.attempts) + todo.tries for todo in plan.steps)
        yield Need(f"plan-{attempts}", "The plan has stopped, and waits for you", "#panel-plan")
    hold = session.record.hold
    if hold is not None:
        for one in present:
            if one.wants:
                text = f"{one.name} would like to go on, and {hold.by} has this session"
                yield Need(f"hold-{one.who}-{hold.seq}", text, "#give-back", f"page:{hold.by}")


def _plan(session: Session) -> Plan | None:
    try:
        return plan_of(session.document.metadata)
    except PlanError:  # the panel says so
        return None


async def _write(request: PageRequest) -> Response:
    """Note which cell somebody writes in, for the others who look."""
    cell_id = (await request.form()).get("cell") or None
    request.engine.presence.writes(request.session().id, actor(), cell_id)
    return request.done()


async def _want(request: PageRequest) -> Response:
    session = request.session()
    request.engine.presence.person_wants(session.id, actor())
    return request.done(f"{session.held_by} is told" if session.held_by else "Nobody has it: take it over")


async def _approve(request: PageRequest) -> Response:
    """Decide what is asked; what holds beyond the session is for owners."""
    choice = (await request.form()).get("choice", "")
    if choice in ("project", "always") and not may(request.person, "own"):
        raise CellwrightError(
            f"{request.person.name} may {request.person.role}, and what holds beyond the session needs the role own",
            hint="Allow it once, or in this session",
        )
    question_id = request.http.path_params["approval_id"]
    session = request.session()
    await request.engine.approvals.answer(question_id, as_choice(choice), by=actor(), at=session.id)
    return request.done("Refused" if choice == "refuse" else "Allowed")


ROUTES = [
    action("/sessions/{session_id}/approvals/{approval_id}", _approve),
    action("/sessions/{session_id}/writes", _write, while_held=True),
    action("/sessions/{session_id}/want", _want, while_held=True),
]
