"""A JupyterLab as a process: started once, known by its record, ended with everything it started."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from cellwright.errors import CellwrightError
from cellwright.lab.program import (
    configuration,
    find_program,
    lab_environment,
    notebook_url,
    write_configuration,
)
from cellwright.lab.records import LabRecord, forget_lab, lab_home, process_of, write_lab
from cellwright.settings.paths import make_private

__all__ = ["LabFailed", "end_lab", "lab_lock", "start_lab"]

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
    home = lab_home(storage, session)
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
    program, home, token = find_program(), lab_home(storage, session), secrets.token_urlsafe(32)
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
