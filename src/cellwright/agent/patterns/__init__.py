"""Patterns: how a task is gone about. Each a short function over the verbs in ``verbs``, and a row here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from cellwright.agent.branches import Branch
from cellwright.agent.patterns.ensemble import ensemble
from cellwright.agent.patterns.plan import plan
from cellwright.agent.patterns.react import react
from cellwright.agent.patterns.refine import refine
from cellwright.agent.patterns.reflect import reflect
from cellwright.agent.patterns.tree import tree
from cellwright.agent.verbs import Verbs

__all__ = ["JIT", "PATTERNS", "Pattern"]

Pattern: TypeAlias = Callable[[Verbs, Branch, str], Awaitable[Branch]]

PATTERNS: dict[str, Pattern] = {
    "react": react,
    "plan": plan,
    "reflect": reflect,
    "tree": tree,
    "refine": refine,
    "ensemble": ensemble,
}

JIT = "jit"
"""Not a pattern of its own: one of the above, chosen by the task's shape (see ``choosing``)."""
