"""``cellwright sign-ins …``: the clients that the user let in over HTTP, and the end of that. Reads the file itself."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

from cellwright.audit import AuditLog, acting
from cellwright.cli._arguments import Argument, BadArgument, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, fail, show_data, table
from cellwright.errors import CellwrightError
from cellwright.oauth.grants import Grants

__all__ = ["end", "list_sign_ins"]


class UnknownSignIn(CellwrightError):
    """No client is signed in by that id."""

    code = "unknown_sign_in"


def list_sign_ins(as_json: AsJson = False) -> None:
    """List the clients that are signed in, the oldest first."""
    try:
        found = Grants(_storage()).all()
    except CellwrightError as error:
        fail(error)
    data = [
        {
            "id": grant.id,
            "client": client.name,
            "scopes": list(grant.scopes),
            "server": grant.resource,
            "since": grant.granted_at,
            "until": grant.until,
        }
        for client, grant in found
    ]
    rows = [
        (
            grant.id,
            client.name,
            " ".join(grant.scopes),
            _day(grant.granted_at),
            _day(grant.until),
            grant.resource,
        )
        for client, grant in found
    ]
    columns = ("ID", "CLIENT", "MAY", "SINCE", "UNTIL", "AT")
    show_data({"sign_ins": data}, table(columns, rows), as_json=as_json)


def end(
    sign_in: Annotated[str | None, Argument(metavar="ID", help="As `cellwright sign-ins` lists it.")] = None,
    every: Annotated[bool, Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign a client out, at once: it must ask again."""
    if (sign_in is None) != every:
        raise BadArgument("give an ID, or --all")
    grants = Grants(_storage())
    try:
        ended = [(client, grant) for client, grant in grants.all() if every or grant.id == sign_in]
        if not ended and not every:
            raise UnknownSignIn(
                f"No client is signed in as {sign_in}", hint="`cellwright sign-ins` lists those that are"
            )
        for _, grant in ended:
            grants.end(grant.id)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    with acting("command line"):
        for client, grant in ended:
            AuditLog(_storage()).note("sign_in", ended=grant.id, client=client.name)
    text = "\n".join(f"{client.name} is signed out" for client, _ in ended) or "Nobody is signed in"
    show_data({"ended": [grant.id for _, grant in ended]}, text, as_json=as_json)


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"


def _storage() -> Path:
    return Path(daemon_paths().storage)
