"""Runs the command line, and daemons that it starts, as processes of their own without importing them anew each time.

One process has imported what they need, and nothing has run in it; each call is a fork of it, with the caller's
arguments, environment, directory and streams, and so is a daemon; their hosts are forks of another. So a test sees what it would see of fresh processes,
at a tenth of the processor time. Tests of how the programs themselves start use ``Place.start`` instead.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, NoReturn

from cellwright.hosts import local
from tests.support import zygote
from tests.support.hosts import forking as hosts

_ROOT = Path(__file__).parents[3]


@functools.cache
def line() -> socket.socket:
    """To the process that forks commands; it is begun with the first."""
    forks_hosts = hosts.line().fileno()
    return zygote.begin(
        lambda number: [sys.executable, "-m", __name__, str(number), str(forks_hosts)],
        forks_hosts,
        cwd=_ROOT,
    )


def run_forked(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit_s: float, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Do what ``subprocess.run`` does with the command line."""
    call = {"command": [sys.executable, "-c", *arguments], "cwd": str(cwd), "environment": dict(env)}
    (stdin, ours), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    with zygote.ask(line(), call, [stdin, stdout, stderr]) as told:
        for theirs in (stdin, stdout, stderr):
            os.close(theirs)
        pid = int(told.readline())
        giving = Thread(target=_give, args=[ours, given.encode()], daemon=True)
        hearings = [_Hearing(out), _Hearing(err)]
        for thread in (giving, *hearings):
            thread.start()
        in_time, _, _ = select.select([told], [], [], limit_s)
        if not in_time:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), limit_s)
        status = int(told.read())
    for thread in (giving, *hearings):
        # As with any process, its output ends when nobody holds it any more, its own children included.
        thread.join(limit_s)
        if thread.is_alive():
            raise subprocess.TimeoutExpired(list(arguments), limit_s)
    return subprocess.CompletedProcess(arguments, status, *(hearing.text for hearing in hearings))


class _Hearing(Thread):
    """Reads one stream to its end."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._stream: BinaryIO = os.fdopen(descriptor, "rb")
        self.text = ""

    def run(self) -> None:
        with self._stream:
            self.text = self._stream.read().decode()


def _give(descriptor: int, data: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except BrokenPipeError:
        return


def _be_command(call: dict[str, Any], files: list[int], _: None) -> NoReturn:
    zygote.become(call, dict(enumerate(files)), vars(local)["subprocess"].line().fileno())
    from cellwright.cli import main

    _end_with(main)


def fork_a_daemon(_: str, command: Sequence[str], env: Mapping[str, str], **options: Any) -> int:
    """Do for ``python -m cellwright.daemon`` what ``os.posix_spawn`` does, all but the executing."""
    assert env is os.environ
    assert command[1:3] == ["-m", "cellwright.daemon"], command
    if pid := os.fork():
        return pid
    try:
        os.setsid()
        for action, descriptor, *more in options["file_actions"]:
            if action == os.POSIX_SPAWN_OPEN:
                path, flags, mode = more
                opened = os.open(path, flags, mode)
                os.dup2(opened, descriptor)
                os.close(opened)
            else:
                os.dup2(descriptor, more[0])
        kept = vars(local)["subprocess"].line().fileno()
        os.closerange(3, kept)
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        signal.pthread_sigmask(signal.SIG_SETMASK, options["setsigmask"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.argv = list(command[2:])
        from cellwright.daemon.__main__ import main

        _end_with(main)
    except BaseException:  # noqa: BLE001  # as a program that ends by an exception
        traceback.print_exc()
    os._exit(1)


def _end_with(main: Callable[[], int | None]) -> NoReturn:
    """Run a program to its end, and leave its memory to the system.

    An interpreter that ends takes every module apart, which costs a fork more than most commands do.
    """
    try:
        code = main() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # as a program that ends by an exception
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as an interpreter does
    atexit._run_exitfuncs()
    # A stream that nobody reads any more is no error of the program.
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(code)


def _import_everything() -> None:
    """What they import when they need it, as far as it starts no thread: that would not be there in a fork."""
    gc.disable()
    import anyio._backends._asyncio  # noqa: F401
    import mcp  # noqa: F401
    import pydantic  # noqa: F401  # what the daemon reads arguments with

    import cellwright.daemon.__main__
    import cellwright.daemon._service
    import cellwright.mcp.server
    import cellwright.plans.plan_files  # noqa: F401
    from cellwright.cli._catalogue import COMMANDS
    from cellwright.cli._commands import function_named

    for command in COMMANDS:
        function_named(command)
    # Forks would look through all of it for garbage, and so copy it.
    gc.freeze()
    gc.enable()
    os.posix_spawn = fork_a_daemon  # type: ignore[assignment]


if __name__ == "__main__":
    # The directory that this was found in, which would hide packages behind files of ours.
    del sys.path[0]
    forks_hosts = socket.socket(fileno=int(sys.argv[2]))
    forks_hosts.set_inheritable(False)
    local.subprocess = hosts.ForkedHosts(lambda: forks_hosts)  # type: ignore[assignment]  # for what it uses of it
    zygote.serve(socket.socket(fileno=int(sys.argv[1])), _import_everything, _be_command)
