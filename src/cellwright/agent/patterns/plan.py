"""Plan-and-Execute: the steps first, as the engine's plan, then each in turn with its checks and repairs."""

from __future__ import annotations

from typing import Any

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.shapes import Code, Draft
from cellwright.agent.verbs import Verbs

__all__ = ["plan"]

_CONCLUDE = "All steps are done. Answer from what their cells put out: {task}"
_MAX_CODES = 3
"""How often a model gives code for one step; the fixers' tries come on top, and before."""


async def plan(verbs: Verbs, branch: Branch, task: str) -> Branch:
    """A model drafts, the engine carries out, and asks where code is missing or could not be mended."""
    draft = await verbs.think("plan", Draft, branch, f"Plan this as steps of one cell each: {task}")
    state = await verbs.plan(branch, task, [_todo(step.model_dump()) for step in draft.steps])
    if state is None:
        return await _by_hand(verbs, branch, task, draft)
    codes: dict[int, int] = {}
    while state["phase"] in {"waiting", "stopped"}:
        step = state["next"]["number"]
        codes[step] = codes.get(step, 0) + 1
        if codes[step] > _MAX_CODES:
            return verbs.stop(branch, state["report"]["text"])
        code = await verbs.think("code", Code, branch, _wanted(state))
        state = await verbs.give_code(branch, code.code)
    if state["phase"] != "succeeded":
        return verbs.stop(branch, f"The plan is {state['phase']}. plan_run goes on with it.")
    return await verbs.act(branch, _CONCLUDE.format(task=task))


async def _by_hand(verbs: Verbs, branch: Branch, task: str, draft: Draft) -> Branch:
    """The same in a notebook whose plan is another question's: step by step, each with the tools."""
    for number, step in enumerate(draft.steps, 1):
        code = f"\nPerhaps with this cell:\n{step.code}" if step.code else ""
        branch = await verbs.act(branch, f"Step {number} of {task!r}: {step.description}{code}")
        if not branch.ok:
            return branch
    return await verbs.act(branch, _CONCLUDE.format(task=task))


def _todo(step: dict[str, Any]) -> dict[str, Any]:
    told = {"description": step["description"], "code": step["code"], "accept": step["check"]}
    return {name: value for name, value in told.items() if value is not None}


def _wanted(state: dict[str, Any]) -> str:
    step = state["next"]
    if (report := state.get("report")) is not None:
        return f"Step {step['number']} failed. Write its cell anew.\n{report['text']}"
    return f"Write the cell of step {step['number']}: {step['description']}"
