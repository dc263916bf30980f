"""``cellwright`` alone: where you are. Asks the daemon, if one runs, and starts none."""

from __future__ import annotations

import os
import sys

from cellwright.daemon.connect import ask, connect
from cellwright.daemon.paths import DaemonPaths
from cellwright.errors import CellwrightError
from cellwright.settings.paths import find_storage

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would take longer than the answer
    from typing import Any

__all__ = ["show_overview"]

_OK = 0
_FAILED = 3
_MOST_SESSIONS = 5
_HELP = "cellwright help"


def show_overview() -> int:
    """Print where the person is and what they may do next, and return the exit code."""
    try:
        paths = DaemonPaths(find_storage(os.getcwd()))
        connection = connect(paths)
        found: dict[str, Any] = {}
        if connection is not None:
            with connection:
                found = ask(connection, "status")
    except CellwrightError as error:
        sys.stderr.write(f"error: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return _FAILED
    sys.stdout.write("\n".join([*_state(paths, found), "", *_next_commands(found)]) + "\n")
    return _OK


def _state(paths: DaemonPaths, found: dict[str, Any]) -> list[str]:
    if not found:
        known = os.path.exists(os.path.join(paths.storage, "journal.db"))
        what = "it comes back with its sessions" if known else "it starts"
        return [f"daemon    not running; {what} with the next command that needs it"]
    if found["state"] != "ready":
        return [f"daemon    {found['state']}, process {found['pid']}"]
    sessions = found["sessions"]
    lines = [
        f"daemon    running, process {found['pid']}",
        f"sessions  {sessions['active']} active, {sessions['suspended']} suspended, {found['running']} cells running",
    ]
    lines += [f"page      {url}/ (`cellwright ui` signs you in)" for url in found["listeners"]]
    lines += [f"warning   {name}: {danger}" for name, danger in found["dangers"].items()]
    recent: list[dict[str, Any]] = found.get("recent", [])
    if recent:
        width = max(len(one["session_id"]) for one in recent)
        lines += ["", "Newest sessions:"]
        lines += [
            f"  {one['session_id']:<{width}}  {one['state']:<9}  {one['notebook']}"
            for one in recent[:_MOST_SESSIONS]
        ]
    if waiting := found.get("waiting", []):
        lines += ["", "Needs you:", *(f"  {one['session_id']}  {one['why']}" for one in waiting)]
    return lines


def _next_commands(found: dict[str, Any]) -> list[str]:
    waiting: list[dict[str, Any]] = found.get("waiting", [])
    rows = [(f"cellwright {one['command']}", one["does"]) for one in waiting[:_MOST_SESSIONS]]
    if found.get("recent"):
        rows.append((f"cellwright show {found['recent'][0]['session_id']}", "show the newest notebook"))
        rows.append(("cellwright list", "list every session"))
    else:
        rows += [
            ("cellwright tutorial", "learn by three notebooks"),
            ('cellwright new "WHAT FOR"', "make a notebook"),
            ("cellwright install claude-code", "give Cellwright to an agent; also codex, gemini, cursor"),
        ]
    rows += [("cellwright ui", "open the page"), (_HELP, "list the commands")]
    width = max(len(command) for command, _ in rows)
    return ["Next:", *(f"  {command:<{width}}  {does}" for command, does in rows)]
