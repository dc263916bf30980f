"""The verb for the web: calls the daemon's ``web_fetch`` and shows what came, or what was asked so far."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from cellwright.cli.client import Caller, call_daemon
from cellwright.cli.verbs import AsJson, note, show_data

__all__ = ["fetch"]

_MOST_TOKENS = 200_000
_LOG = "cellwright://network"


class FetchType(StrEnum):
    HTML = "html"
    JSON = "json"
    TEXT = "text"
    FILE = "file"


def fetch(
    url: Annotated[str | None, typer.Argument(help="What to fetch, http or https.")] = None,
    kind: Annotated[FetchType, typer.Option("--type", help="What to read it as.")] = FetchType.HTML,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="A file in the data directory to save it to.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Fetch for a session, into its directory and log.")
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the host whatever the cache has.")] = False,  # noqa: FBT002  # typer's way to say a flag
    log: Annotated[bool, typer.Option("--log", help="Show the newest requests instead.")] = False,  # noqa: FBT002  # as above
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Fetch a page as Markdown, JSON, text or a file, if the network policy allows it."""
    if log:
        _show_log(as_json=as_json)
        return
    if url is None:
        raise typer.BadParameter("give a URL, or --log", param_hint="URL")
    data = call_daemon(
        lambda caller: caller.data(
            "web_fetch",
            url=url,
            type=kind.value,
            path=output,
            session_id=session,
            refresh=refresh,
            max_tokens=_MOST_TOKENS,
            response_format="json",
        )
    )
    show_data(data, data.get("text") or data.get("saved", ""), as_json=as_json)
    _tell(data)


def _tell(data: dict[str, Any]) -> None:
    """What there is to know beside the data."""
    for said in data.get("notes", ()):
        note(said)
    if "saved" in data:
        note(f"saved to {data['saved']}")


def _show_log(*, as_json: bool) -> None:
    async def read(caller: Caller) -> dict[str, Any]:
        return json.loads(await caller.resource(_LOG))  # type: ignore[no-any-return]  # the server's JSON

    data = call_daemon(read)
    lines = [
        f"{datetime.fromtimestamp(one['time']).astimezone():%Y-%m-%d %H:%M:%S}  {one['verdict']:<9}  "
        f"{one['host']}:{one['port']}  {one['address'] or '-'}  {one['bytes_down']} B  {one['reason']}"
        for one in reversed(data["requests"])
    ]
    show_data(data, "\n".join(lines), as_json=as_json)
