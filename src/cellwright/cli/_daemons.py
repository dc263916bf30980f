"""``cellwright daemon …``: the daemon's life. Its TCP listeners are in ``serve``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

from cellwright.cli._arguments import Exit, Option
from cellwright.cli._daemon_line import daemon_paths, open_daemon
from cellwright.cli._flags import SetOption, UnsafeOption, apply_settings
from cellwright.cli._terminal import AsJson, ExitCode, echo, fail
from cellwright.daemon.connect import ask, connect, stop
from cellwright.daemon.logs import read_log
from cellwright.errors import CellwrightError

__all__ = ["logs", "refuse_if_confined", "start", "status", "stop_daemon"]

# Counted in looks, and not by the clock: while the whole machine stands still nobody is late.
_START_LOOKS = 600
_START_LOOK_S = 0.05


class DaemonConfines(CellwrightError):
    """A daemon runs, with the sandbox that was to be left out."""

    code = "daemon_confines"


def start(
    settings: SetOption = None,
    unsafe: UnsafeOption = False,
    as_json: AsJson = False,
) -> None:
    """Start the daemon, unless it runs already. Everything that needs it does so by itself."""
    try:
        apply_settings(settings, unsafe=unsafe)
        from cellwright.settings import load_settings  # most commands do without pydantic

        load_settings()  # says here, not in a log, what is wrong with them
        if unsafe:
            refuse_if_confined()
        with open_daemon() as connection:
            status = ask(connection, "status")
    except CellwrightError as error:
        fail(error)
    _show(status, f"running as process {status['pid']}", as_json=as_json)


def stop_daemon(
    kernels: Annotated[bool, Option("--kernels", help="Also end every kernel.")] = False,
    if_idle: Annotated[bool, Option("--if-idle", help="Only if nobody would notice.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop the daemon. Kernels go on for a while, and the next daemon finds them."""
    try:
        host = _living_host() if kernels else None
        answer = stop(daemon_paths(), kernels=kernels, if_idle=if_idle)
        if answer is None:
            _show_without_daemon(ended=kernels and _end_host(), as_json=as_json)
            return
        if host is not None and answer.get("stopping"):
            _await_end(host)
    except CellwrightError as error:
        fail(error)
    stopped = bool(answer.get("stopping"))
    text = _ended(answer, kernels=kernels) if stopped else f"not stopped: {answer.get('busy')}"
    told = {name: answer.get(name) for name in ("busy", "pid", "sessions", "running")}
    _show({"stopped": stopped, **told, "kernels_ended": stopped and kernels}, text, as_json=as_json)
    raise Exit(ExitCode.OK if stopped else ExitCode.RUN_FAILED)


def _ended(answer: dict[str, Any], *, kernels: bool) -> str:
    """Say which daemon has ended, and what became of the kernels that it had."""
    sessions, running = answer.get("sessions") or [], answer.get("running") or 0
    said = f"stopped process {answer.get('pid', '?')}"
    if not sessions:
        return f"{said}; no session had a kernel"
    cells = f", {running} cell{'s' if running != 1 else ''} running" if running else ""
    if kernels:
        return f"{said} and ended the kernels of {', '.join(sessions)}{cells}"
    return (
        f"{said}; the kernels of {', '.join(sessions)} go on{cells}, and the next daemon finds them "
        "(`cellwright daemon stop --kernels` ends them, too)"
    )


def _end_host() -> bool:
    """End the host that a killed daemon has left with its kernels; returns whether there was one."""
    from cellwright.hosts.local import HostPaths, end_host  # most commands do without anyio

    return end_host(HostPaths(Path(daemon_paths().storage)))


def _living_host() -> int | None:
    """The process of the host that has the kernels, if there is one."""
    from cellwright.hosts.local import HostPaths, living_host  # as above

    return living_host(HostPaths(Path(daemon_paths().storage)))


def _await_end(host: int) -> None:
    """Return once the host is gone: it closes its connections to the daemon, which then ends, before that."""
    from cellwright.hosts.local import HostPaths, await_end  # as above

    await_end(HostPaths(Path(daemon_paths().storage)), host)


def _show_without_daemon(*, ended: bool, as_json: bool) -> None:
    text = "no daemon was running" + ("; the kernels of the last one were ended" if ended else "")
    _show({"stopped": False, "running": False, "kernels_ended": ended}, text, as_json=as_json)


def status(as_json: AsJson = False) -> None:
    """Tell whether the daemon runs, and what it does. Exits 1 if it does not run."""
    connection = connect(daemon_paths())
    if connection is None:
        _show({"state": "stopped", "storage": daemon_paths().storage}, "not running", as_json=as_json)
        raise Exit(ExitCode.RUN_FAILED)
    try:
        with connection:
            found = ask(connection, "status")
    except CellwrightError as error:
        fail(error)
    _show(found, _described(found), as_json=as_json)


def logs(
    lines: Annotated[int, Option("-n", "--lines", min=1, help="At most so many, the newest.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Print the daemon's log."""
    paths = daemon_paths()
    found = read_log(paths, lines)
    _show({"path": paths.log, "lines": found}, "\n".join(found), as_json=as_json)


def refuse_if_confined() -> None:
    """Raise where a daemon runs that confines code: a flag would change nothing about it."""
    found: dict[str, Any] = {}
    for _ in range(_START_LOOKS):
        connection = connect(daemon_paths())
        if connection is None:
            return
        with connection:
            found = ask(connection, "status")
        if found["state"] != "starting":
            break
        time.sleep(_START_LOOK_S)
    if "unsafe_no_sandbox" not in found.get("dangers", {}):
        raise DaemonConfines(
            "The daemon runs already, and it confines code: --unsafe-no-sandbox would change nothing",
            hint="Run `cellwright daemon stop --kernels` first",
        )


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
    echo(json.dumps(data, ensure_ascii=False) if as_json else text)
