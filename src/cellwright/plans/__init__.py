"""Plans: TODOs that the engine carries out step by step, with checks, bounded repairs and a report where it stops.

Above is whoever makes and drives a plan (MCP, command line, agents); below is the engine, which knows nothing of plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.plans._planner import Planner
    from cellwright.plans.failures import Adviser, Failure, Proposal
    from cellwright.plans.model import Attempt, Check, Outline, Plan, Report, Todo, TodoOutline
    from cellwright.plans.runner import PlanRun

__all__ = [
    "Adviser",
    "Attempt",
    "Check",
    "Failure",
    "Outline",
    "Plan",
    "PlanRun",
    "Planner",
    "Proposal",
    "Report",
    "Todo",
    "TodoOutline",
]

_HELD_ELSEWHERE = {
    "Adviser": "failures",
    "Failure": "failures",
    "Proposal": "failures",
    "Planner": "_planner",
    "PlanRun": "runner",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use: who only reads or writes plans does without the engine."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # see above

    return getattr(importlib.import_module(f"{__name__}.{_HELD_ELSEWHERE.get(name, 'model')}"), name)
