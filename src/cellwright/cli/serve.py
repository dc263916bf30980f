"""``cellwright serve``: a TCP port of the daemon, open for as long as this stays, also when a daemon is killed meanwhile."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
import time
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import typer

from cellwright.cli.daemons import refuse_if_confined
from cellwright.cli.exits import ExitCode, fail
from cellwright.cli.flags import SetOption, UnsafeOption, apply_settings
from cellwright.cli.mcp_client import daemon_paths, open_daemon
from cellwright.cli.notebooks import AsJson, note, show_data
from cellwright.cli.port_requests import DEFAULT_PORT, LOOPBACK, listener_request
from cellwright.cli.ui import sign_in_link
from cellwright.daemon.connect import DaemonUnavailable, ask, was_killed
from cellwright.errors import CellwrightError

__all__ = ["serve"]

_PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Before each try to bring a daemon back that was killed."""
_STEADY_S = 60.0
"""Whatever lived so long is not failing again and again."""


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = DEFAULT_PORT,
    dialect: Annotated[str | None, typer.Option(help="Also speak the tools of another system.")] = None,
    toolset: Annotated[
        str | None, typer.Option(help="Only these sets of tools, separated by commas.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return, and listen until the daemon stops.")
    ] = False,
    settings: SetOption = None,
    unsafe: UnsafeOption = False,
    as_json: AsJson = False,
) -> None:
    """Open a TCP port of the daemon: the page at /, MCP at /mcp, events at /events. Ends with Ctrl-C."""
    try:
        apply_settings(settings, unsafe=unsafe)
        request = listener_request(host, port, dialect=dialect, toolset=toolset, detach=detach)
        if unsafe:
            refuse_if_confined()
        with open_daemon() as connection:
            url = ask(connection, "serve", **request)["url"]
            request["port"] = urlsplit(url).port
            if detach:
                _announce(url, request, as_json=as_json)
            else:
                _stay(connection, url, request, as_json=as_json)
    except CellwrightError as error:
        fail(error)


def _announce(url: str, request: dict[str, Any], *, as_json: bool) -> None:
    if not _is_loopback(request["host"]):
        note(
            f"warning: {request['host']} can be reached from other machines, and neither the token nor what is said is "
            "encrypted\nhint: Put a proxy with TLS in front, or reach a loopback listener through ssh -L"
        )
    token_file = request["token_file"]
    token = {"token_file": token_file} if token_file else {"token": "as given"}
    data = {"mcp": f"{url}/mcp", "events": f"{url}/events", "page": f"{url}/", **token}
    show_data(data, f"{url}/mcp\n{url}/events\n{url}/", as_json=as_json)
    note(f"token: {token_file or 'as given in CELLWRIGHT_TOKEN'}")
    if sys.stderr.isatty():  # a log is not the place for what lets somebody in
        note(f"sign in within two minutes: {sign_in_link(request, exact=True)}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _stay(connection: socket.socket, url: str, request: dict[str, Any], *, as_json: bool) -> NoReturn:
    """Hold the connection, and with it the listener, until the daemon is stopped or somebody ends us."""
    for number in (signal.SIGTERM, signal.SIGINT):  # also where a shell started us with interrupts ignored
        signal.signal(number, signal.default_int_handler)
    failures = 0
    try:
        # Not before: whoever reads the address may end us at once.
        _announce(url, request, as_json=as_json)
        while True:
            began = time.monotonic()
            _wait_for_the_end(connection)
            if not was_killed(daemon_paths()):
                raise DaemonUnavailable("The daemon ended", hint="See `cellwright daemon logs`")
            note("warning: The daemon was killed; it is started again")
            failures = failures + 1 if time.monotonic() - began < _STEADY_S else 0
            connection, failures = _listening_again(request, failures)
            note("listening again at the same address")
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.OK) from None


def _wait_for_the_end(connection: socket.socket) -> None:
    connection.settimeout(None)
    with connection:
        try:
            while connection.recv(4096):
                pass
        except OSError:
            return


def _listening_again(request: dict[str, Any], failures: int) -> tuple[socket.socket, int]:
    """A line to the next daemon, which has the port open as the one before had; and how often that failed before.

    Raises:
        CellwrightError: it failed too often.
    """
    while True:
        time.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
        try:
            connection = open_daemon()
            ask(connection, "serve", **request)
        except CellwrightError as error:
            failures += 1
            if failures >= len(_PAUSES_S):
                raise
            note(f"warning: {error.message}; another try follows")
        else:
            return connection, failures
