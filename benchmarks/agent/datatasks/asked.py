"""The agent asked every question of a set, pattern by pattern, and what each answer came to. Resumable.

Each question stands alone: where a set's steps build on one another, those before are run with the set's own solutions
first, in the notebook that the agent goes on with. A line is written as soon as a question is settled, and what has a
line is not asked again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import anyio

from cellwright import CellwrightError, Engine, Session
from cellwright.agent.budgets import Budget
from cellwright.agent.evidence.numbers import MARK
from cellwright.agent.patterns import JIT
from cellwright.agent.questions import Question
from cellwright.delegation import Outcome
from datatasks.answers import settle
from datatasks.judging import judge_cells
from datatasks.records import Asked, add_asked, read_asked
from datatasks.tasks import Task, TaskSet, stage, wants_of

__all__ = ["Ask", "Inquiry", "ask_all"]

Ask: TypeAlias = Callable[[Question], Awaitable[Outcome]]
_RETURNED = (
    "\n\nWork in this notebook, where what came before has run. Keep the names that are asked for. Let the last "
    "expression of your last cell be the result itself, not printed."
)
_SHOWN = 2000
_SHOWN_LINE = 200


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Who is asked, how, and within what."""

    model: str
    patterns: tuple[str, ...]
    """Names of patterns; empty is the agent's own choice."""
    budget: Budget = field(default_factory=Budget)
    parallel: int = 1
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys and addresses of models."""


async def ask_all(
    engine: Engine,
    ask: Ask,
    tasks: TaskSet,
    inquiry: Inquiry,
    *,
    scratch: Path,
    out: Path,
    say: Callable[[str], None] = lambda _: None,
) -> list[Asked]:
    """Ask what is not settled, so many at a time, and return everything that is about these tasks."""
    settled = {one.key: one for one in read_asked(out) if one.settled}
    turn = anyio.CapacityLimiter(inquiry.parallel)

    async def settle_one(task: Task, number: int, pattern: str, place: Path) -> None:
        async with turn:
            asked = await _settle(engine, ask, (tasks.name, task, number, pattern), inquiry, place)
        add_asked(out, asked)
        settled[asked.key] = asked
        came = "right" if asked.right else asked.failure or "wrong: " + "; ".join(asked.wrong)
        say(f"{pattern} {task.id}[{number}]: {came[:_SHOWN_LINE]}")

    wanted = set()
    async with anyio.create_task_group() as group:
        for count, (task, number, pattern) in enumerate(_wanted(tasks, inquiry, say)):
            key = (tasks.name, task.id, number, pattern, inquiry.model)
            wanted.add(key)
            if key not in settled:
                group.start_soon(settle_one, task, number, pattern, scratch / str(count))
    return [one for key, one in settled.items() if key in wanted]


def _wanted(tasks: TaskSet, inquiry: Inquiry, say: Callable[[str], None]) -> Iterator[tuple[Task, int, str]]:
    for task in tasks.tasks:
        if reason := wants_of(task):
            say(f"{task.id} is left out: {reason}")
            continue
        for number in task.questions:
            for pattern in inquiry.patterns or (JIT,):
                yield task, number, pattern


async def _settle(
    engine: Engine, ask: Ask, which: tuple[str, Task, int, str], inquiry: Inquiry, place: Path
) -> Asked:
    """Ask one question and judge what comes."""
    name, task, number, pattern = which
    plain = Asked(name, task.id, number, pattern, inquiry.model)
    begun = time.perf_counter()
    try:
        session, context = await _prepared(engine, task, number, place / "work")
        outcome = await ask(_question(task, number, pattern, inquiry, place / "work", session))
        # What was there before is not the agent's; in another notebook everything is.
        own = context if session and outcome.session_id == session.id else 0
        return await _judged(engine, plain, task, (outcome, own), place / "judge")
    except CellwrightError as error:
        return Asked(*plain.key, failure=str(error), seconds=time.perf_counter() - begun)
    finally:
        with anyio.CancelScope(shield=True):
            await _clear(engine, place)


async def _clear(engine: Engine, place: Path) -> None:
    """End every session that worked there, its branches too, and remove what they left."""
    for session in engine.sessions():
        if session.path.is_relative_to(place):
            await engine.delete(session.id)
    shutil.rmtree(place, ignore_errors=True)


async def _prepared(engine: Engine, task: Task, number: int, place: Path) -> tuple[Session | None, int]:
    """The notebook with what came before, and how many code cells that is; None where nothing did."""
    stage(task, place)
    if task.steps[number].answers:
        return None, 0
    before = [cell for step in task.steps[:number] for cell in step.cells]
    session = await engine.create(task.id.replace("/", " "), directory=place)
    for code in before:
        await session.run((await session.add_cell(code)).id)
    return session, len(before)


def _question(
    task: Task, number: int, pattern: str, inquiry: Inquiry, place: Path, session: Session | None
) -> Question:
    step = task.steps[number]
    return Question(
        step.question if step.answers else step.question + _RETURNED,
        data=tuple(place / name for name in task.files) if session is None else (),
        pattern=None if pattern == JIT else pattern,
        models=(inquiry.model,),
        budget=inquiry.budget,
        session_id=session.id if session else None,
        directory=place,
        environment=inquiry.environment,
    )


async def _judged(engine: Engine, plain: Asked, task: Task, came: tuple[Outcome, int], place: Path) -> Asked:
    outcome, skipped = came
    step = task.steps[plain.step]
    parts, findings = settle(outcome.answer.replace(MARK, ""), step.answers), []
    if not step.answers:
        cells = _code(engine, outcome)[skipped:]
        findings = await judge_cells(task, plain.step, cells, place)
        right, nearly = not findings, all(one["presentation"] for one in findings)
        wrong = tuple(f"{one['rule']}: {one['reason']}" for one in findings)
    else:
        right = nearly = all(parts.values())
        wrong = tuple(name for name, is_right in parts.items() if not is_right)
    return Asked(
        *plain.key,
        right=right,
        parts=parts,
        nearly=nearly,
        judged=not any(one["rule"] == "reference" for one in findings),
        failure=None if outcome.ok else outcome.report or "no answer",
        wrong=wrong,
        answer=outcome.answer[:_SHOWN],
        went_by=outcome.pattern,
        untraced=len(outcome.untraced),
        tokens_in=outcome.usage.tokens_in,
        tokens_out=outcome.usage.tokens_out,
        money=outcome.usage.money,
        requests=outcome.steps,
        seconds=outcome.seconds,
    )


def _code(engine: Engine, outcome: Outcome) -> Sequence[str]:
    if outcome.session_id is None:
        return ()
    return [cell.source for cell in engine.session(outcome.session_id).cells if cell.kind == "code"]
