"""Which session a verb means, where a person may also name the notebook's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import typer

from cellwright.cli.client import Caller, ToolRefused

__all__ = ["NotebookArgument", "session_of"]

NotebookArgument = Annotated[
    str,
    typer.Argument(
        metavar="NOTEBOOK_OR_SESSION", help="A session's id, its notebook's name, or its .ipynb file."
    ),
]


async def session_of(caller: Caller, named: str) -> str:
    """The session of a notebook's file; anything else names a session already.

    Raises:
        ToolRefused: no session has the file open.
    """
    if not named.endswith(".ipynb"):
        return named
    path = await anyio.to_thread.run_sync(Path(named).resolve)
    listed = await caller.data("notebook_list", filter="all")
    for session in listed["sessions"]:
        if session["path"] == str(path):
            return str(session["session_id"])
    raise ToolRefused(
        f"No session has {named} open, so nothing is known of what ran in it",
        hint="`cellwright run` runs a notebook from top to bottom",
    )
