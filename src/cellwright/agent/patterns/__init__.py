"""Patterns: how a task is gone about. Each is a short function over the actions of a ``Run``, and a row here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.workflows import ensemble, plan, react, refine, reflect, tree
from cellwright.agent.runner import Run

__all__ = ["JIT", "PATTERNS", "Pattern"]

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
"""Not a pattern of its own: one of the above, chosen by the task's shape (see ``choice``)."""
