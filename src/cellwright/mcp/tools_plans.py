"""Tools that make a plan and carry it out step by step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from pydantic import Field

from cellwright.engine import Session
from cellwright.errors import CellwrightError
from cellwright.mcp.arguments import Arguments, Content, MaxTokens, ResponseFormat, SessionId, WaitMs
from cellwright.mcp.calls import CHANGES, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.outlines import TodoArgument, drafted, todo_outline
from cellwright.mcp.planreplies import plan_data, plan_reply
from cellwright.mcp.tools_notebooks import AGENTS_MODE, about_session
from cellwright.mcp.waiting import wait_for_plan
from cellwright.plans import PlanRun
from cellwright.plans.model import Outline
from cellwright.plans.outlines import checked_outline

__all__ = ["PLAN_TOOLS"]

_MAX_ID = 300
_MAX_WORDS = 2_000
_MOST_TODOS = 1_000  # how many a plan may have is the plans' own rule


class CreatePlan(Arguments):
    problem: str = Field(min_length=1, max_length=_MAX_WORDS)
    todos: list[TodoArgument] | None = Field(
        default=None, max_length=_MOST_TODOS, description="In order; none: a draft by rule from files here"
    )
    validation: TodoArgument | None = Field(default=None, description="Decides success at the end")
    session_id: SessionId = Field(default=None, description="Default: a new notebook")


async def plan_create(call: Call, args: CreatePlan) -> Reply:
    """Plan small, ordered, testable TODOs, each one cell. plan_run carries them out; one without code is left to you."""
    named = call.session(args.session_id) if args.session_id is not None else None
    language = named.language if named is not None else call.shared.default_language
    # Before a notebook is made: one that cannot have its plan would be left behind.
    outline = _outline(args, language) if args.todos else None
    session = named if named is not None else await _new_notebook(call, args.problem, language)
    try:
        if outline is None:
            outline = await drafted(session, args.problem, call.root)
        await call.shared.planner.create(session, outline)
    except CellwrightError:
        if named is None:
            await call.engine.delete(session.id, remove_file=True)
            call.client.forget(session.id)
        raise
    return data_reply(about_session(session) | {"plan": plan_data(call, session)}, call)


def _outline(args: CreatePlan, language: str) -> Outline:
    validation = todo_outline(args.validation, language) if args.validation is not None else None
    todos = tuple(todo_outline(todo, language) for todo in args.todos or ())
    return checked_outline(Outline(args.problem, todos, validation), language=language)


async def _new_notebook(call: Call, problem: str, language: str) -> Session:
    session = await call.engine.create(problem, language=language, directory=call.notebooks, mode=AGENTS_MODE)
    call.works_with(session)
    return session


class PlanStep(Arguments):
    session_id: SessionId = None
    wait: int | None = Field(default=None, ge=0, le=280_000)
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None


class RunPlan(PlanStep):
    wait: WaitMs = None
    run_id: str | None = Field(default=None, max_length=_MAX_ID, description="Wait for this one, start none")


async def plan_run(call: Call, args: RunPlan) -> Reply:
    """Run or continue a plan: each TODO's cell in turn, with checks and repairs, until all are done, one needs code or
    it stops with a report. Past wait (55 s) it returns the run id."""
    session = call.session(args.session_id)
    if args.run_id is not None:
        run = call.shared.planner.run_of(session)
        # One that is over is told by the plan itself; another one is not what was asked for.
        return await _followed(
            call, session, run if run is not None and run.id == args.run_id else None, args
        )
    return await _driven(call, session, partial(call.shared.planner.start, session), args)


class AskStatus(Arguments):
    session_id: SessionId = None


async def plan_status(call: Call, args: AskStatus) -> Reply:
    """A plan's TODOs: status, attempts, fixes, and what is next."""
    session = call.session(args.session_id, reads=True)
    return data_reply(plan_data(call, session), call)


class FixPlan(PlanStep):
    code: Content | None = None


async def plan_fix(call: Call, args: FixPlan) -> Reply:
    """Give the current TODO this code (none: ask the fixers), and continue as plan_run."""
    session = call.session(args.session_id)
    return await _driven(call, session, partial(call.shared.planner.fix, session, args.code or None), args)


class SkipTodo(PlanStep):
    reason: str | None = Field(default=None, max_length=_MAX_WORDS)


async def plan_skip(call: Call, args: SkipTodo) -> Reply:
    """Skip the current TODO, and continue as plan_run."""
    session = call.session(args.session_id)
    return await _driven(call, session, partial(call.shared.planner.skip, session, args.reason), args)


async def _driven(
    call: Call, session: Session, begin: Callable[[], Awaitable[PlanRun]], args: PlanStep
) -> Reply:
    # Shielded: a call that is cancelled while its plan begins must know what to pause.
    with anyio.CancelScope(shield=True):
        run = await begin()
    return await _followed(call, session, run, args)


async def _followed(call: Call, session: Session, run: PlanRun | None, args: PlanStep) -> Reply:
    if run is not None:
        await wait_for_plan(call, run, wait_ms=args.wait)
    run_id = run.id if run is not None else None
    return await plan_reply(call, session, run_id, form=args.response_format, max_tokens=args.max_tokens)


PLAN_TOOLS = (
    Definition(plan_create, CreatePlan, CHANGES),
    Definition(plan_run, RunPlan, CHANGES, asks_for=("session_id",)),
    Definition(plan_status, AskStatus, READS, asks_for=("session_id",)),
    Definition(plan_fix, FixPlan, CHANGES, asks_for=("session_id",)),
    Definition(plan_skip, SkipTodo, CHANGES, asks_for=("session_id",)),
)
