"""ReAct: reason, act, observe, until there is an answer."""

from __future__ import annotations

from typing import Any

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.shapes import Code, Draft, Ideas, Pick, Scores, Verdict
from cellwright.agent.runner import Run

__all__ = ["ensemble", "plan", "react", "refine", "reflect", "tree"]


async def react(run: Run, branch: Branch, task: str) -> Branch:
    """The tool loop alone. A task of one cell is answered with one request."""
    return await run.act(branch, task)


# Plan-and-Execute: the steps first, as the engine's plan, then each in turn with its checks and repairs.

_CONCLUDE = "All steps are done. Answer from what their cells put out: {task}"

_MAX_CODES = 3

"""How often a model gives code for one step; the fixers' tries come on top, and before."""


async def plan(run: Run, branch: Branch, task: str) -> Branch:
    """A model drafts, the engine carries out, and asks where code is missing or could not be mended."""
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
    scores = await run.think("score", Scores, branch, f"Score these ways to do: {task}\n{listed}")
    best = _best(scores.scores, len(ideas))[:_TRIED]
    tried = await run.act_apart(branch, [f"{task}\nDo it this way: {ideas[one]}" for one in best])
    good = [one for one in tried if one.ok]
    if len(good) > 1:
        results = "\n".join(f"{number}. {one.answer}" for number, one in enumerate(good, 1))
        scores = await run.think("score", Scores, branch, f"Score these results of: {task}\n{results}")
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
            verdict = await run.think("judge", Verdict, branch, ask)
            if verdict.ok or not left:
                break
            goal = f"Do better: {'; '.join(verdict.issues)}"
        elif left:
            goal = f"The last version failed. Try another way.\n{branch.report}"
    return branch


# Reflection: do it, let a critic look at it and at its charts, mend what it finds.

_REFLECT_ROUNDS = 3

_ASK = """Criticise the work as a careful reviewer: does it answer the question, from output that was executed? Look at \
each chart: title, axis labels, legend, distinct colours, empty data. The question: {task}
The answer so far: {answer}"""


async def reflect(run: Run, branch: Branch, task: str) -> Branch:
    """What rules can see of a chart is found by rule; the critic sees the chart as it is drawn."""
    branch = await run.act(branch, task)
    for _ in range(_REFLECT_ROUNDS):
        if not branch.ok:
            break
        seen = await run.look(branch)
        ask = _ASK.format(task=task, answer=branch.answer)
        verdict = await run.think("critic", Verdict, branch, ask, pictures=seen.pictures)
        issues = [*seen.issues, *([] if verdict.ok else verdict.issues)]
        if not issues:
            break
        branch = await run.act(branch, "Mend this, in the cells where it is: " + "; ".join(issues))
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
    pick = await run.think("aggregate", Pick, branch, f"Compare these results of: {task}\n{results}")
    winner = good[min(pick.best, len(good)) - 1]
    others = [one for one in good if one is not winner]
    return await run.adopt(branch, winner, why=pick.why, also=others, answer=pick.answer)
