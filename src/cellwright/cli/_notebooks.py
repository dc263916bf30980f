"""The commands for notebooks: each calls one tool of the daemon and shows what it answers."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from cellwright.cli._arguments import Argument, Option
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._session_names import NotebookArgument, session_opened
from cellwright.cli._terminal import ALL_TOKENS, AsJson, in_commands, local_time, note, show_data, table

__all__ = [
    "SessionArgument",
    "add",
    "delete",
    "edit",
    "list_sessions",
    "logs",
    "session_resource",
    "show",
]

SessionArgument = Annotated[str, Argument(metavar="SESSION", help="A session's id, or its notebook's name.")]
_SURROUNDINGS = ("session_id", "path", "host", "mode", "cwd", "interpreter", "tier")
# Told where there is something to tell.
_CIRCUMSTANCES = ("reason", "out_of_reach", "expires_at", "lies_at", "sharing")


class CellType(StrEnum):
    CODE = "code"
    MARKDOWN = "markdown"


class Filter(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    ALL = "all"


def add(
    session: SessionArgument,
    content: Annotated[
        str | None, Argument(help="The cell's content; `-`, or nothing, reads it from stdin.")
    ] = None,
    cell_type: Annotated[CellType, Option("--type", help="What kind of cell.")] = CellType.CODE,
    position: Annotated[int | None, Option(help="Where, from 0. [default: at the end]")] = None,
    language: Annotated[str | None, Option(help="Its language. [default: the notebook's]")] = None,
    filename: Annotated[str | None, Option(help="The name by which other cells import it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a cell without running it, and print its id."""
    text = sys.stdin.read() if content in (None, "-") else content
    data = call_daemon(
        lambda caller: caller.data(
            "cell_add",
            session_id=session,
            code=text,
            type=cell_type.value,
            position=position,
            language=language,
            filename=filename,
        )
    )
    show_data(data, data["cell_id"], as_json=as_json)


def edit(
    session: NotebookArgument,
    cell: Annotated[str, Argument(help="The cell's id, as `cellwright show` lists it.")],
    content: Annotated[
        str | None, Argument(help="Its new content; `-`, or nothing, reads it from stdin.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replace a cell's content without running it, and print its id. Outputs stay until it runs again."""
    text = sys.stdin.read() if content in (None, "-") else content

    async def write(caller: Caller) -> dict[str, Any]:
        named = await session_opened(caller, session)
        return await caller.data("cell_update", session_id=named, cell_id=cell, code=text)

    data = call_daemon(write)
    show_data(data, data["cell_id"], as_json=as_json)


def show(
    session: NotebookArgument,
    cell: Annotated[str | None, Argument(help="One cell, or a heading's whole section.")] = None,
    query: Annotated[str | None, Option(help="Only what has this in it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a notebook: where its code runs and a line for each cell, or one cell with its outputs."""
    whole = cell is None and query is None

    async def read(caller: Caller) -> tuple[dict[str, Any], str]:
        named = await session_opened(caller, session)
        state = await session_resource(caller, named, "state") if as_json or whole else {}
        if as_json:
            content = await caller.resource(f"notebook://session/{state['session_id']}/export/json")
            about = {name: state.get(name) for name in _SURROUNDINGS}
            about |= {name: state[name] for name in _CIRCUMSTANCES if name in state}
            return {**json.loads(content), "session": about}, ""
        text = await caller.text(
            "notebook_read", session_id=named, cell_id=cell, query=query, max_tokens=ALL_TOKENS
        )
        return {}, f"{_surroundings(state)}\n\n{text}" if whole else text

    data, text = call_daemon(read)
    show_data(data, text, as_json=as_json)


def _surroundings(state: dict[str, Any]) -> str:
    """Where a session's code runs and how well it is confined; not all of it is known before the first kernel."""
    lines = [f"{name:<11}  {state.get(name) or '-'}" for name in _SURROUNDINGS]
    lines += [f"{_words(name):<11}  {_told(name, state[name])}" for name in _CIRCUMSTANCES if name in state]
    return "\n".join(lines)


def _words(name: str) -> str:
    return {"out_of_reach": "out of reach", "expires_at": "expires at", "lies_at": "lies at"}.get(name, name)


def _told(name: str, value: Any) -> str:
    if name == "expires_at":
        return local_time(value)
    return in_commands(str(value))


def list_sessions(
    which: Annotated[Filter, Option("--filter", help="Which sessions.")] = Filter.ALL,
    as_json: AsJson = False,
) -> None:
    """List sessions with their notebooks."""
    data = call_daemon(lambda caller: caller.data("notebook_list", filter=which.value))
    columns = ("session_id", "state", "language", "cells", "mode", "tier", "host", "path")
    headers = ("SESSION", "STATE", "LANGUAGE", "CELLS", "MODE", "TIER", "HOST", "NOTEBOOK")
    rows = [[found.get(name, "?") for name in columns] for found in data["sessions"]]
    show_data(data["sessions"], table(headers, rows), as_json=as_json)
    if not rows:
        note("no sessions; `cellwright new` makes one")


def delete(
    session: SessionArgument,
    remove_file: Annotated[bool, Option("--remove-file", help="Also delete the .ipynb.")] = False,
    as_json: AsJson = False,
) -> None:
    """End a session: its kernel and history go, its notebook stays."""
    data = call_daemon(
        lambda caller: caller.data("notebook_delete", session_id=session, remove_file=remove_file),
        asks=True,
    )
    show_data(data, data["deleted"], as_json=as_json)
    if kept := data.get("kept"):
        note(f"its notebook stays: {kept}")


def logs(
    session: SessionArgument,
    limit: Annotated[int, Option(min=1, max=1000, help="At most so many.")] = 20,
    network: Annotated[bool, Option("--network", help="What its code asked of the network.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what ran in a session, newest first. The daemon's own log is `cellwright daemon logs`."""
    if network:
        _network_logs(session, limit, as_json=as_json)
        return
    data = call_daemon(lambda caller: caller.data("execution_list", session_id=session, limit=limit))
    rows = [
        (
            run["execution_id"],
            run["status"],
            _times(run),
            run.get("duration_ms", 0),
            run.get("cell_id", "scratch"),
            run.get("error") or run.get("source", ""),
        )
        for run in data["executions"]
    ]
    headers = ("EXECUTION", "STATUS", "RAN", "MS", "CELL", "SOURCE OR ERROR")
    show_data(data, table(headers, rows), as_json=as_json)


def _times(run: dict[str, Any]) -> str:
    """When a run began, with its date, and when it ended, by this machine's clock."""
    began, ended = (
        datetime.fromisoformat(run[name]).astimezone() if name in run else None
        for name in ("started_at", "ended_at")
    )
    first = f"{began:%Y-%m-%d %H:%M:%S}" if began is not None else "-"
    if ended is None:
        return first
    same_day = began is not None and began.date() == ended.date()
    return f"{first} - {ended:%H:%M:%S}" if same_day else f"{first} - {ended:%m-%d %H:%M}"


def _network_logs(session: str, limit: int, *, as_json: bool) -> None:
    data = call_daemon(lambda caller: session_resource(caller, session, "network"))
    data["requests"] = data["requests"][: -limit - 1 : -1]
    rows = [
        (
            local_time(one["time"]),
            one["verdict"],
            f"{one['method']} {one['host']}:{one['port']}",
            one["bytes_up"],
            one["bytes_down"],
            one["execution"] or "-",
            one["reason"],
        )
        for one in data["requests"]
    ]
    headers = ("TIME", "VERDICT", "REQUEST", "BYTES UP", "BYTES DOWN", "EXECUTION", "REASON")
    show_data(data, table(headers, rows), as_json=as_json)


async def session_resource(caller: Caller, session: str, view: str) -> dict[str, Any]:
    """One of a session's resources, which go by its id."""
    listed = await caller.data("execution_list", session_id=session, limit=1)
    text = await caller.resource(f"notebook://session/{listed['session_id']}/{view}")
    return json.loads(text)  # type: ignore[no-any-return]  # the server's JSON
