"""Runs a kernel that speaks TCP only behind the unix sockets that it was meant to have.

Such a kernel listens on the loopback, which in a sandbox is its own and cannot be reached from outside. This process
stays beside it, as confined as it is, and carries every connection over. It ends as the kernel ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

from cellwright_kernel import bridge
from cellwright_kernel._syscalls import prctl

__all__ = ["main", "run"]

PR_SET_PDEATHSIG = 1
LOOPBACK = "127.0.0.1"
CHANNELS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def main(argv: list[str]) -> NoReturn:
    """``__main__.py --ferry CONNECTION_FILE program argument…``, for a kernel that is not confined."""
    run(argv[0], argv[1:])


def run(connection_file: str, program: list[str]) -> NoReturn:
    """Run the program with a connection file of its own in place of the given one, until it ends."""
    wanted: dict[str, Any] = json.loads(Path(connection_file).read_text(encoding="utf-8"))
    ports = _free_ports(len(CHANNELS))
    listeners = [_listen(f"{wanted['ip']}-{wanted[channel]}") for channel in CHANNELS]
    given = wanted | {"transport": "tcp", "ip": LOOPBACK} | dict(zip(CHANNELS, ports, strict=True))
    descriptor, own_file = tempfile.mkstemp(prefix="kernel-", suffix=".json")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(given, file)
    ferry = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become([own_file if part == connection_file else part for part in program], ferry)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for listener, port in zip(listeners, ports, strict=True):
        threading.Thread(target=bridge.relay_to_port, args=(listener, port), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    Path(own_file).unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # two signals have no other way
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _become(program: list[str], ferry: int) -> NoReturn:
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="parent death signal")
        if os.getppid() == ferry:
            os.execvp(program[0], program)
    except OSError as error:
        os.write(2, f"{program[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(1)


def _free_ports(count: int) -> list[int]:
    # All open at once, so that no two are the same.
    probes = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    return listener
