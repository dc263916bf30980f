"""Prompts that a person picks: they tell an agent, in terms of the tools, how to go about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver.prompts import Prompt

from cellwright.mcp.calls import Shared
from cellwright.mcp.context import context_of
from cellwright.mcp.resolving import find_session

__all__ = ["prompts"]


def prompts(shared: Shared) -> list[Prompt]:
    """The prompts of a face."""

    async def where(session: str) -> str:
        """A session's context as the prompt's last part, so that the agent need not ask for it."""
        found = find_session(shared.engine.sessions(), session or None, own=(), reads=True).session
        context = await context_of(shared.knowledge, found)
        lines = [
            f"{key}: {', '.join(held) if isinstance(held, list) else held}"
            for key, held in context.items()
            if held
        ]
        return "\n".join(lines)

    async def new_notebook(problem: str) -> str:
        """Solve a problem in a new notebook, step by step."""
        return (
            f"Solve this in a new notebook: {problem}\n\n"
            "1. notebook_create with the problem as its name; keep the session_id.\n"
            "2. Plan the steps, and write each as a Markdown cell (cell_add) before its code.\n"
            "3. cell_add_and_run one small step at a time, and read its output before the next.\n"
            "4. Where a step fails, cell_update that cell and cell_execute it again; add no second copy.\n"
            "5. At the end run cell_execute with cell_id='all' after kernel_restart, to prove that it works from the top."
        )

    async def continue_notebook(session: str = "") -> str:
        """Go on with a notebook where it stopped."""
        return (
            "Go on with this notebook. Add to it; do not create another. Where its state is suspended, the variables are "
            "gone: run the cells again first. notebook_read shows its outline.\n\n" + await where(session)
        )

    async def fix_and_retry(session: str = "") -> str:
        """Mend the cell that failed last and run it again."""
        return (
            "Mend what failed last. notebook_read with the cell_id of last_error shows the cell and its traceback; "
            "kernel_inspect shows what is defined. Change the cell with cell_update, run it with cell_execute, and stop "
            "after three attempts that fail, saying what you learned.\n\n" + await where(session)
        )

    async def skip_cell(session: str = "") -> str:
        """Leave the cell that failed last and go on after it."""
        return (
            "Leave the cell of last_error as it is, add a Markdown cell after it that says why it was skipped, and go on "
            "with the cells after it that do not need what it would have defined.\n\n" + await where(session)
        )

    async def show_status(session: str = "") -> str:
        """Say how a notebook stands."""
        return (
            "Say in a few sentences how this notebook stands: what is done, what is not run, what failed, and what "
            "comes next. Run nothing.\n\n" + await where(session)
        )

    every: tuple[Callable[..., Any], ...] = (
        new_notebook,
        continue_notebook,
        fix_and_retry,
        skip_cell,
        show_status,
    )
    return [Prompt.from_function(function) for function in every]
