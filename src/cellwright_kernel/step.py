"""Becomes another program inside a job step: ``step.py SOCKET NUMBER``.

A workload manager starts this where the program is to count and be limited. It tells the host its number, is handed the
program and its descriptors, puts those where the program expects them, and becomes it. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys

HEADER = struct.Struct("!II")
MOST_FDS = 64


def main(argv: list[str]) -> None:
    """Fetch the program and become it; end where it is not wanted any more."""
    received = None
    # A host that is gone, or has no use for it any more, is no reason for an error.
    with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(ConnectionError):
        line.connect(argv[0])
        line.sendall(struct.pack("!I", int(argv[1])))
        received = _receive(line)
    if received is None:
        return
    request, fds = received
    put(fds, request["numbers"])
    os.chdir(request["cwd"])
    # The step's manager made it the leader of a group, and a leader can begin no session of its own, now or later.
    with contextlib.suppress(OSError):
        os.setpgid(0, os.getpgid(os.getppid()))
    if request["own_session"]:
        os.setsid()
    # Who ends the job signals everything in it: what is ended when, and heard before, is the host's to say.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    command, environment = request["command"], request["environment"]
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def put(fds: list[int], numbers: list[int]) -> None:
    """Give descriptors the numbers under which they are expected, whatever has those now."""
    # The host may have more open than a process mostly may.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    above = max(numbers, default=0) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)


def _receive(line: socket.socket) -> tuple[dict, list[int]] | None:  # type: ignore[type-arg]  # JSON
    header, fds, _, _ = socket.recv_fds(line, HEADER.size, MOST_FDS, socket.MSG_WAITALL)
    if len(header) < HEADER.size:
        return None
    size, count = HEADER.unpack(header)
    data = line.recv(size, socket.MSG_WAITALL)
    if len(data) < size or len(fds) != count:
        return None
    return json.loads(data), fds


if __name__ == "__main__":
    main(sys.argv[1:])
