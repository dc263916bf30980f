"""``cellwright approvals …``: what is asked about before it is done, and what was allowed for longer than once."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cellwright.cli._arguments import Argument, Option
from cellwright.cli._daemon_line import open_daemon
from cellwright.cli._terminal import AsJson, ExitCode, fail, note, show_data, table
from cellwright.daemon.connect import ask
from cellwright.errors import CellwrightError

__all__ = ["forget", "list_approvals"]

_NO_ACTIONS = ("unanswered", "timeout_s")


def list_approvals(as_json: AsJson = False) -> None:
    """List the rule of each action, what was allowed for a session, a project or always, and what waits."""
    found = _asked()
    rows = [(one["scope"], one["action"], one["of"]) for one in found["approvals"]]
    rules = [(name, rule) for name, rule in found["rules"].items() if name not in _NO_ACTIONS]
    text = table(("ACTION", "RULE"), rules)
    if rows:
        text += "\n\n" + table(("ALLOWED", "ACTION", "IN"), rows)
    if found["waiting"]:
        asked = [(one["id"], one["by"], one["what"]) for one in found["waiting"]]
        text += "\n\n" + table(("WAITING", "ASKED BY", "TO"), asked)
    show_data(found, text, as_json=as_json)


def forget(
    action: Annotated[
        str | None, Argument(metavar="ACTION", help="Such as `packages`. [default: all]")
    ] = None,
    of: Annotated[
        str | None, Option("--of", help="Of this session or project only, by its id or path.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take back what was allowed, so that it is asked about again."""
    if of is not None and not of.startswith("s-"):
        of = os.path.realpath(of)  # as sessions have it
    found = _asked(forget=True, action=action, of=of)
    show_data(found, f"{found['forgotten']} forgotten", as_json=as_json)
    if not found["forgotten"]:
        note("Nothing of that was allowed: `cellwright approvals` lists what was")


def _asked(**details: Any) -> dict[str, Any]:
    try:
        with open_daemon() as connection:
            return ask(connection, "approvals", **details)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
