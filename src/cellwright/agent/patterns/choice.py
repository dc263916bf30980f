"""JIT: which pattern a task asks for, by its shape, and why. By rule where that is plain; else a model is asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cellwright.agent.branches import Branch
from cellwright.agent.patterns import PATTERNS
from cellwright.agent.patterns.shapes import Choice
from cellwright.agent.runner import Run

__all__ = ["Chosen", "by_shape", "choose"]

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
_WHY = {
    "ensemble": "it asks which of several ways is best: they are tried side by side",
    "refine": "pages are rarely as expected: versions until nothing is missing",
    "plan": "it has several steps that build on each other: planned, then carried out",
    "tree": "it can be looked at in several ways: the most promising are tried",
    "reflect": "it asks for a chart: a critic looks at it as it is drawn",
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
    steps = len(_steps.findall(task)) + bool(_fetches.search(task)) + (len(data) > 1)
    draws = _draws.search(task) is not None
    suits = {
        "ensemble": _compares.search(task) is not None,
        "refine": _scrapes.search(task) is not None,
        "plan": steps > _MANY_STEPS or (steps == _MANY_STEPS and draws),
        "tree": _explores.search(task) is not None and not draws,
        "reflect": draws,
        "react": len(task.split()) <= _SHORT,
    }
    pattern = next((name for name, does in suits.items() if does), None)
    return Chosen(pattern, _WHY[pattern]) if pattern is not None else None


async def choose(run: Run, branch: Branch, task: str, data: Sequence[Path] = ()) -> Chosen:
    """The pattern for a task. A model is asked only where the words leave it open."""
    if (chosen := by_shape(task, data)) is not None:
        return chosen
    ask = f"Which of these patterns suits the task?\n{_listed()}\nThe task: {task}"
    choice = await run.think("choose", Choice, branch, ask)
    if choice.pattern not in PATTERNS:
        return Chosen(_USUAL, f"{choice.pattern!r}, which was chosen, is no pattern", by="model")
    return Chosen(choice.pattern, choice.why, by="model")


def _listed() -> str:
    """What each pattern is for, as its module says."""
    told = {
        name: (sys.modules[pattern.__module__].__doc__ or "").split("\n")[0]
        for name, pattern in PATTERNS.items()
    }
    return "\n".join(f"{name}: {about}" for name, about in told.items())
