"""Iterative Refinement: a first version, then better ones, until nothing is missing."""

from __future__ import annotations

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.shapes import Verdict
from cellwright.agent.verbs import Verbs

__all__ = ["refine"]

_ROUNDS = 4


async def refine(verbs: Verbs, branch: Branch, task: str) -> Branch:
    """Each round starts from what the last one left: its error where it failed, what is missing where it did not."""
    goal = task
    for left in range(_ROUNDS - 1, -1, -1):
        branch = await verbs.act(branch, goal)
        if branch.ok:
            ask = f"Is anything missing or wrong in this? The task: {task}\nThe result: {branch.answer}"
            verdict = await verbs.think("judge", Verdict, branch, ask)
            if verdict.ok or not left:
                break
            goal = f"Do better: {'; '.join(verdict.issues)}"
        elif left:
            goal = f"The last version failed. Try another way.\n{branch.report}"
    return branch
