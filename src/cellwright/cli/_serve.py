"""``cellwright serve``: a TCP port of the daemon, open for as long as this stays, also when a daemon is killed meanwhile."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import time
import webbrowser
from html import escape
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import urlencode, urlsplit

from cellwright.cli._arguments import Argument, Exit, Option
from cellwright.cli._daemon_line import daemon_paths, open_daemon
from cellwright.cli._daemons import refuse_if_confined
from cellwright.cli._flags import SetOption, UnsafeOption, apply_settings
from cellwright.cli._mcp_client import call_daemon
from cellwright.cli._session_names import session_id_of
from cellwright.cli._terminal import AsJson, ExitCode, fail, note, show_data
from cellwright.daemon.connect import DaemonUnavailable, ask, was_killed
from cellwright.daemon.tokens import obtain_token
from cellwright.errors import CellwrightError

__all__ = ["open_browser", "serve", "ui"]


# ``cellwright ui``: the page, in a browser that is signed in.


def ui(
    session: Annotated[
        str | None,
        Argument(
            metavar="[NOTEBOOK_OR_SESSION]",
            help="What to show: a session's id, its notebook's name, or its .ipynb file. [default: all sessions]",
            show_default=False,
        ),
    ] = None,
    no_open: Annotated[bool, Option("--no-open", help="Only print the link.")] = False,
    port: Annotated[
        int | None,
        Option(
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


# Opens what whoever has its address gets into: for the person at this screen, and nobody else.


def open_browser(link: str, page: Path) -> None:
    """Open a link by way of a page: a browser's command line can be read by others, and this file cannot."""
    try:
        fd = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:  # a descriptor, opened 0600 from the start
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">')
        if not webbrowser.open(page.as_uri()):
            note("no browser was found: open the address above")
    except (OSError, webbrowser.Error) as error:
        note(f"no browser was opened ({error}): open the address above")


# What the daemon is asked for by whoever wants a TCP port: where, and who may come in.

LOOPBACK = "127.0.0.1"

DEFAULT_PORT = 8765


def listener_request(host: str, port: int, **details: Any) -> dict[str, Any]:
    """A request for a listener, as the settings say.

    Raises:
        CellwrightError: the settings or the token are refused.
    """
    import msgspec  # most commands do without

    from cellwright.oauth.options import SignInOptions  # as above
    from cellwright.settings import load_settings  # and without pydantic

    loaded = load_settings()
    sign_in = SignInOptions.of(loaded)
    given = loaded.token.get_secret_value() if loaded.token is not None else None
    token, file = obtain_token(given, loaded.token_file or Path(daemon_paths().token))
    return {
        "host": host,
        "port": port,
        "token": token,
        "token_file": str(file) if file is not None else None,
        "hosts": list(loaded.allowed_hosts),
        "origins": list(loaded.allowed_origins),
        "sign_in": msgspec.to_builtins(sign_in) if sign_in is not None else None,
        **details,
    }


_PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Before each try to bring a daemon back that was killed."""

_STEADY_S = 60.0
"""Whatever lived so long is not failing again and again."""


def serve(
    host: Annotated[str, Option(help="The address to listen on.")] = LOOPBACK,
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 takes a free one.")] = DEFAULT_PORT,
    dialect: Annotated[str | None, Option(help="Also speak the tools of another system.")] = None,
    toolset: Annotated[str | None, Option(help="Only these sets of tools, separated by commas.")] = None,
    detach: Annotated[bool, Option("--detach", help="Return, and listen until the daemon stops.")] = False,
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
            opened = ask(connection, "serve", **request)
            request["port"] = urlsplit(opened["url"]).port
            if detach:
                _announce(opened, request, as_json=as_json)
            else:
                _stay(connection, opened, request, as_json=as_json)
    except CellwrightError as error:
        fail(error)


def _announce(opened: dict[str, Any], request: dict[str, Any], *, as_json: bool) -> None:
    url = opened["url"]
    if not _is_loopback(request["host"]):
        note(
            f"warning: {request['host']} can be reached from other machines, and neither the token nor what is said is "
            "encrypted\nhint: Put a proxy with TLS in front, or reach a loopback listener through ssh -L"
        )
    token_file = request["token_file"]
    token = {"token_file": token_file} if token_file else {"token": "as given"}
    data = {"mcp": f"{url}/mcp", "events": f"{url}/events"}
    if opened["page"]:
        data["page"] = f"{url}/"
    show_data({**data, **token}, "\n".join(data.values()), as_json=as_json)
    note(f"token: {token_file or 'as given in CELLWRIGHT_TOKEN'}")
    if not opened["page"]:
        note("no page is served: it needs pip install 'cellwright[web]'")
    elif sys.stderr.isatty():  # a log is not the place for what lets somebody in
        note(f"sign in within two minutes: {sign_in_link(request, exact=True)}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _stay(
    connection: socket.socket, opened: dict[str, Any], request: dict[str, Any], *, as_json: bool
) -> NoReturn:
    """Hold the connection, and with it the listener, until the daemon is stopped or somebody ends us."""
    for number in (signal.SIGTERM, signal.SIGINT):  # also where a shell started us with interrupts ignored
        signal.signal(number, signal.default_int_handler)
    failures = 0
    try:
        # Not before: whoever reads the address may end us at once.
        _announce(opened, request, as_json=as_json)
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
        raise Exit(ExitCode.OK) from None


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
