"""The tools that the model is offered: names of the face's tools, and tools of the agent's own. One row each."""

from __future__ import annotations

from cellwright.agent.belt.answering import ANSWER
from cellwright.agent.belt.filling import FILL
from cellwright.agent.belt.rows import OwnTool

__all__ = ["FACE_TOOLS", "OWN_TOOLS"]

OWN_TOOLS: tuple[OwnTool, ...] = (ANSWER, FILL)

FACE_TOOLS: tuple[str, ...] = (
    "notebook_create",
    "notebook_read",
    "cell_add",
    "cell_add_and_run",
    "cell_update",
    "cell_execute",
    "cell_delete",
    "cell_visualize",
    "execution_wait",
    "package_install",
    "plan_create",
    "plan_run",
    "plan_status",
    "plan_fix",
    "python_execute",
    "node_execute",
    "file_system",
    "web_fetch",
    "calculator",
    "visualize",
)
"""Those that answering a question takes; branches and verification are the patterns' own business."""
