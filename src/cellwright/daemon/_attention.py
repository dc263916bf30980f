"""What a person who asks where things stand is shown first: the newest sessions, and those that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator

from cellwright.engine import Engine, Session
from cellwright.errors import PlanError
from cellwright.plans.model import plan_of
from cellwright.presence import name_of

__all__ = ["recent_sessions", "waiting_for_people"]

_MOST = 5
_WHY = {
    "waiting": (
        "its plan waits for a TODO's code",
        "plan status",
        "show which TODO, and how to give it code",
    ),
    "stopped": ("its plan stopped at a failure", "plan status", "show what failed, and how to go on"),
    "paused": ("its plan is paused", "plan run", "go on with the plan"),
    "ready": ("its plan has not run yet", "plan run", "run the plan"),
}


def recent_sessions(engine: Engine) -> list[dict[str, str]]:
    """The sessions that were made last, the newest first."""
    newest = sorted(engine.sessions("all"), key=lambda session: session.record.created_at, reverse=True)
    return [
        {"session_id": session.id, "state": session.state, "notebook": session.name}
        for session in newest[:_MOST]
    ]


def waiting_for_people(engine: Engine) -> list[dict[str, str]]:
    """The sessions that go on only when a person does something: why, and the command that shows or does it."""
    return [one for session in engine.sessions("all") for one in _waiting(engine, session)]


def _waiting(engine: Engine, session: Session) -> Iterator[dict[str, str]]:
    found = []
    for question in engine.approvals.waiting(session.id):
        if question.matter.session_id is not None:
            asked = f"{name_of(question.by)} asks to {question.matter.what}"
            found.append((asked, f"ui {session.id}", "answer on the page"))
    if session.record.hold is not None:
        held = f"{session.record.hold.by} has taken it over; its agent waits to get it back"
        found.append((held, f"ui {session.id}", "give it back on the page"))
    if session.questions.current is not None:
        asked = session.questions.current.prompt.strip() or "it asks for input"
        found.append((f"a cell waits for an answer: {asked}", f"ui {session.id}", "answer it on the page"))
    if (phase := _plan_phase(session)) in _WHY:
        why, command, does = _WHY[phase]
        found.append((why, f"{command} {session.id}", does))
    for why, command, does in found:
        yield {
            "session_id": session.id,
            "notebook": session.name,
            "why": why,
            "command": command,
            "does": does,
        }


def _plan_phase(session: Session) -> str:
    """How a session's plan stands; empty where it has none, or one that cannot be read."""
    try:
        plan = plan_of(session.document.metadata)
    except PlanError:
        return ""
    return plan.phase if plan is not None else ""
