"""Hosts, and the first fork server of each, as forks of one process that has imported what they need.

To import takes a host a third of a second, a fork server as long, and its warming as long again; most tests are about
neither. What runs is what would run, with the same arguments, environment, directory and streams. How the programs
themselves start is tested by ``kernel/sandbox``, ``kernel/kernels``, ``kernel/hosts``, ``system/clients`` and daemons that
a test has started by ``Place.start`` or ``Place.pump``.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, NoReturn

_MESSAGE_BYTES = 2**20
# What a process shows as its command lies where the command of the first one lay: this much room.
_ROOM = "-" * 1_000


class ForkedHosts:
    """Stands where ``hosts.local`` has ``subprocess``, for the one program that it starts.

    Whoever has the line may ask on it, at the same time as others.
    """

    DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE

    def __init__(self, line: Callable[[], socket.socket]) -> None:
        self.line = line

    def Popen(self, command: Sequence[str], *, stderr: IO[bytes], **_: Any) -> ForkedHost:  # noqa: N802  # the other's name
        assert command[1:3] == ["-m", "cellwright.hosts"], command
        call = json.dumps({"command": command, "environment": dict(os.environ), "cwd": "/"}).encode()
        (out, stdout), (told, tells) = os.pipe(), os.pipe()
        socket.send_fds(self.line(), [call], [stdout, stderr.fileno(), tells])
        os.close(stdout)
        os.close(tells)
        return ForkedHost(os.fdopen(out, "rb"), os.fdopen(told, "rb"))


@functools.cache
def line() -> socket.socket:
    """To the process that forks hosts for this one and for what it starts; it is begun with the first, and ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno()), _ROOM]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/")

    def end() -> None:
        process.terminate()
        process.wait()

    atexit.register(end)
    return ours


class ForkedHost:
    """What ``hosts.local`` uses of a ``Popen``."""

    def __init__(self, stdout: IO[bytes], told: IO[bytes]) -> None:
        self.pid = int(told.readline())
        self.stdout = stdout
        self._told = told

    def wait(self) -> int:
        with self._told as told:
            return int(told.read() or 0)


def serve(line: socket.socket) -> None:
    """Fork a host for each call and tell of its end, until the line ends."""
    living: dict[int, int] = {}
    known: frozenset[str] | None = None
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
        message, files, _, _ = socket.recv_fds(line, _MESSAGE_BYTES, 3)
        if not message:
            return
        known = known or _import_everything()
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run(_be_host, json.loads(message), files[:2], known)
        living[pid] = files.pop()
        for file in files:
            os.close(file)
        _tell(living[pid], f"{pid}\n")


def _poller(*descriptors: int) -> Callable[[], set[int]]:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return lambda: {descriptor for descriptor, _ in poller.poll()}


def _tell_ends(living: dict[int, int]) -> None:
    while living:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        tells = living.pop(pid)
        _tell(tells, str(os.waitstatus_to_exitcode(status)))
        os.close(tells)


def _tell(descriptor: int, text: str) -> None:
    with suppress(BrokenPipeError):  # who asked may have been killed
        os.write(descriptor, text.encode())


def _run(program: Callable[..., int], *arguments: Any) -> NoReturn:
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


def _become(call: Mapping[str, Any], files: Sequence[int], *kept: int) -> None:
    """Take on what a process is started with; of other descriptors only ``kept`` stay open."""
    os.setsid()
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
    low = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = list(call["command"][1:])
    shown = b"\0".join(part.encode() for part in call["command"]) + b"\0"
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    assert len(shown) <= end - begin
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


def _be_host(call: Mapping[str, Any], files: Sequence[int], known: frozenset[str]) -> int:
    from cellwright.hosts.__main__ import main
    from cellwright.kernels import processes, programs

    _become(call, files)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if (pid := os.fork()) == 0:
        ours.close()
        _run(_be_fork_server, theirs, known)
    theirs.close()
    processes._wanted.add(pid)  # until it is a fork server, which the host knows
    programs.subprocess = _Seeded(pid, ours)  # type: ignore[assignment]  # for what it uses of it
    sys.argv = sys.argv[1:]
    return main()


class _Seeded:
    """Stands where ``kernels.programs`` has ``subprocess``: the first plain fork server is the process that waits for it."""

    TimeoutExpired, DEVNULL = subprocess.TimeoutExpired, subprocess.DEVNULL

    def __init__(self, pid: int, line: socket.socket) -> None:
        self._pid = pid
        self._line: socket.socket | None = line

    def Popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: N802  # the other's name
        line = self._line
        plain = command[0] == sys.executable and command[1].endswith("cellwright_kernel/__main__.py")
        if line is None or not plain or "--preload" in command or "--layer" in command:
            return subprocess.Popen(command, **options)
        self._line = None
        [channel] = options["pass_fds"]
        call = {"command": command, "environment": dict(options["env"]), "cwd": str(options["cwd"])}
        with line:
            socket.send_fds(
                line, [json.dumps(call).encode()], [options["stdout"], options["stderr"], channel]
            )
        return _Child(self._pid, command)


class _Child(subprocess.Popen[bytes]):
    """A child that was there before."""

    def __init__(self, pid: int, command: Sequence[str]) -> None:
        self.pid, self.args, self.returncode = pid, command, None  # type: ignore[assignment]  # as it has it
        self.stdin = self.stdout = self.stderr = None
        self._waitpid_lock = Lock()
        self._child_created = True


def _be_fork_server(line: socket.socket, known: frozenset[str]) -> int:
    from cellwright.rlimits import raise_file_limit

    for name in {*sys.modules} - known:
        del sys.modules[name]  # a host's modules are not a fork server's
    message, files, _, _ = socket.recv_fds(line, _MESSAGE_BYTES, 3)
    if not message:
        return 0
    os.close(line.detach())
    call, channel = json.loads(message), files.pop()
    command = call["command"]
    # Where it was there, it is here.
    wanted = int(command[command.index("--channel") + 1])
    files = [os.dup(file) if file == wanted else file for file in files]
    os.dup2(channel, wanted)
    _become(call, files, wanted)
    raise_file_limit()
    from cellwright_kernel import _forkserver as forkserver

    forkserver.warming = lambda **_: iter(())  # it is warm
    forkserver.main(sys.argv[1:])
    return 0


def _import_everything() -> frozenset[str]:
    """What they import; returns the modules that a fork server has."""
    from cellwright_kernel import _forkserver as forkserver

    gc.disable()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)  # where it warms up
        forkserver.preload([])
        list(forkserver.warming())
        os.chdir("/")
    known = frozenset(sys.modules)
    for module in ("anyio._backends._asyncio", "cellwright.hosts.__main__"):
        importlib.import_module(module)
    # Forks would look through all of it for garbage, and so copy it.
    gc.freeze()
    gc.enable()
    return known


if __name__ == "__main__":
    # The script's own directory, which would hide packages behind files of ours.
    del sys.path[0]
    serve(socket.socket(fileno=int(sys.argv[1])))
