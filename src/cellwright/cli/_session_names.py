"""Which session a command means, where a person may also name the notebook's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio

from cellwright.cli._arguments import Argument
from cellwright.cli._mcp_client import Caller, ToolRefused
from cellwright.errors import NotebookError

__all__ = ["NotebookArgument", "existing_file", "session_id_of", "session_of", "session_opened"]

NotebookArgument = Annotated[
    str,
    Argument(metavar="NOTEBOOK_OR_SESSION", help="A session's id, its notebook's name, or its .ipynb file."),
]


def existing_file(notebook: Path) -> Path:
    """Where a notebook's file lies, for commands that take no session.

    Raises:
        NotebookError: there is none.
    """
    if not notebook.exists():
        raise NotebookError(
            f"There is no notebook {notebook}",
            hint="Give the path of its file; for a session's, `cellwright list` has it",
        )
    return notebook.resolve()


async def session_of(caller: Caller, named: str) -> str:
    """The session of a notebook's file; anything else names a session already.

    Raises:
        ToolRefused: no session has the file open.
    """
    if not named.endswith(".ipynb"):
        return named
    path = await _resolved(named)
    if (session := await _session_with(caller, path)) is not None:
        return session
    raise ToolRefused(
        f"No session has {named} open, so nothing is known of what ran in it",
        hint="`cellwright run` runs a notebook from top to bottom",
    )


async def session_opened(caller: Caller, named: str) -> str:
    """The same, for what is kept in the notebook itself: a file that no session has is opened.

    Raises:
        ToolRefused: it cannot be opened.
    """
    if not named.endswith(".ipynb"):
        return named
    path = await _resolved(named)
    if (session := await _session_with(caller, path)) is not None:
        return session
    opened = await caller.data("notebook_open", path=str(path))
    return str(opened["session_id"])


async def session_id_of(caller: Caller, named: str) -> str:
    """The id of a session, for what knows no names; a file that no session has is opened.

    Raises:
        ToolRefused: there is no such session, or it cannot be opened.
    """
    opened = await session_opened(caller, named)
    listed = await caller.data("execution_list", session_id=opened, limit=1)
    return str(listed["session_id"])


async def _resolved(named: str) -> Path:
    return await anyio.to_thread.run_sync(Path(named).resolve)


async def _session_with(caller: Caller, path: Path) -> str | None:
    listed = await caller.data("notebook_list", filter="all")
    return next((str(one["session_id"]) for one in listed["sessions"] if one["path"] == str(path)), None)
