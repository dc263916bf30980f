"""Tools that make a plan and carry it out step by step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, assert_never

import anyio
from pydantic import Field

from cellwright.engine import Execution, Session
from cellwright.errors import CellwrightError, UnknownExecution
from cellwright.mcp._arguments import Arguments, Content, MaxTokens, ResponseFormat, SessionId, WaitS
from cellwright.mcp._replies import DEFAULT_TOKENS, execution_reply, executions_json
from cellwright.mcp._waits import wait_for_plan
from cellwright.mcp.calls import CHANGES, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.outputs import clean
from cellwright.mcp.tools._plan_outlines import TodoArgument, drafted, todo_outline
from cellwright.mcp.tools.notebooks import AGENTS_MODE, about_session
from cellwright.plans import PlanRun
from cellwright.plans.model import VALIDATION_ID, Attempt, Outline, Plan, Todo
from cellwright.plans.outlines import checked_outline
from cellwright.plans.reports import MARKS, done_text, notes, plan_json, summary_text, todo_line
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle

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
    """Break a problem into small, ordered, testable steps (TODOs), each one cell, as a plan. plan_run carries them out; one without
    code is left to you."""
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
    return data_reply(about_session(session, call.shared.names) | {"plan": plan_data(call, session)}, call)


def _outline(args: CreatePlan, language: str) -> Outline:
    validation = todo_outline(args.validation, language) if args.validation is not None else None
    todos = tuple(todo_outline(todo, language) for todo in args.todos or ())
    return checked_outline(Outline(args.problem, todos, validation), language=language)


async def _new_notebook(call: Call, problem: str, language: str) -> Session:
    session = await call.engine.create(
        problem, language=language, directory=call.notebooks, mode=AGENTS_MODE, chosen=call.chosen
    )
    call.works_with(session)
    return session


class PlanStep(Arguments):
    session_id: SessionId = None
    wait_s: WaitS = None
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None


class RunPlan(PlanStep):
    run_id: str | None = Field(default=None, max_length=_MAX_ID, description="Wait for this one, start none")


async def plan_run(call: Call, args: RunPlan) -> Reply:
    """Carry out a plan: each TODO's cell in turn, with checks and repairs, until all are done, one needs code or it stops with a
    report. Past 55 s it returns the run id."""
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
    """Status of a plan's TODOs: attempts, fixes, and what is next."""
    session = call.session(args.session_id, reads=True)
    return data_reply(plan_data(call, session), call)


class FixPlan(PlanStep):
    code: Content | None = None


async def plan_fix(call: Call, args: FixPlan) -> Reply:
    """Fix the plan's current TODO with this code (none: ask the fixers), and continue as plan_run."""
    session = call.session(args.session_id)
    return await _driven(call, session, partial(call.shared.planner.fix, session, args.code or None), args)


class SkipTodo(PlanStep):
    reason: str | None = Field(default=None, max_length=_MAX_WORDS)


async def plan_skip(call: Call, args: SkipTodo) -> Reply:
    """Skip this step of a plan, and continue as plan_run."""
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
        await wait_for_plan(call, run, wait_s=args.wait_s)
    run_id = run.id if run is not None else None
    return await plan_reply(call, session, run_id, form=args.response_format, max_tokens=args.max_tokens)


PLAN_TOOLS = (
    Definition(plan_create, CreatePlan, CHANGES),
    Definition(plan_run, RunPlan, CHANGES, asks_for=("session_id",)),
    Definition(plan_status, AskStatus, READS, asks_for=("session_id",)),
    Definition(plan_fix, FixPlan, CHANGES, asks_for=("session_id",)),
    Definition(plan_skip, SkipTodo, CHANGES, asks_for=("session_id",)),
)


# How a plan is answered: a line a TODO, what was fixed and how, why it stopped, what to call next, and what
# its cells put out. Text with pictures, or one JSON object; a client is told each fix and each output once.

_LEAST_TOKENS = 50

_MAX_DIFF = 2_000

# Past so many steps those that stand alike are told together.
_MOST_LINES = 40

_ALIKE = 3


@dataclass(frozen=True, slots=True)
class _Fresh:
    """An attempt that is over and that the client has not been told of."""

    key: str
    todo: Todo
    attempt: Attempt
    last: bool
    """Whether it is what the TODO's cell shows now."""


def plan_data(call: Call, session: Session) -> dict[str, Any]:
    """A session's plan as data.

    Raises:
        UnknownPlan: it has none.
    """
    plan = call.shared.planner.plan(session)
    run = call.shared.planner.run_of(session)
    about = plan_json(plan, interrupted=_is_interrupted(plan, run))
    found = {"session_id": session.id, "mode": session.mode, **about}
    if run is not None:
        found["run_id"] = run.id
    if plan.phase == "succeeded":
        found["summary"] = summary_text(plan)
    return {**found, "next_call": _next_call(call, session, plan, run)}


async def plan_reply(
    call: Call, session: Session, run_id: str | None, *, form: ResponseFormat, max_tokens: int | None
) -> Reply:
    """Answer a call that carried a plan on, or waited for it."""
    plan = call.shared.planner.plan(session)
    reported = call.client.plans.get(session.id, frozenset())
    ended = [one for todo in plan.steps for one in _ended(todo)]
    fresh = [one for one in ended if one.key not in reported]
    call.client.plans[session.id] = frozenset(one.key for one in ended)
    # The plan's own lines say what became of the kernel.
    call.client.generations[session.id] = session.generation
    executions = list(_executions(call, fresh))
    tokens = max_tokens or DEFAULT_TOKENS
    if form == "json":
        each = max(tokens // max(len(executions), 1), _LEAST_TOKENS)
        outputs = [
            executions_json(
                [one],
                cell_id=one.cell_id,
                max_tokens=each,
                say=call.shared.names.say,
                say_error=call.shared.names.say_error,
            )
            for one in executions
        ]
        found = plan_data(call, session) | {"executions": outputs}
        return data_reply(found | ({"run_id": run_id} if run_id is not None else {}), call)
    text = "\n".join(_lines(call, session, plan, run_id, fresh))
    if not executions:
        return Reply(text)
    rest = max(tokens - len(text) // CHARACTERS_PER_TOKEN, _LEAST_TOKENS)
    outputs_reply = await execution_reply(call, session, executions, response_format="text", max_tokens=rest)
    return Reply(f"{text}\n\n{outputs_reply.text}", outputs_reply.images)


def _ended(todo: Todo) -> Iterator[_Fresh]:
    attempts = (*todo.earlier, *todo.attempts)
    for place, attempt in enumerate(attempts, 1):
        if attempt.state != "running":
            key = attempt.execution_id or f"{todo.id}#{todo.forgotten + place}"
            yield _Fresh(key, todo, attempt, last=place == len(attempts))


def _executions(call: Call, fresh: Sequence[_Fresh]) -> Iterator[Execution]:
    """What the cells show that ran: of a TODO that was tried again, only the last."""
    for one in fresh:
        if one.last and one.attempt.execution_id is not None:
            try:
                execution = call.engine.execution(one.attempt.execution_id)
            except UnknownExecution:
                continue  # its history was cleared away
            if execution.done:
                yield execution


# In lines ------------------------------------------------------------------------------------------------------------


def _lines(
    call: Call, session: Session, plan: Plan, run_id: str | None, fresh: Sequence[_Fresh]
) -> Iterator[str]:
    run = call.shared.planner.run_of(session)
    phase = "interrupted" if _is_interrupted(plan, run) else plan.phase
    facts = [
        f"session {session.id}",
        f"run {run_id}" if run_id is not None else "",
        phase,
        done_text(plan),
    ]
    yield " | ".join(fact for fact in facts if fact)
    for line in _todo_lines(plan, {one.todo.id for one in fresh if one.attempt.fixer is not None}):
        yield clean(line)
    for one in fresh:
        if one.attempt.fixer is not None:
            yield _fix(plan, one)
    yield from (clean(line) for line in notes(plan))
    if phase == "stopped" and plan.report is not None:
        yield clean(plan.report.text)
    elif phase == "succeeded":
        yield clean(summary_text(plan))
    yield _next_call(call, session, plan, run)


def _todo_lines(plan: Plan, fixed: set[str]) -> Iterator[str]:
    if len(plan.steps) <= _MOST_LINES:
        yield from (todo_line(plan, todo) for todo in plan.steps)
        return
    for (status, alone), group in groupby(plan.steps, lambda todo: (todo.status, todo.id in fixed)):
        todos = list(group)
        if alone or status in ("running", "failed") or len(todos) < _ALIKE:
            yield from (todo_line(plan, todo) for todo in todos)
        else:
            first, last = plan.number(todos[0].id), plan.number(todos[-1].id)
            yield f"{MARKS[status]} {first} to {last}: {status}"


def _fix(plan: Plan, one: _Fresh) -> str:
    attempt = one.attempt
    why = f" ({clean(attempt.reason)})" if attempt.reason else ""
    line = f"fix of {plan.number(one.todo.id)} by {attempt.fixer}: {attempt.state}{why}"
    return f"{line}\n{cut_middle(clean(attempt.diff), _MAX_DIFF)}".rstrip() if attempt.diff else line


def _is_interrupted(plan: Plan, run: PlanRun | None) -> bool:
    """Whether the plan says that it is running, and nobody runs it: an engine ended meanwhile."""
    return plan.phase == "running" and run is None


def _next_call(call: Call, session: Session, plan: Plan, run: PlanRun | None) -> str:
    """What to do next, as calls."""
    of = f"session_id='{session.id}'"
    match plan.phase:
        case "running" if run is not None:
            return f"Still running: plan_run({of}, run_id='{run.id}') goes on waiting, kernel_interrupt({of}) pauses"
        case "ready":
            return f"Next: plan_run({of})"
        case "running" | "paused":
            return f"Next: plan_run({of}) goes on with it"
        case "waiting":
            return f"Next: {_current(plan)} has no code: plan_fix({of}, code='…'), or plan_skip({of})"
        case "stopped":
            skip = "" if _is_validation(plan) else f", or plan_skip({of})"
            again = f", or plan_run({of}) to try the same again"
            return f"Next: {_current(plan)} failed: plan_fix({of}, code='…') with other code{skip}{again}"
        case "succeeded":
            verify = (
                f": plan_verify({of}) proves it in a clean kernel"
                if call.shared.names.name("plan_verify")
                else ""
            )
            return f"Nothing is left to do{verify}"
        case _:
            assert_never(plan.phase)


def _current(plan: Plan) -> str:
    todo = plan.current
    return f"TODO {plan.number(todo.id)} ({clean(todo.description)})" if todo is not None else "the plan"


def _is_validation(plan: Plan) -> bool:
    return plan.current is not None and plan.current.id == VALIDATION_ID
