"""Tree of Thoughts: several ways are thought of and scored, the best are tried side by side, the best of these stays."""

from __future__ import annotations

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.shapes import Ideas, Scores
from cellwright.agent.verbs import Verbs

__all__ = ["tree"]

_TRIED = 2


async def tree(verbs: Verbs, branch: Branch, task: str) -> Branch:
    """Thoughts cost a request, tries a branch: so only the most promising thoughts are tried."""
    ask = f"Name two to four ways that really differ, a sentence each, to do this: {task}"
    ideas = (await verbs.think("propose", Ideas, branch, ask)).ideas
    listed = "\n".join(f"{number}. {idea}" for number, idea in enumerate(ideas, 1))
    scores = await verbs.think("score", Scores, branch, f"Score these ways to do: {task}\n{listed}")
    best = _best(scores.scores, len(ideas))[:_TRIED]
    tried = await verbs.act_apart(branch, [f"{task}\nDo it this way: {ideas[one]}" for one in best])
    good = [one for one in tried if one.ok]
    if len(good) > 1:
        results = "\n".join(f"{number}. {one.answer}" for number, one in enumerate(good, 1))
        scores = await verbs.think("score", Scores, branch, f"Score these results of: {task}\n{results}")
        good = [good[one] for one in _best(scores.scores, len(good))]
    return await verbs.adopt(branch, good[0] if good else tried[0], why=scores.why)


def _best(scores: list[float], count: int) -> list[int]:
    """Places by score, the best first; where a score is missing it is the worst."""
    padded = [*scores[:count], *[float("-inf")] * (count - len(scores))]
    return sorted(range(count), key=lambda place: -padded[place])
