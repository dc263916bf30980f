"""``cellwright people …``: who may look at the page, besides whoever serves it, and what each may do there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cellwright.audit import AuditLog, acting
from cellwright.cli._arguments import Argument, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, fail, note, show_data, table
from cellwright.errors import CellwrightError
from cellwright.people import add_member, change_role, read_members, remove_member

__all__ = ["add", "list_people", "remove", "set_role"]


class RoleChoice(StrEnum):
    VIEW = "view"
    RUN = "run"
    OWN = "own"


NameArgument = Annotated[str, Argument(metavar="NAME", help="What they are called.")]
_ROLE_HELP = "`view` looks; `run` also edits, runs and takes over; `own` also suspends and deletes."


def add(
    name: NameArgument,
    role: Annotated[RoleChoice, Option(help=_ROLE_HELP)] = RoleChoice.VIEW,
    as_json: AsJson = False,
) -> None:
    """Let somebody in, and print their token: this once."""
    try:
        token = add_member(_storage(), name, role.value)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    _write_down(added=name, role=role.value)
    show_data({"name": name, "role": role.value, "token": token}, token, as_json=as_json)
    note(
        f"{name} signs in on the page with this token, and may {role.value}. It is not shown again; "
        "`cellwright daemon status` has the page's address, `cellwright serve --help` opens it to other machines"
    )


def set_role(
    name: NameArgument,
    role: Annotated[RoleChoice, Argument(help=_ROLE_HELP)],
    as_json: AsJson = False,
) -> None:
    """Change what somebody may do, at once."""
    try:
        change_role(_storage(), name, role.value)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    _write_down(changed=name, role=role.value)
    show_data({"name": name, "role": role.value}, f"{name}  {role.value}", as_json=as_json)


def list_people(as_json: AsJson = False) -> None:
    """List everybody who has a token."""
    try:
        members = read_members(_storage()).values()
    except CellwrightError as error:
        fail(error)
    data = {"people": [{"name": one.name, "role": one.role, "added_at": one.added_at} for one in members]}
    rows = [
        (one.name, one.role, f"{datetime.fromtimestamp(one.added_at).astimezone():%Y-%m-%d}")
        for one in members
    ]
    show_data(data, table(("NAME", "ROLE", "ADDED"), rows), as_json=as_json)


def remove(name: NameArgument, as_json: AsJson = False) -> None:
    """Show somebody out: their token and every page that they have open stop working at once."""
    try:
        remove_member(_storage(), name)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    _write_down(removed=name)
    show_data({"name": name, "removed": True}, f"{name} is removed", as_json=as_json)


def _write_down(**about: str) -> None:
    with acting("command line"):
        AuditLog(_storage()).note("people", **about)


def _storage() -> Path:
    return Path(daemon_paths().storage)
