"""Which tools a client sees: sets by name, and what each set's instructions say. A dialect has tools of its own."""

from __future__ import annotations

from dataclasses import replace

from cellwright.errors import CellwrightError
from cellwright.mcp.calls import Definition
from cellwright.mcp.tools.ask import ASKING_TOOLS
from cellwright.mcp.tools.cells import CELL_TOOLS
from cellwright.mcp.tools.charts import DRAWING_TOOLS, VISUAL_TOOLS
from cellwright.mcp.tools.checkpoints import BRANCH_TOOLS, CHECKPOINT_TOOLS
from cellwright.mcp.tools.connections import CONNECTION_TOOLS
from cellwright.mcp.tools.environment import FILE_TOOLS, PACKAGE_TOOLS
from cellwright.mcp.tools.executions import EXECUTION_TOOLS
from cellwright.mcp.tools.hosts import HOST_TOOLS
from cellwright.mcp.tools.notebooks import NOTEBOOK_TOOLS
from cellwright.mcp.tools.oneshot import CALCULATOR_TOOLS, FETCH_TOOLS, FILESYSTEM_TOOLS, RUN_TOOLS
from cellwright.mcp.tools.plans import PLAN_TOOLS
from cellwright.mcp.tools.plugins import plugin_tools
from cellwright.mcp.tools.read import READING_TOOLS
from cellwright.mcp.tools.replay import REPLAY_TOOLS
from cellwright.mcp.tools.toolset import enabler
from cellwright.mcp.tools.verify import VERIFICATION_TOOLS

__all__ = ["ALL", "CORE", "TOOLSETS", "UnknownToolset", "chosen_sets", "instructions", "tools_of", "toolsets"]

ALL = "all"
CORE = "core"
"""Few tools that cover nearly all work, one of which brings the rest."""
TOOLSETS: dict[str, tuple[Definition, ...]] = {
    "notebooks": (
        *NOTEBOOK_TOOLS,
        *CELL_TOOLS,
        *VISUAL_TOOLS,
        *READING_TOOLS,
        *EXECUTION_TOOLS,
        *PACKAGE_TOOLS,
        *FILE_TOOLS,
    ),
    "plans": PLAN_TOOLS,
    "history": (*REPLAY_TOOLS, *CHECKPOINT_TOOLS, *BRANCH_TOOLS, *VERIFICATION_TOOLS),
    "hosts": HOST_TOOLS,
    "connections": CONNECTION_TOOLS,
    "once": (*RUN_TOOLS, *FILESYSTEM_TOOLS, *FETCH_TOOLS, *CALCULATOR_TOOLS, *DRAWING_TOOLS),
    "agent": ASKING_TOOLS,
}
"""Our own; ``toolsets`` has those of plugins too."""
# Each with the arguments that are published of it; the others are taken as well.
_IN_CORE = {
    "notebook_create": ("name", "language"),
    "notebook_open": ("path",),
    "notebook_read": ("session_id", "cell_id", "query", "max_tokens"),
    "cell_add_and_run": ("session_id", "code", "timeout_s", "language", "on_error"),
    "cell_add": ("session_id", "code", "type", "position"),
    "cell_update": ("session_id", "cell_id", "code"),
    "cell_execute": ("session_id", "cell_id", "timeout_s"),
    "execution_wait": ("execution_id", "wait_s"),
    "execution_cancel": ("execution_id",),
    "session_rollback": ("session_id", "checkpoint", "cell_id"),
    "package_install": ("session_id", "packages"),
    "session_files": ("session_id", "action", "paths"),
}
_INSTRUCTIONS = {
    CORE: (
        "Notebooks with live kernels. notebook_create gives a session; cell_add_and_run adds and runs code in it and "
        "returns output and images; state lasts between calls. generation rises when a kernel is replaced and its "
        "variables are gone. toolset_enable brings tools for more: plans, checkpoints and branches, scripts, files, "
        "the web, charts."
    ),
    "notebooks": (
        "Notebooks with live kernels. notebook_create gives a session_id; cell_add_and_run adds and runs code and "
        "returns output and images; state lasts between calls. notebook_read shows a notebook within a budget; "
        "session_context tells what is defined. A long cell returns an execution id: execution_wait goes on waiting. "
        "generation rises when a kernel is replaced and its variables are gone."
    ),
    "history": (
        "checkpoint_create and session_rollback bring a state back, files included; on_error='rollback' undoes a cell "
        "that fails; session_branch tries several ways apart."
    ),
    "plans": (
        "For work of several steps, plan_create holds TODOs with checks, and plan_run carries them out, fixing what "
        "fails."
    ),
    "once": (
        "Without a notebook: python_execute and node_execute run a script once, file_system, web_fetch, calculator and "
        "visualize do one thing. They share a data directory, in which workingDir names a place that lasts."
    ),
    "agent": "ask hands a question over to an agent of our own.",
}


def toolsets() -> dict[str, tuple[Definition, ...]]:
    """All sets by name; the tools of plugins are a set of their own, where there are any."""
    ours = {definition.name for tools in TOOLSETS.values() for definition in tools}
    brought = plugin_tools(taken=ours)
    return {**TOOLSETS, "plugins": brought} if brought else TOOLSETS


class UnknownToolset(CellwrightError):
    code = "unknown_toolset"


def chosen_sets(text: str | None, *, connections: bool = False) -> tuple[str, ...]:
    """The sets that are named, as ``notebooks,plans``; ``all``, or nothing, is every one that is of use here.

    Raises:
        UnknownToolset: one of them is none.
    """
    names = [name.strip() for name in (text or ALL).split(",")]
    sets = toolsets()
    known = (CORE, *sets, ALL)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownToolset(f"There is no toolset {unknown[0]!r}", hint=f"Choose from: {', '.join(known)}")
    useless = () if connections else ("connections",)
    chosen = tuple(name for name in sets if name in names or (ALL in names and name not in useless))
    return (CORE, *chosen) if CORE in names and ALL not in names else chosen


def tools_of(sets: tuple[str, ...]) -> tuple[Definition, ...]:
    """The tools of these sets, each once: those of the core as they are published there."""
    found: dict[str, Definition] = {}
    every = toolsets()
    for name in sets:
        for definition in _core(every) if name == CORE else every[name]:
            found.setdefault(definition.name, definition)
    return tuple(found.values())


def _core(sets: dict[str, tuple[Definition, ...]]) -> tuple[Definition, ...]:
    every = {definition.name: definition for tools in sets.values() for definition in tools}
    slim = (_published(every[name], arguments) for name, arguments in _IN_CORE.items())
    return (*slim, enabler(sets))


def _published(definition: Definition, arguments: tuple[str, ...]) -> Definition:
    """The same tool, of which only these arguments are told of, and no session need be named."""
    silent = tuple(name for name in definition.arguments.model_fields if name not in arguments)
    return replace(definition, keeps_back=silent, asks_for=())


def instructions(sets: tuple[str, ...]) -> str:
    """What a client is told about them before its first call."""
    return " ".join(_INSTRUCTIONS[name] for name in sets if name in _INSTRUCTIONS)
