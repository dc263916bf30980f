"""``cellwright daemon …`` and ``cellwright serve``: the daemon's life and its TCP listeners."""

from __future__ import annotations

import ipaddress
import json
import signal
import time
from typing import Annotated, Any, NoReturn

import typer

from cellwright.cli.client import daemon_paths, open_daemon
from cellwright.cli.exits import ExitCode, show_error
from cellwright.cli.flags import SetOption, UnsafeOption, apply_settings
from cellwright.cli.verbs import AsJson
from cellwright.daemon.logs import read_log
from cellwright.daemon.starting import ask, connect, stop
from cellwright.daemon.tokens import obtain_token
from cellwright.errors import CellwrightError
from cellwright.settings import load_settings

__all__ = ["daemon_app", "serve"]

_START_S = 30.0
_START_CHECK_S = 0.05

daemon_app = typer.Typer(name="daemon", help="Start, stop and look at the daemon.", no_args_is_help=True)


class DaemonConfines(CellwrightError):
    """A daemon runs, with the sandbox that was to be left out."""

    code = "daemon_confines"


@daemon_app.command("start")
def start(
    settings: SetOption = None,
    unsafe: UnsafeOption = False,  # noqa: FBT002  # typer's way to say a flag
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Start the daemon, unless it runs already. Everything that needs it does so by itself."""
    try:
        apply_settings(settings, unsafe=unsafe)
        load_settings()  # says here, not in a log, what is wrong with them
        if unsafe:
            _refuse_if_confined()
        with open_daemon() as connection:
            status = ask(connection, "status")
    except CellwrightError as error:
        _fail(error)
    _show(status, f"running as process {status['pid']}", as_json=as_json)


@daemon_app.command("stop")
def stop_daemon(
    kernels: Annotated[bool, typer.Option("--kernels", help="Also end every kernel.")] = False,  # noqa: FBT002  # as above
    if_idle: Annotated[bool, typer.Option("--if-idle", help="Only if nobody would notice.")] = False,  # noqa: FBT002  # as above
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Stop the daemon. Kernels go on for a while, and the next daemon finds them."""
    try:
        answer = stop(daemon_paths(), kernels=kernels, if_idle=if_idle)
    except CellwrightError as error:
        _fail(error)
    if answer is None:
        _show({"stopped": False, "running": False}, "no daemon was running", as_json=as_json)
        return
    stopped = bool(answer.get("stopping"))
    text = "stopped" if stopped else f"not stopped: {answer.get('busy')}"
    _show({"stopped": stopped, "busy": answer.get("busy")}, text, as_json=as_json)
    raise typer.Exit(ExitCode.OK if stopped else ExitCode.RUN_FAILED)


@daemon_app.command("status")
def status(as_json: AsJson = False) -> None:  # noqa: FBT002  # as above
    """Tell whether the daemon runs, and what it does. Exits 1 if it does not run."""
    connection = connect(daemon_paths())
    if connection is None:
        _show({"state": "stopped", "storage": daemon_paths().storage}, "not running", as_json=as_json)
        raise typer.Exit(ExitCode.RUN_FAILED)
    try:
        with connection:
            found = ask(connection, "status")
    except CellwrightError as error:
        _fail(error)
    _show(found, _described(found), as_json=as_json)


@daemon_app.command("logs")
def logs(
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="At most so many, the newest.")] = 100,
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Print the daemon's log."""
    paths = daemon_paths()
    found = read_log(paths, lines)
    _show({"path": paths.log, "lines": found}, "\n".join(found), as_json=as_json)


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8765,
    dialect: Annotated[str | None, typer.Option(help="Also speak the tools of another system.")] = None,
    toolset: Annotated[
        str | None, typer.Option(help="Only these sets of tools, separated by commas.")
    ] = None,
    detach: Annotated[  # noqa: FBT002  # as above
        bool, typer.Option("--detach", help="Return, and listen until the daemon stops.")
    ] = False,  # as above
    settings: SetOption = None,
    unsafe: UnsafeOption = False,  # noqa: FBT002  # as above
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Open a TCP port of the daemon: MCP at /mcp, events at /events. Ends with Ctrl-C."""
    try:
        apply_settings(settings, unsafe=unsafe)
        loaded = load_settings()
        if unsafe:
            _refuse_if_confined()
        token, file = obtain_token(loaded, daemon_paths())
        with open_daemon() as connection:
            answer = ask(
                connection,
                "serve",
                host=host,
                port=port,
                token=token,
                hosts=list(loaded.allowed_hosts),
                origins=list(loaded.allowed_origins),
                dialect=dialect,
                toolset=toolset,
                detach=detach,
            )
            _announce(answer["url"], str(file) if file else None, host, as_json=as_json)
            if not detach:
                _stay(connection)
    except CellwrightError as error:
        _fail(error)


def _refuse_if_confined() -> None:
    """Raise where a daemon runs that confines code: a flag would change nothing about it."""
    found: dict[str, Any] = {"state": "starting"}
    until = time.monotonic() + _START_S
    while found["state"] == "starting" and time.monotonic() < until:
        connection = connect(daemon_paths())
        if connection is None:
            return
        with connection:
            found = ask(connection, "status")
        time.sleep(_START_CHECK_S if found["state"] == "starting" else 0)
    if "unsafe_no_sandbox" not in found.get("dangers", {}):
        raise DaemonConfines(
            "The daemon runs already, and it confines code: --unsafe-no-sandbox would change nothing",
            hint="Run `cellwright daemon stop --kernels` first",
        )


def _announce(url: str, token_file: str | None, host: str, *, as_json: bool) -> None:
    if not _is_loopback(host):
        typer.echo(
            f"warning: {host} can be reached from other machines, and neither the token nor what is said is encrypted"
            "\nhint: Put a proxy with TLS in front, or reach a loopback listener through ssh -L",
            err=True,
        )
    token = {"token_file": token_file} if token_file else {"token": "as given"}
    data = {"mcp": f"{url}/mcp", "events": f"{url}/events", **token}
    text = f"{url}/mcp\n{url}/events"
    _show(data, text, as_json=as_json)
    typer.echo(f"token: {token_file or 'as given in CELLWRIGHT_TOKEN'}", err=True)


def _stay(connection: Any) -> None:
    """Hold the connection, and with it the listener, until the daemon ends or somebody ends us."""
    for number in (signal.SIGTERM, signal.SIGINT):  # also where a shell started us with interrupts ignored
        signal.signal(number, signal.default_int_handler)
    connection.settimeout(None)
    try:
        while connection.recv(4096):
            pass
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.OK) from None
    except OSError:
        pass
    typer.echo("error: The daemon ended\nhint: See `cellwright daemon logs`", err=True)
    raise typer.Exit(ExitCode.ENGINE_FAILED)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _described(found: dict[str, Any]) -> str:
    if found["state"] != "ready":
        return f"{found['state']} as process {found['pid']}"
    hours = (time.time() - found["started_at"]) / 3600
    lines = [
        f"running as process {found['pid']}, version {found['version']}, for {hours:.1f} h",
        f"storage   {found['storage']}",
        f"root      {found['root']}",
        f"clients   {found['clients']}",
        f"sessions  {found['sessions']['active']} active, {found['sessions']['suspended']} suspended",
        f"running   {found['running']} cells",
        *(f"listening {url}" for url in found["listeners"]),
        *(f"warning: {name}: {danger}" for name, danger in found["dangers"].items()),
    ]
    return "\n".join(lines)


def _show(data: dict[str, Any], text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False) if as_json else text)


def _fail(error: CellwrightError) -> NoReturn:
    show_error(error)
    raise typer.Exit(ExitCode.ENGINE_FAILED)
