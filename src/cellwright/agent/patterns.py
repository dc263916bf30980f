"""The patterns by which the agent works on a task: ReAct, Plan-and-Execute, Tree of Thoughts, refinement, reflection, ensemble.

Each is a short function over the actions of a ``Run``, and a row of the table at the end; ``jit`` chooses one.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, Field

from cellwright.agent.branches import Branch
from cellwright.agent.runner import Run

__all__ = [
    "Choice",
    "Chosen",
    "Code",
    "Draft",
    "Ideas",
    "Pick",
    "Scores",
    "Step",
    "Verdict",
    "by_shape",
    "choose",
]


async def react(run: Run, branch: Branch, task: str) -> Branch:
    """The tool loop alone. A task of one cell is answered with one request."""
    return await run.act(branch, task)


# Plan-and-Execute: the steps first, as the engine's plan, then each in turn with its checks and repairs.

_CONCLUDE = "All steps are done. Answer from what their cells put out: {task}"

_MAX_CODES = 3
"""How often a model gives code for one step; the fixers' tries come on top, and before."""


async def plan(run: Run, branch: Branch, task: str) -> Branch:
    """A model drafts, the engine carries out, and asks where code is missing or could not be fixed."""
    draft = await run.think("plan", Draft, branch, f"Plan this as steps of one cell each: {task}")
    state = await run.plan(branch, task, [_todo(step.model_dump()) for step in draft.steps])
    if state is None:
        return await _by_hand(run, branch, task, draft)
    codes: dict[int, int] = {}
    while state["phase"] in {"waiting", "stopped"}:
        step = state["next"]["number"]
        codes[step] = codes.get(step, 0) + 1
        if codes[step] > _MAX_CODES:
            return run.stop(branch, state["report"]["text"])
        code = await run.think("code", Code, branch, _wanted(state))
        state = await run.give_code(branch, code.code)
    if state["phase"] != "succeeded":
        return run.stop(branch, f"The plan is {state['phase']}. plan_run goes on with it.")
    return await run.act(branch, _CONCLUDE.format(task=task))


async def _by_hand(run: Run, branch: Branch, task: str, draft: Draft) -> Branch:
    """The same in a notebook whose plan is another question's: step by step, each with the tools."""
    for number, step in enumerate(draft.steps, 1):
        code = f"\nPerhaps with this cell:\n{step.code}" if step.code else ""
        branch = await run.act(branch, f"Step {number} of {task!r}: {step.description}{code}")
        if not branch.ok:
            return branch
    return await run.act(branch, _CONCLUDE.format(task=task))


def _todo(step: dict[str, Any]) -> dict[str, Any]:
    told = {"description": step["description"], "code": step["code"], "accept": step["check"]}
    return {name: value for name, value in told.items() if value is not None}


def _wanted(state: dict[str, Any]) -> str:
    step = state["next"]
    if (report := state.get("report")) is not None:
        return f"Step {step['number']} failed. Write its cell anew.\n{report['text']}"
    return f"Write the cell of step {step['number']}: {step['description']}"


# Tree of Thoughts: several ways are thought of and scored, the best are tried side by side, the best of
# these stays.

_TRIED = 2


async def tree(run: Run, branch: Branch, task: str) -> Branch:
    """Thoughts cost a request, tries a branch: so only the most promising thoughts are tried."""
    ask = f"Name two to four ways that really differ, a sentence each, to do this: {task}"
    ideas = (await run.think("propose", Ideas, branch, ask)).ideas
    listed = "\n".join(f"{number}. {idea}" for number, idea in enumerate(ideas, 1))
    scores = (
        await run.advice("score", Scores, branch, f"Score these ways to do: {task}\n{listed}") or _UNSCORED
    )
    best = _best(scores.scores, len(ideas))[:_TRIED]
    tried = await run.act_apart(branch, [f"{task}\nDo it this way: {ideas[one]}" for one in best])
    good = [one for one in tried if one.ok]
    if len(good) > 1:
        results = "\n".join(f"{number}. {one.answer}" for number, one in enumerate(good, 1))
        ask = f"Score these results of: {task}\n{results}"
        scores = await run.advice("score", Scores, branch, ask) or _UNSCORED
        good = [good[one] for one in _best(scores.scores, len(good))]
    return await run.adopt(branch, good[0] if good else tried[0], why=scores.why)


def _best(scores: list[float], count: int) -> list[int]:
    """Places by score, the best first; where a score is missing it is the worst."""
    padded = [*scores[:count], *[float("-inf")] * (count - len(scores))]
    return sorted(range(count), key=lambda place: -padded[place])


# Iterative Refinement: a first version, then better ones, until nothing is missing.

_REFINE_ROUNDS = 4


async def refine(run: Run, branch: Branch, task: str) -> Branch:
    """Each round starts from what the last one left: its error where it failed, what is missing where it did not."""
    goal = task
    for left in range(_REFINE_ROUNDS - 1, -1, -1):
        branch = await run.act(branch, goal)
        if branch.ok:
            ask = f"Is anything missing or wrong in this? The task: {task}\nThe result: {branch.answer}"
            verdict = await run.advice("judge", Verdict, branch, ask)
            if verdict is None or verdict.ok or not left:
                break
            goal = f"Do better: {'; '.join(verdict.issues)}"
        elif left:
            goal = f"The last version failed. Try another way.\n{branch.report}"
    return branch


# Reflection: do it, let a critic look at it and at its charts, fix what it finds.

_REFLECT_ROUNDS = 3

_ASK = """Criticise the work as a careful reviewer: does it answer the question, from output that was executed? Look at \
each chart: title, axis labels, legend, distinct colours, empty data. The question: {task}
The answer so far: {answer}"""


async def reflect(run: Run, branch: Branch, task: str) -> Branch:
    """What rules can see of a chart is found by rule; the critic sees the chart as it is drawn."""
    branch = await run.act(branch, task)
    verdict: Verdict | None = None
    for first in (True, *[False] * (_REFLECT_ROUNDS - 1)):
        if not branch.ok:
            break
        seen = await run.look(branch)
        ask = _ASK.format(task=task, answer=branch.answer)
        if first or verdict is not None:  # a critic without sense is not asked again
            verdict = await run.advice("critic", Verdict, branch, ask, pictures=seen.pictures)
        issues = [*seen.issues, *(verdict.issues if verdict is not None and not verdict.ok else [])]
        if not issues:
            break
        branch = await run.act(branch, "Fix this, in the cells where it is: " + "; ".join(issues))
    return branch


# Ensemble: several ways are carried out whole, side by side, and compared.

_MOST = 4


async def ensemble(run: Run, branch: Branch, task: str) -> Branch:
    """Each way in a kernel of its own, grown from the same state; the answer follows from all of them."""
    ask = f"Name two to four approaches that really differ, a sentence each, to try on: {task}"
    ideas = (await run.think("propose", Ideas, branch, ask)).ideas[:_MOST]
    tried = await run.act_apart(branch, [f"{task}\nUse this approach: {idea}" for idea in ideas])
    good = [one for one in tried if one.ok]
    if not good:
        return await run.adopt(branch, tried[0], why="None of the approaches came to an end")
    results = "\n".join(f"{number}. {one.answer}" for number, one in enumerate(good, 1))
    pick = await run.advice("aggregate", Pick, branch, f"Compare these results of: {task}\n{results}")
    if pick is None:
        return await run.adopt(
            branch, good[0], why="Nobody compared them: it is the first that came to an end"
        )
    winner = good[min(pick.best, len(good)) - 1]
    others = [one for one in good if one is not winner]
    return await run.adopt(branch, winner, why=pick.why, also=others, answer=pick.answer)


# JIT: which pattern a task asks for, by its shape, and why. By rule where that is plain; else a model is
# asked.

_compares = re.compile(
    r"\b(best|optimal|which (model|method|approach|algorithm)|compare (several|different|models|methods|approaches)"
    r"|several (ways|approaches|models|methods)|cluster|classif\w+|ensemble)\b",
    re.IGNORECASE,
)

_explores = re.compile(
    r"\b(correlat\w+|relationship|explore|why|cause|explain|significan\w+)\b", re.IGNORECASE
)

_draws = re.compile(
    r"\b(plot|chart|graph|heat ?map|histogram|scatter|diagram|visuali[sz]\w*|draw)\b", re.IGNORECASE
)

_scrapes = re.compile(r"\b(scrape|crawl|web ?pages?|extract .* from)\b", re.IGNORECASE)

_steps = re.compile(
    r"\b(then|after that|and (then )?(plot|calculate|compute|show|export|save|merge|train|compare)|finally|first"
    r"|step by step)\b|[;,] (calculate|compute|plot|merge|group|export|train)",
    re.IGNORECASE,
)

_fetches = re.compile(r"\b(download|fetch|https?://)", re.IGNORECASE)

_analyses = re.compile(r"\banaly[sz]\w*", re.IGNORECASE)

_at_hand = re.compile(
    r"\b(this|these|that|those|my|our|it)\b|\.(csv|json|parquet|xlsx?|txt)\b", re.IGNORECASE
)
"""Words for data that the user has: an analysis of anything else begins with finding it."""

_WHY = {
    "ensemble": "it asks which of several ways is best: they are tried side by side",
    "refine": "pages are rarely as expected: versions until nothing is missing",
    "plan": "it has several steps that build on each other: planned, then carried out",
    "tree": "it can be looked at in several ways: the most promising are tried",
    "reflect": "it asks for a chart or for an analysis of what is fetched: a critic looks at the result",
    "react": "it looks like one or two cells: no more than the loop is needed",
}

_USUAL = "react"

_MANY_STEPS = 2

_SHORT = 30
"""Words: a longer task is rarely one cell."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pattern, and why."""

    pattern: str
    why: str
    by: str = "rule"


def by_shape(task: str, data: Sequence[Path] = ()) -> Chosen | None:
    """The pattern that the task's own words ask for, the first that suits; None where they do not say."""
    draws = _draws.search(task) is not None
    fetches = _fetches.search(task) is not None
    analyses = _analyses.search(task) is not None
    beyond = len(_steps.findall(task)) + (len(data) > 1)
    steps = beyond + fetches
    found_first = analyses and not (fetches or data or _at_hand.search(task))
    suits = {
        "ensemble": _compares.search(task) is not None,
        "refine": _scrapes.search(task) is not None,
        "plan": steps > _MANY_STEPS or (beyond == _MANY_STEPS and draws) or found_first,
        "tree": _explores.search(task) is not None and not draws,
        # What is fetched and then drawn in one go: whether it came as expected shows in the loop.
        "reflect": (draws and not (fetches and beyond)) or (analyses and fetches),
        "react": len(task.split()) <= _SHORT,
    }
    pattern = next((name for name, does in suits.items() if does), None)
    return Chosen(pattern, _WHY[pattern]) if pattern is not None else None


async def choose(run: Run, branch: Branch, task: str, data: Sequence[Path] = ()) -> Chosen:
    """The pattern for a task. A model is asked only where the words leave it open."""
    if (chosen := by_shape(task, data)) is not None:
        return chosen
    ask = f"Which of these patterns suits the task?\n{_listed()}\nThe task: {task}"
    choice = await run.advice("choose", Choice, branch, ask)
    if choice is None:
        return Chosen(_USUAL, "no model chose one", by="rule")
    if choice.pattern not in PATTERNS:
        return Chosen(_USUAL, f"{choice.pattern!r}, which was chosen, is no pattern", by="model")
    return Chosen(choice.pattern, choice.why, by="model")


def _listed() -> str:
    """Each pattern with the tasks that it is for; one that was added says so in its docstring."""
    return "\n".join(
        f"{name}: {_WHY.get(name) or (pattern.__doc__ or '').strip().splitlines()[0]}"
        for name, pattern in PATTERNS.items()
    )


# What patterns ask a model to think of. Each is the type of one reply.


class Step(BaseModel):
    """One step of a plan: one cell."""

    description: str = Field(max_length=300)
    code: str | None = Field(default=None, description="None: it is asked for when its turn comes")
    check: str | None = Field(default=None, description="A Python expression that is true once it is done")


class Draft(BaseModel):
    """A plan: small steps in order, each one cell."""

    steps: list[Step] = Field(min_length=1, max_length=20)


class Code(BaseModel):
    """The source of one cell."""

    code: str


class Verdict(BaseModel):
    """Whether the work answers the question."""

    ok: bool
    issues: list[str] = Field(default_factory=list, description="What is wrong, each with what to do")


class Ideas(BaseModel):
    """Ways to do it that really differ."""

    ideas: list[str] = Field(min_length=1, max_length=8)


class Scores(BaseModel):
    """How promising each way is, from 0 to 1, in their order."""

    scores: list[float]
    why: str = ""


_UNSCORED = Scores(scores=[], why="Nobody scored them: they are taken in their order")


class Pick(BaseModel):
    """Which result is best, counted from 1, and the answer that follows from all of them."""

    best: int = Field(ge=1)
    why: str
    answer: str = Field(description="With numbers only from the results")


class Choice(BaseModel):
    """Which pattern suits the task."""

    pattern: str
    why: str


# Patterns: how a task is gone about. Each is a short function over the actions of a ``Run``, and a row here.

Pattern: TypeAlias = Callable[[Run, Branch, str], Awaitable[Branch]]

PATTERNS: dict[str, Pattern] = {
    "react": react,
    "plan": plan,
    "reflect": reflect,
    "tree": tree,
    "refine": refine,
    "ensemble": ensemble,
}

JIT = "jit"
"""Not a pattern of its own: one of the above, chosen by the task's shape."""
