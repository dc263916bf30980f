"""``cellwright session lab``: JupyterLab with a session's notebook, on the session's own live kernel."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import psutil

from cellwright.cli._arguments import Option
from cellwright.cli._daemon_line import daemon_paths, open_daemon
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._serve import open_browser
from cellwright.cli._session_names import NotebookArgument, session_id_of
from cellwright.cli._terminal import AsJson, fail, note, show_data, show_error
from cellwright.daemon.connect import ask, connect, was_killed
from cellwright.errors import CellwrightError
from cellwright.lab.program import (
    LabRecord,
    configuration,
    find_program,
    forget_lab,
    lab_directory,
    lab_environment,
    notebook_url,
    process_of,
    read_lab,
    write_configuration,
    write_lab,
)
from cellwright.settings.paths import make_private

__all__ = ["lab"]
_AGAIN_MS = 1000


def lab(
    session: NotebookArgument,
    stop: Annotated[bool, Option("--stop", help="End the session's JupyterLab.")] = False,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the address.")] = False,
    detach: Annotated[bool, Option("--detach", help="Return, and let JupyterLab go on.")] = False,
    as_json: AsJson = False,
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
        announce = partial(_announce, storage, running, as_json=as_json, browser=browser)
        if process is None or detach:
            announce()
        else:
            _stay(storage, running, process, connection, announce)
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
        open_browser(record.link, lab_directory(storage, record.session) / "open.html")


def _stay(
    storage: Path,
    record: LabRecord,
    process: subprocess.Popen[bytes],
    connection: socket.socket,
    announce: Callable[[], None],
) -> None:
    """Stay until Lab ends or somebody ends us, which ends Lab; bring a daemon back that was killed."""
    line: socket.socket | None = connection
    pidfd = os.pidfd_open(process.pid)
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _interrupt)
        # Whoever reads the address may end us at once, and Lab with us.
        announce()
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


# A JupyterLab as a process: started once, known by its record, ended with everything it started.

_START_S = 90.0

_CHECK_S = 0.05

_END_S = 10.0

_SHOWN = 2000


class LabFailed(CellwrightError):
    """JupyterLab ended before it could be used."""

    code = "lab_failed"


@contextmanager
def lab_lock(storage: Path, session: str) -> Iterator[None]:
    """Held while somebody finds or starts a session's Lab, so that there is one."""
    home = lab_directory(storage, session)
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(str(home))
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start_lab(
    storage: Path, session: str, notebook: Path, gateway_url: str, gateway_token: str
) -> tuple[LabRecord, subprocess.Popen[bytes]]:
    """Start a Lab with the notebook open on the gateway's kernel, and return once it answers.

    Raises:
        NoLab: there is none to start.
        LabFailed: it ended, or took too long.
    """
    program, home, token = find_program(), lab_directory(storage, session), secrets.token_urlsafe(32)
    settings = configuration(
        home,
        notebook.parent,
        port=_free_port(),
        token=token,
        gateway_url=gateway_url,
        gateway_token=gateway_token,
    )
    write_configuration(home, settings)
    log = os.open(home / "lab.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [*program, "--no-browser", "--ip=127.0.0.1"],
            # Python and Jupyter take programs from where they are started, and the session's code writes to its folder.
            cwd=home,
            env=lab_environment(home, os.environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is ours to hear
        )
    finally:
        os.close(log)
    try:
        port = _port_of(process, home)
        record = LabRecord(
            session=session,
            pid=process.pid,
            started=psutil.Process(process.pid).create_time(),
            url=notebook_url(port, notebook.name),
            token=token,
            gateway_port=urlsplit(gateway_url).port or 0,
            gateway_token=gateway_token,
        )
        write_lab(storage, record)
    except BaseException:
        _end(process.pid)
        raise
    return record, process


def end_lab(storage: Path, record: LabRecord) -> None:
    """End a Lab, and forget it."""
    if process_of(record) is not None:
        _end(record.pid)
    forget_lab(storage, record.session)


def _end(pid: int) -> None:
    """End a process that leads a group of its own, with its group; gently first."""
    with suppress(psutil.Error, ProcessLookupError):
        process = psutil.Process(pid)
        process.terminate()
        with suppress(psutil.TimeoutExpired):
            process.wait(_END_S)
        os.killpg(pid, signal.SIGKILL)


def _port_of(process: subprocess.Popen[bytes], home: Path) -> int:
    """The port that it took, once it listens: it writes that down then."""
    file = home / "runtime" / f"jpserver-{process.pid}.json"
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise LabFailed(
                f"JupyterLab ended with code {process.returncode}: {_last_words(home)}",
                hint=f"All that it said is in {home / 'lab.log'}",
            )
        with suppress(OSError, ValueError):
            port: int = json.loads(file.read_text(encoding="utf-8"))["port"]
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return port
        time.sleep(_CHECK_S)
    raise LabFailed(
        f"JupyterLab did not answer within {_START_S:g} s", hint=f"What it said is in {home / 'lab.log'}"
    )


def _free_port() -> int:
    """A port that is free now; Lab takes the next one where it no longer is."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _last_words(home: Path) -> str:
    with suppress(OSError):
        lines = (home / "lab.log").read_text(errors="replace")[-_SHOWN:].strip().splitlines()
        if lines:
            return lines[-1]
    return "it said nothing"
