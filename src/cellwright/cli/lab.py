"""``cellwright lab``: JupyterLab with a session's notebook, on the session's own live kernel."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from cellwright.cli.browsing import open_browser
from cellwright.cli.client import Caller, call_daemon, daemon_paths, open_daemon
from cellwright.cli.exits import fail, show_error
from cellwright.cli.labprocess import end_lab, lab_lock, start_lab
from cellwright.cli.naming import NotebookArgument, session_id_of
from cellwright.cli.verbs import AsJson, note, show_data
from cellwright.daemon.connect import ask, connect, was_killed
from cellwright.errors import CellwrightError
from cellwright.lab.program import find_program
from cellwright.lab.records import LabRecord, lab_home, read_lab

__all__ = ["lab"]

_AGAIN_MS = 1000


def lab(
    session: NotebookArgument,
    stop: Annotated[bool, typer.Option("--stop", help="End the session's JupyterLab.")] = False,  # noqa: FBT002  # typer's way to say a flag
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,  # noqa: FBT002  # as above
    detach: Annotated[bool, typer.Option("--detach", help="Return, and let JupyterLab go on.")] = False,  # noqa: FBT002  # as above
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Open a session in JupyterLab, attached to its live kernel. Ctrl-C ends JupyterLab, and not the session."""
    session_id, notebook = call_daemon(lambda caller: _found(caller, session))
    storage = Path(daemon_paths().storage)
    if stop:
        _stop(storage, session_id, as_json=as_json)
        return
    browser = not no_browser and not as_json
    try:
        with lab_lock(storage, session_id):
            running = read_lab(storage, session_id)
            if running is None:
                find_program()
                token = secrets.token_urlsafe(32)
                connection = open_daemon()
                gateway = ask(connection, "lab", session=session_id, port=0, token=token)
                running, process = start_lab(storage, session_id, notebook, gateway["url"], token)
            else:
                process = None
        _announce(storage, running, as_json=as_json, browser=browser)
        if process is not None and not detach:
            _stay(storage, running, process, connection)
    except CellwrightError as error:
        fail(error)


async def _found(caller: Caller, named: str) -> tuple[str, Path]:
    """A session's id and its notebook's file."""
    session = await session_id_of(caller, named)
    sessions = await caller.data("notebook_list", filter="all")
    paths = {one["session_id"]: one["path"] for one in sessions["sessions"]}
    return session, Path(paths[session])


def _stop(storage: Path, session_id: str, *, as_json: bool) -> None:
    record = read_lab(storage, session_id)
    if record is not None:
        end_lab(storage, record)
    text = "stopped" if record is not None else "no JupyterLab was running"
    data = {"session_id": session_id, "stopped": record is not None}
    show_data(data, text, as_json=as_json)


def _announce(storage: Path, record: LabRecord, *, as_json: bool, browser: bool) -> None:
    """Tell the person, and nobody else: whoever has the address has the session."""
    data = {"session_id": record.session, "url": record.link, "pid": record.pid}
    show_data(data, record.link, as_json=as_json)
    if browser:
        open_browser(record.link, lab_home(storage, record.session) / "open.html")


def _stay(
    storage: Path, record: LabRecord, process: subprocess.Popen[bytes], connection: socket.socket
) -> None:
    """Stay until Lab ends or somebody ends us, which ends Lab; bring a daemon back that was killed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    line: socket.socket | None = connection
    pidfd = os.pidfd_open(process.pid)
    try:
        while process.poll() is None:
            line = _watch(pidfd, line, record)
        note("JupyterLab has ended; the session goes on")
    except KeyboardInterrupt:
        note("JupyterLab ends; the session goes on")
    finally:
        os.close(pidfd)
        end_lab(storage, record)
        process.wait()
        if line is not None:
            line.close()


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _watch(pidfd: int, line: socket.socket | None, record: LabRecord) -> socket.socket | None:
    """Wait until something happens to Lab or to the daemon; the line to the daemon as it is then."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if line is not None:
        poll.register(line, select.POLLIN)
    happened = [fd for fd, _ in poll.poll(None if line is not None else _AGAIN_MS)]
    if pidfd in happened:
        return line
    if line is None:
        return _line_again(record)
    with suppress(OSError):
        if line.recv(4096):
            return line
    line.close()
    note("the daemon has ended; JupyterLab waits for the next one")
    return None


def _line_again(record: LabRecord) -> socket.socket | None:
    """A line to the next daemon. One that was killed is started again; one that was stopped was meant to be."""
    paths, line = daemon_paths(), None
    try:
        line = open_daemon() if was_killed(paths) else connect(paths)
        if line is not None:
            ask(line, "lab", session=record.session, port=record.gateway_port, token=record.gateway_token)
    except CellwrightError as error:
        show_error(error)
        if line is not None:
            line.close()
        return None
    return line
