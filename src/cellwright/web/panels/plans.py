"""A session's plan as the panel shows it, and what a person may do with it. Carried out by the planner and the verifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import PlanError
from cellwright.plans.model import VALIDATION_ID, Attempt, Plan, Todo
from cellwright.plans.reports import notes, summary_text
from cellwright.verification import certificate_state
from cellwright.verification.reports import verification_text
from cellwright.web._templates import DiffLine, Sign
from cellwright.web.requests import PageRequest, action

__all__ = ["ROUTES", "StepView", "plan_values", "step_views"]

_MAX_REASON = 2_000


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt at a TODO, for its template."""

    number: int
    attempt: Attempt
    changed: list[DiffLine]


@dataclass(frozen=True, slots=True)
class StepView:
    """One TODO, for its template."""

    number: int
    todo: Todo
    attempts: tuple[AttemptView, ...]
    """Those that are kept, the newest first."""
    is_current: bool
    source: str
    """What its cell has now, or what it was given."""

    @property
    def needs_code(self) -> bool:
        return self.todo.cell_id is None and self.todo.code is None


async def plan_values(request: PageRequest) -> dict[str, Any]:
    """What the panel shows."""
    session, planner = request.session(), request.site.planner
    verification = request.site.verifier.of(session.id)
    about: dict[str, Any] = {
        "certificate": certificate_state(session.document),
        "verification": verification,
        "proof": verification_text(verification) if verification is not None and verification.done else "",
        "plan": None,
        "problem": None,
    }
    try:
        plan = planner.plan(session)
    except PlanError as error:  # there is none, or it cannot be read
        return about | {"problem": str(error) if error.code != "unknown_plan" else None}
    sources = {cell.id: cell.source for cell in session.cells}
    return about | {
        "plan": plan,
        "phase": "interrupted" if planner.was_cut_off(session) else plan.phase,
        "steps": step_views(plan, sources),
        "notes": notes(plan),
        "summary": summary_text(plan) if plan.phase == "succeeded" else None,
        "may_skip": plan.current is not None and plan.current.id != VALIDATION_ID,
    }


def step_views(plan: Plan, sources: dict[str, str]) -> list[StepView]:
    """Every step with its attempts. Pure."""
    return [_step(plan, todo, sources.get(todo.id) or todo.code or "") for todo in plan.steps]


def _step(plan: Plan, todo: Todo, source: str) -> StepView:
    kept = enumerate((*todo.earlier, *todo.attempts), todo.forgotten + 1)
    tried = [AttemptView(number, attempt, _changed(attempt.diff or "")) for number, attempt in kept]
    return StepView(
        number=plan.number(todo.id),
        todo=todo,
        attempts=tuple(reversed(tried)),
        is_current=plan.current is not None and plan.current.id == todo.id,
        source=source,
    )


def _changed(diff: str) -> list[DiffLine]:
    """The lines of a difference as a plan keeps it."""
    signs: dict[str, Sign] = {"+": "+", "-": "-", " ": " "}
    return [
        DiffLine(signs[line[0]], line[1:]) if line[:1] in signs else DiffLine("…", line)
        for line in diff.splitlines()
    ]


async def _run(request: PageRequest) -> Response:
    await request.site.planner.start(request.session())
    return request.done("The plan goes on")


async def _stop(request: PageRequest) -> Response:
    await request.site.planner.pause(request.session().id)
    return request.done("The plan is paused")


async def _fix(request: PageRequest) -> Response:
    """Give the current step other code."""
    # Forms send every line's end as two characters.
    code = (await request.form())["code"].replace("\r\n", "\n")
    await request.site.planner.fix(request.session(), code)
    return request.done("The plan goes on with it")


async def _ask_fixers(request: PageRequest) -> Response:
    """Ask the fixers what to do about the current step."""
    await request.site.planner.fix(request.session())
    return request.done("The fixers are asked")


async def _skip(request: PageRequest) -> Response:
    reason = (await request.form()).get("reason", "").strip()[:_MAX_REASON]
    await request.site.planner.skip(request.session(), reason or None)
    return request.done("Skipped")


async def _verify(request: PageRequest) -> Response:
    session: Session = request.session()
    await request.site.verifier.start(session)
    return request.done("It is run from the top, in a clean kernel")


async def _stop_verifying(request: PageRequest) -> Response:
    verification = request.site.verifier.of(request.session().id)
    if verification is not None and not verification.done:
        await verification.cancel()
    return request.done("The verification is stopped")


_AT = "/sessions/{session_id}/plan"
ROUTES = [
    action(f"{_AT}/run", _run),
    action(f"{_AT}/stop", _stop),
    action(f"{_AT}/fix", _fix),
    action(f"{_AT}/ask-fixers", _ask_fixers),
    action(f"{_AT}/skip", _skip),
    action(f"{_AT}/verify", _verify),
    action(f"{_AT}/verify/stop", _stop_verifying),
]
