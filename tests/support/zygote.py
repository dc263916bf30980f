"""Processes that are forks of one that has imported what they need: who asks a zygote on its line is told of such a fork.

A zygote ends with the process that began it. That one's forks have the line, too, and any number of processes may ask on
it at the same time: the runner of the tests begins each zygote once for the whole run. What a zygote imports, and what
its forks then are, is its own business (``hosts/forking``, ``daemon/forking``).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

ACCOUNT = "TESTS_PROCESSOR_ACCOUNT"
"""Names a file, in the environment of a fork: what it used of a processor is written there when it has ended."""

_MESSAGE_BYTES = 2**20
_FILES = 8


def begin(command: Callable[[int], Sequence[str]], *kept: int, cwd: Path) -> socket.socket:
    """Start a zygote, whose command is told the number of its end of the line; returns the other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(
            command(number), pass_fds=[number, *kept], stdin=subprocess.DEVNULL, cwd=cwd
        )
    beginner = os.getpid()

    def end() -> None:
        if os.getpid() == beginner:
            process.terminate()
            process.wait()

    atexit.register(end)
    return ours


def ask(line: socket.socket, call: Mapping[str, Any], files: Sequence[int]) -> IO[bytes]:
    """Have a process forked, with an environment, a directory, a command and files of the caller's.

    The stream tells its number in a line, and its exit code when it has ended. Nothing is read ahead.
    """
    told, tells = os.pipe()
    socket.send_fds(line, [json.dumps(call).encode()], [tells, *files])
    os.close(tells)
    return os.fdopen(told, "rb", buffering=0)


def hear(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Wait for a call and its files; None at the line's end."""
    message, files, _, _ = socket.recv_fds(line, _MESSAGE_BYTES, _FILES)
    return (json.loads(message), files) if message else None


def serve(
    line: socket.socket, prepare: Callable[[], Any], program: Callable[[dict[str, Any], list[int], Any], int]
) -> None:
    """Fork for each call and tell of the fork's end, until the line ends. What was prepared goes to each fork."""
    living: dict[int, tuple[int, str | None]] = {}
    prepared: tuple[Any] | None = None
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    poller = _poller(line.fileno(), woken)
    while True:
        ready = poller()
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(living)
        if line.fileno() not in ready:
            continue
        if (heard := hear(line)) is None:
            return
        call, (tells, *files) = heard
        prepared = prepared or (prepare(),)
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            run(program, call, files, *prepared)
        living[pid] = tells, call["environment"].get(ACCOUNT)
        for file in files:
            os.close(file)
        _tell(tells, f"{pid}\n")


def _poller(*descriptors: int) -> Callable[[], set[int]]:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return lambda: {descriptor for descriptor, _ in poller.poll()}


def _tell_ends(living: dict[int, tuple[int, str | None]]) -> None:
    while living:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if not pid:
            return
        tells, account = living.pop(pid)
        if account is not None:
            _write_down(account, used.ru_utime + used.ru_stime)
        _tell(tells, str(os.waitstatus_to_exitcode(status)))
        os.close(tells)


def _tell(descriptor: int, text: str) -> None:
    with suppress(BrokenPipeError):  # who asked may have been killed
        os.write(descriptor, text.encode())


def _write_down(account: str, processor_s: float) -> None:
    with suppress(FileNotFoundError), open(account, "a") as file:  # who asked may be long done
        file.write(f"{processor_s}\n")


def run(program: Callable[..., int], *arguments: Any) -> NoReturn:
    """Be this program to its end, and nothing of the process that forked."""
    code = 1
    try:
        code = program(*arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # as a program that ends by an exception
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def become(call: Mapping[str, Any], files: Mapping[int, int], *kept: int) -> None:
    """Take on what a process is started with: these files as these numbers; of all others only ``kept`` stay open."""
    for number, file in files.items():
        os.dup2(file, number)
    low = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = list(call["command"][1:])
