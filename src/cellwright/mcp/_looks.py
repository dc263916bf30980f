"""How tools, prompts and resources look where a client shows them to people: titles and icons. No model reads them."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

from mcp.types import Icon

__all__ = ["icon_of", "server_icon", "title_of"]

_TITLES = {
    "ask": "Ask the data agent",
    "branch_compare": "Compare branches",
    "calculator": "Calculate",
    "checkpoint_list": "List checkpoints",
    "connection_call": "Ask a connection",
    "execution_list": "List executions",
    "execution_wait": "Wait for execution",
    "file_system": "Files",
    "host_list": "List hosts",
    "kernel_complete": "Complete code",
    "node_execute": "Run TypeScript once",
    "notebook_list": "List notebooks",
    "package_install": "Install packages",
    "plan_fix": "Fix a step",
    "plan_skip": "Skip a step",
    "plan_status": "Show the plan",
    "plan_verify": "Verify notebook",
    "python_execute": "Run Python once",
    "scratch_run": "Run code without a cell",
    "session_context": "Recall the session",
    "session_files": "Files of a session",
    "session_rollback": "Roll back",
    "toolset_enable": "Get more tools",
    "visualize": "Draw data",
    "web_fetch": "Read a web page",
}
"""Where verb and noun of the name, turned round, would not do."""

_COLOUR = "#4a8fe7"  # shows on white and on black

# Strokes on a grid of 16 by 16, by the noun that a name begins with.
_NOTEBOOK = "M4 2h9v12H4zM2.5 5h2M2.5 8h2M2.5 11h2M7 6h4M7 9h3"
_CELL = "M2 3h12v10H2zM5 6l2 2-2 2M9 10h3"
_PLAN = "M2 4l1 1 2-2M7 4h7M2 8l1 1 2-2M7 8h7M2 12l1 1 2-2M7 12h7"
_HISTORY = "M3 8a5 5 0 1 0 2-4M3 2v3h3M8 5v3l2 2"
_HOST = "M2 3h12v4H2zM2 9h12v4H2zM4.5 5h1M4.5 11h1"
_SCRIPT = "M4 5L1.5 8 4 11M12 5l2.5 3L12 11M9 3L7 13"
_FILE = "M4 2h5l3 3v9H4zM9 2v3h3"
_WEB = "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM2 8h12M8 2c3 4 3 8 0 12M8 2c-3 4-3 8 0 12"
_CHART = "M2 14h12M4 12V8M8 12V3M12 12V6"
_QUESTION = "M5.5 6a2.5 2.5 0 1 1 3.5 2.3c-.7.4-1 .8-1 1.7M8 12.5v.5"

_STROKES = {
    "ask": _QUESTION,
    "branch": _HISTORY,
    "calculator": _SCRIPT,
    "cell": _CELL,
    "checkpoint": _HISTORY,
    "connection": _WEB,
    "data": _FILE,
    "execution": _CELL,
    "file": _FILE,
    "host": _HOST,
    "kernel": _CELL,
    "network": _WEB,
    "node": _SCRIPT,
    "plan": _PLAN,
    "python": _SCRIPT,
    "scratch": _CELL,
    "visualize": _CHART,
    "web": _WEB,
}


def title_of(name: str) -> str:
    """A tool's or prompt's name as people read it: ``cell_add_and_run`` is "Add and run cell"."""
    if name in _TITLES:
        return _TITLES[name]
    noun, _, verb = name.partition("_")
    return f"{verb.replace('_', ' ')} {noun}".strip().capitalize()


def icon_of(name: str) -> Icon:
    """The icon of what a name begins with; of a notebook where there is none of its own."""
    return _drawn(_STROKES.get(name.partition("_")[0], _NOTEBOOK))


def server_icon() -> Icon:
    return _drawn(_NOTEBOOK)


@cache
def _drawn(strokes: str) -> Icon:
    path = f"<path d='{strokes}' fill='none' stroke='{_COLOUR}'/>"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>{path}</svg>"
    # Shorter than base64, as most of it may stand as it is.
    return Icon(
        src="data:image/svg+xml," + quote(svg, safe="/:=',."), mime_type="image/svg+xml", sizes=["any"]
    )
