"""Has a server's IPython kernels be forks of a process that has imported them, which takes each most of a second.

That process is a fork of the server before it has imported anything, is waited for by nobody, and ends with it, as its
kernels do. A kernel is what it would be, with the same arguments, environment, directory and streams, and is a session
and a group of its own. Servers tell nobody how one ended, only that it did: the code is always 1.
"""

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any, NoReturn

LAUNCHER = "ipykernel_launcher"
MESSAGE_BYTES = 2**20


class ForkedKernel:
    """What servers use of the ``Popen`` of a kernel."""

    stdout = stderr = None

    def __init__(
        self, line: socket.socket, command: list[str], environment: dict[str, str], cwd: Any
    ) -> None:
        self._told, tells = os.pipe()
        call = {"command": command, "environment": environment, "cwd": str(cwd or ".")}
        socket.send_fds(line, [json.dumps(call).encode()], [tells])
        os.close(tells)
        self.pid = int(os.read(self._told, 32))
        self.stdin = io.BytesIO()  # who starts it closes this
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            os.read(self._told, 1)  # the end
            os.close(self._told)
            self.returncode = 1
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def begin() -> None:
    """Have all IPython kernels that this process starts be forks. To be called before anything is imported."""
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        line.close()
        serve(theirs)
    theirs.close()
    from jupyter_client import launcher  # what must not be there in the fork

    def popen(command: list[str], **options: Any) -> Any:
        if command[0] != sys.executable or LAUNCHER not in command:
            return subprocess.Popen(command, **options)
        return ForkedKernel(line, command, options["env"], options["cwd"])

    launcher.Popen = popen  # type: ignore[assignment,misc]  # for what it uses of it


def serve(line: socket.socket) -> NoReturn:
    """Fork a kernel for each call, until the line ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the ended are buried at once
    while True:
        message, [*files], _, _ = socket.recv_fds(line, MESSAGE_BYTES, 1)
        if not message:
            os._exit(0)
        from ipykernel import kernelapp

        if os.fork() == 0:
            line.close()
            become(json.loads(message), *files)
            kernelapp.launch_new_instance()
            sys.stdout.flush()
            os._exit(0)
        for file in files:
            os.close(file)


def become(call: Any, tells: int) -> None:
    """Take on what a kernel is started with. ``tells`` stays open as long as it lives."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.environ.clear()
    # A kernel looks whether its parent is still there.
    os.environ.update(call["environment"], JPY_PARENT_PID=str(os.getppid()))
    os.chdir(call["cwd"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    command = call["command"]
    sys.argv = command[command.index(LAUNCHER) :]
    os.write(tells, str(os.getpid()).encode())
