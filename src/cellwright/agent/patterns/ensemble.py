"""Ensemble: several ways are carried out whole, side by side, and compared."""

from __future__ import annotations

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.shapes import Ideas, Pick
from cellwright.agent.verbs import Verbs

__all__ = ["ensemble"]

_MOST = 4


async def ensemble(verbs: Verbs, branch: Branch, task: str) -> Branch:
    """Each way in a kernel of its own, grown from the same state; the answer follows from all of them."""
    ask = f"Name two to four approaches that really differ, a sentence each, to try on: {task}"
    ideas = (await verbs.think("propose", Ideas, branch, ask)).ideas[:_MOST]
    tried = await verbs.act_apart(branch, [f"{task}\nUse this approach: {idea}" for idea in ideas])
    good = [one for one in tried if one.ok]
    if not good:
        return await verbs.adopt(branch, tried[0], why="None of the approaches came to an end")
    results = "\n".join(f"{number}. {one.answer}" for number, one in enumerate(good, 1))
    pick = await verbs.think("aggregate", Pick, branch, f"Compare these results of: {task}\n{results}")
    winner = good[min(pick.best, len(good)) - 1]
    others = [one for one in good if one is not winner]
    return await verbs.adopt(branch, winner, why=pick.why, also=others, answer=pick.answer)
