"""Hosts, and the first fork server of each, as forks of one process that has imported what they need.

To import takes a host a third of a second, a fork server as long, and its warming as long again; most tests are about
neither. What runs is what would run, with the same arguments, environment, directory and streams. How the programs
themselves start is tested by ``kernel/sandbox``, ``kernel/kernels``, ``kernel/hosts``, ``system/clients`` and daemons that
a test has started by ``Place.start`` or ``Place.pump``.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO, Any

from tests.support import zygote

# What a process shows as its command lies where the command of the first one lay: this much room.
_ROOM = "-" * 1_000
_ROOT = Path(__file__).parents[3]


class ForkedHosts:
    """Stands where ``hosts.local`` has ``subprocess``, for the one program that it starts."""

    DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE

    def __init__(self, line: Callable[[], socket.socket]) -> None:
        self.line = line

    def Popen(  # noqa: N802  # the other's name
        self, command: Sequence[str], *, stderr: IO[bytes], env: dict[str, str], **_: Any
    ) -> ForkedHost:
        assert command[1:3] == ["-m", "cellwright.hosts"], command
        call = {"command": command, "environment": env, "cwd": "/"}
        out, stdout = os.pipe()
        told = zygote.ask(self.line(), call, [stdout, stderr.fileno()])
        os.close(stdout)
        return ForkedHost(os.fdopen(out, "rb"), told)


@functools.cache
def line() -> socket.socket:
    """To the process that forks hosts for this one and for what it starts; it is begun with the first."""
    return zygote.begin(lambda number: [sys.executable, "-m", __name__, str(number), _ROOM], cwd=_ROOT)


class ForkedHost:
    """What ``hosts.local`` uses of a ``Popen``."""

    def __init__(self, stdout: IO[bytes], told: IO[bytes]) -> None:
        self.pid = int(told.readline())
        self.stdout = stdout
        self._told = told

    def wait(self) -> int:
        with self._told as told:
            return int(told.read() or 0)


def _be_host(call: dict[str, Any], files: list[int], known: frozenset[str]) -> int:
    from cellwright.hosts.__main__ import main
    from cellwright.kernels import processes, programs

    os.setsid()
    _become(call, files)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if (pid := os.fork()) == 0:
        ours.close()
        zygote.run(_be_fork_server, theirs, known)
    theirs.close()
    processes._wanted.add(pid)  # until it is a fork server, which the host knows
    programs.subprocess = _Seeded(pid, ours)  # type: ignore[assignment]  # for what it uses of it
    sys.argv = sys.argv[1:]
    return main()


def _become(call: Mapping[str, Any], files: Sequence[int], *kept: int) -> None:
    """Be started with this, and show it as the command."""
    zygote.become(call, dict(enumerate(files, 1)), *kept)
    shown = b"\0".join(part.encode() for part in call["command"]) + b"\0"
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    assert len(shown) <= end - begin
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


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
            zygote.ask(line, call, [options["stdout"], options["stderr"], channel]).close()
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
    heard = zygote.hear(line)
    if heard is None:
        return 0
    os.close(line.detach())
    call, (tells, *files, channel) = heard
    os.close(tells)  # its parent, the host, knows by itself
    command = call["command"]
    # Where it was there, it is here.
    wanted = int(command[command.index("--channel") + 1])
    files = [os.dup(file) if file == wanted else file for file in files]
    os.dup2(channel, wanted)
    os.setsid()
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
    known = frozenset(name for name in sys.modules if name.split(".")[0] != "tests")
    for module in ("anyio._backends._asyncio", "cellwright.hosts.__main__"):
        importlib.import_module(module)
    # Forks would look through all of it for garbage, and so copy it.
    gc.freeze()
    gc.enable()
    return known


if __name__ == "__main__":
    # The directory that this was found in, which would hide packages behind files of ours.
    del sys.path[0]
    zygote.serve(socket.socket(fileno=int(sys.argv[1])), _import_everything, _be_host)
