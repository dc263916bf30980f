"""Plans: TODOs that the engine carries out step by step, with checks, bounded repairs and a report where it stops.

Above is whoever makes and drives a plan (MCP, command line, agents); below is the engine, which knows nothing of plans.
"""

from cellwright.plans._failures import Adviser, Failure, Proposal
from cellwright.plans._planner import Planner
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
