"""ReAct: reason, act, observe, until there is an answer."""

from __future__ import annotations

from cellwright.agent.branches import Branch
from cellwright.agent.verbs import Verbs

__all__ = ["react"]


async def react(verbs: Verbs, branch: Branch, task: str) -> Branch:
    """The tool loop alone. A task of one cell is answered with one request."""
    return await verbs.act(branch, task)
