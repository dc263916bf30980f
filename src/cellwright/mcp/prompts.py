"""Prompts that a person picks: they tell an agent, in terms of the tools, how to go about it."""

from __future__ import annotations

from mcp.server.mcpserver.prompts import Prompt

from cellwright.mcp.calls import Shared
from cellwright.mcp.context import context_of
from cellwright.mcp.resolving import find_session

__all__ = ["prompts"]

_NEW = """\
Solve this in a new notebook: {problem}

1. notebook_create with the problem as its name; keep the session_id.
2. Plan the steps, and write each as a Markdown cell (cell_add) before its code.
3. cell_add_and_run one small step at a time, and read its output before the next.
4. Where a step fails, cell_update that cell and cell_execute it again; add no second copy.
5. At the end kernel_restart, then cell_execute with cell_id='all', to prove that it works from the top."""

_OF_A_SESSION = {
    "continue_notebook": (
        "Go on with a notebook where it stopped",
        (
            "Go on with this notebook. Add to it; do not create another. Where its state is suspended, its variables are "
            "gone: run the cells again first. notebook_read shows its outline."
        ),
    ),
    "fix_and_retry": (
        "Mend the cell that failed last and run it again",
        (
            "Mend what failed last. notebook_read with the cell_id of last_error shows the cell and its traceback; "
            "kernel_inspect shows what is defined. Change the cell with cell_update, run it with cell_execute and "
            "on_error='rollback', so that an attempt that fails leaves no trace, and stop after three attempts that fail, "
            "saying what you learned."
        ),
    ),
    "skip_cell": (
        "Leave the cell that failed last and go on after it",
        (
            "Leave the cell of last_error as it is, add a Markdown cell after it that says why it was skipped, and go on "
            "with the cells after it that do not need what it would have defined."
        ),
    ),
    "show_status": (
        "Say how a notebook stands",
        (
            "Say in a few sentences how this notebook stands: what is done, what is not run, what failed, and what comes "
            "next. Run nothing."
        ),
    ),
}


def prompts(shared: Shared) -> list[Prompt]:
    """The prompts of a face."""

    async def new_notebook(problem: str) -> str:
        return _NEW.format(problem=problem)

    new = Prompt.from_function(new_notebook, description="Solve a problem in a new notebook, step by step")
    return [new, *(_of_a_session(shared, name, *about) for name, about in _OF_A_SESSION.items())]


def _of_a_session(shared: Shared, name: str, description: str, text: str) -> Prompt:
    async def render(session: str = "") -> str:
        """The text, and the session's context, so that the agent need not ask for it."""
        found = find_session(shared.engine.sessions(), session or None, own=(), reads=True).session
        context = await context_of(shared.knowledge, found)
        lines = [
            f"{key}: {', '.join(held) if isinstance(held, list) else held}"
            for key, held in context.items()
            if held
        ]
        return "\n".join([text, "", *lines])

    return Prompt.from_function(render, name=name, description=description)
