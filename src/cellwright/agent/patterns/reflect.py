"""Reflection: do it, let a critic look at it and at its charts, mend what it finds."""

from __future__ import annotations

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.shapes import Verdict
from cellwright.agent.verbs import Verbs

__all__ = ["reflect"]

_ROUNDS = 3
_ASK = """Criticise the work as a careful reviewer: does it answer the question, from output that was executed? Look at \
each chart: title, axis labels, legend, distinct colours, empty data. The question: {task}
The answer so far: {answer}"""


async def reflect(verbs: Verbs, branch: Branch, task: str) -> Branch:
    """What rules can see of a chart is found by rule; the critic sees the chart as it is drawn."""
    branch = await verbs.act(branch, task)
    for _ in range(_ROUNDS):
        if not branch.ok:
            break
        seen = await verbs.look(branch)
        ask = _ASK.format(task=task, answer=branch.answer)
        verdict = await verbs.think("critic", Verdict, branch, ask, pictures=seen.pictures)
        issues = [*seen.issues, *([] if verdict.ok else verdict.issues)]
        if not issues:
            break
        branch = await verbs.act(branch, "Mend this, in the cells where it is: " + "; ".join(issues))
    return branch
