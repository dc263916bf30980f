"""The commands that go back and try apart: ``checkpoint``, ``rollback``, ``branch`` and ``adopt``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NoReturn

from cellwright.cli._arguments import Argument, BadArgument, Option
from cellwright.cli._mcp_client import Caller, ToolRefused, call_daemon
from cellwright.cli._session_names import NotebookArgument, session_of
from cellwright.cli._terminal import AsJson, echo, show_data, table

__all__ = ["adopt", "branch", "checkpoint", "rollback"]

_MOST_BRANCHES = 64


def checkpoint(
    session: NotebookArgument,
    name: Annotated[str | None, Option(help="What to call it.")] = None,
    listing: Annotated[bool, Option("--list", help="List those that are kept; take none.")] = False,
    drop: Annotated[str | None, Option(metavar="CHECKPOINT", help="Let this one go; take none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a session's state and files as they are now, and print the checkpoint's id. Exits 1 where that is refused."""
    if sum((name is not None, listing, drop is not None)) > 1:
        _misused("--name, --list and --drop do not go together", "--list")
    if listing:
        data = _ask("checkpoint_list", session)
        headers = ("CHECKPOINT", "TAKEN", "GENERATION", "FILES", "WHY", "NAME")
        show_data(data, table(headers, map(_row, data["checkpoints"])), as_json=as_json)
        if not data["checkpoints"]:
            _note("no checkpoints; `cellwright checkpoint` takes one")
    elif drop is not None:
        data = _ask("checkpoint_drop", session, checkpoint=drop)
        show_data(data, data["dropped"], as_json=as_json)
    else:
        data = _ask("checkpoint_create", session, name=name)
        show_data(data, data["checkpoint"], as_json=as_json)
        for left in (*data.get("cannot_return", ()), *data.get("files_left_out", ())):
            _note(f"note: will not come back: {left}")


def _row(kept: dict[str, Any]) -> tuple[object, ...]:
    taken = datetime.fromtimestamp(kept["time"]).astimezone()
    before = f"before cell {kept['before_cell']}" if "before_cell" in kept else "on request"
    files, name = kept.get("files", 0), kept.get("name", "")
    return kept["checkpoint"], f"{taken:%Y-%m-%d %H:%M:%S}", kept["of_generation"], files, before, name


def rollback(
    session: NotebookArgument,
    to: Annotated[
        str | None, Option("--to", metavar="CHECKPOINT", help="Its id or name. [default: the newest]")
    ] = None,
    cell: Annotated[str | None, Option("--cell", metavar="CELL", help="Or: to before this cell ran.")] = None,
    as_json: AsJson = False,
) -> None:
    """Go back to a checkpoint: state and files are as they were then. Prints what was undone."""
    if to is not None and cell is not None:
        _misused("--to and --cell do not go together", "--to")

    async def run(caller: Caller) -> dict[str, Any]:
        named = await session_of(caller, session)
        wanted = to if to is not None or cell is not None else await _newest(caller, named)
        return await caller.data("session_rollback", session_id=named, checkpoint=wanted, cell_id=cell)

    data = call_daemon(run, doing="going back")
    lines = [f"undone  {execution}" for execution in data["undone"]]
    lines += [f"stale   {found}" for found in data["stale"]]
    show_data(data, "\n".join(lines), as_json=as_json)
    for left in data["not_restored"]:
        _note(f"note: not restored: {left}")
    how = f"checkpoint {data['checkpoint']}" if data["by"] == "checkpoint" else "replay"
    _note(f"{data['session_id']} went back by {how}, generation {data['generation']}")


async def _newest(caller: Caller, session: str) -> str:
    listed = await caller.data("checkpoint_list", session_id=session)
    if not listed["checkpoints"]:
        raise ToolRefused(
            f"Session {listed['session_id']} keeps no checkpoint",
            hint="`cellwright checkpoint` takes one; `cellwright session replay` makes a lost state again",
        )
    return str(listed["checkpoints"][0]["checkpoint"])


def branch(
    session: NotebookArgument,
    source: Annotated[
        str | None,
        Option("--from", metavar="CHECKPOINT", help="Begin at this one. [default: at the state of now]"),
    ] = None,
    count: Annotated[int | None, Option(min=1, max=_MOST_BRANCHES, help="How many. [default: 1]")] = None,
    compare: Annotated[bool, Option("--compare", help="Show how branches differ; make none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make second sessions from a session's state, each with its own files and kernel, and print their ids."""
    if compare:
        if source is not None or count is not None:
            _misused("--compare makes no branch, so --from and --count say nothing", "--compare")
        data = _ask("branch_compare", session)
        lines = [line for found in data["branches"] for line in _differences(found)]
        show_data(data, "\n".join(lines), as_json=as_json)
        return
    data = _ask("session_branch", session, checkpoint=source, count=count)
    show_data(data, "\n".join(found["session_id"] for found in data["branches"]), as_json=as_json)
    for found in data["branches"]:
        if found["by"] == "replay":
            _note(f"note: {found['session_id']} was made by replay: {found.get('reason', '')}")
        for left in found.get("not_carried", ()):
            _note(f"note: {found['session_id']} goes without {left}")


_DIFFERENCES = {
    "changed_cells": "changed",
    "added_cells": "added",
    "removed_cells": "removed",
    "files": "file",
    "variables": "variable",
    "missing_variables": "missing",
}


def _differences(found: dict[str, Any]) -> list[str]:
    """A branch in lines: what it has that the original does not, each with what it is in front."""
    about = f"{found['session_id']}  {found['state']}  {found['notebook']}"
    lines = [f"  {word:<8}  {each}" for key, word in _DIFFERENCES.items() for each in found.get(key, ())]
    more = [f"  … {left} more of {key}" for key, left in found.get("omitted", {}).items()]
    return [about, *lines, *more]


def adopt(
    branch: Annotated[
        str,
        Argument(metavar="BRANCH", help="The branch: its session's id, its notebook's name or file."),
    ],
    as_json: AsJson = False,
) -> None:
    """Give a branch's cells, files and kernel to the session it came from, and print that one's id. Other branches end."""
    data = _ask("branch_adopt", branch)
    show_data(data, data["session_id"], as_json=as_json)
    for gone in data["dropped"]:
        _note(f"ended branch {gone}")


def _ask(tool: str, session: str, **arguments: Any) -> dict[str, Any]:
    async def run(caller: Caller) -> dict[str, Any]:
        return await caller.data(tool, session_id=await session_of(caller, session), **arguments)

    return call_daemon(run, doing=tool.replace("_", " "))


def _misused(problem: str, option: str) -> NoReturn:
    raise BadArgument(problem, argument=option)


def _note(text: str) -> None:
    echo(text, err=True)
