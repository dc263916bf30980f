"""``cellwright ui``: the page, in a browser that is signed in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from cellwright.cli.browser import open_browser
from cellwright.cli.exits import fail
from cellwright.cli.mcp_client import call_daemon, daemon_paths, open_daemon
from cellwright.cli.notebooks import AsJson, show_data
from cellwright.cli.port_requests import DEFAULT_PORT, LOOPBACK, listener_request
from cellwright.cli.session_names import session_id_of
from cellwright.daemon.connect import ask
from cellwright.errors import CellwrightError

__all__ = ["sign_in_link", "ui"]


def ui(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[NOTEBOOK_OR_SESSION]",
            help="What to show: a session's id, its notebook's name, or its .ipynb file. [default: all sessions]",
            show_default=False,
        ),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help=f"The port. [default: one that is open, or {DEFAULT_PORT}, or a free one]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Open the page, signed in. The link works once, within two minutes."""
    path = "/"
    if session is not None:
        named = session
        path = f"/sessions/{call_daemon(lambda caller: session_id_of(caller, named))}"
    try:
        link = sign_in_link(
            listener_request(LOOPBACK, port or DEFAULT_PORT), exact=port is not None, path=path
        )
    except CellwrightError as error:
        fail(error)
    show_data({"url": link}, link, as_json=as_json)
    if not no_open and not as_json and _has_a_screen():
        open_browser(link, Path(daemon_paths().home) / "open.html")


def sign_in_link(request: dict[str, Any], *, exact: bool, path: str = "/") -> str:
    """A link that signs in whoever opens it first: at a port that is open, or one that is opened as wished.

    Raises:
        CellwrightError: no port can be had.
    """
    with open_daemon() as connection:
        found = ask(connection, "page", **{**request, "exact": exact})
    ahead = {"next": path} if path != "/" else {}
    return f"{found['url']}/enter?{urlencode({'code': found['code'], **ahead})}"


def _has_a_screen() -> bool:
    """Whether a browser could show itself; without one, some would take over the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
