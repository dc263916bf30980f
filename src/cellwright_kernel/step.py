"""Becomes another program inside a job step: ``step.py SOCKET NUMBER``.

A workload manager starts this where the program is to count and be limited. It tells the host its number, is handed the
program and its descriptors, puts those where the program expects them, and becomes it. What the manager set for the task
stays: the program has it, and so has every kernel that comes of it (``task_variables``). Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
from collections.abc import Mapping

HEADER = struct.Struct("!II")
MOST_FDS = 64

NOTED = "CELLWRIGHT_TASK_VARIABLES"
"""Where a program in a step finds the names of the variables that the manager set for it."""

# Of SLURM all that it says of the job, the step and the task; of devices those that it chose.
_TASK = re.compile(
    r"SLURMD?_\w+|(CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK|CUDA_MPS_\w+|PMIX?_\w+"
)
# A token that opens the cluster is no variable of a task.
_SECRET = re.compile(r"JWT|TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)


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
    task = {
        name: os.environ[name] for name in os.environ if _TASK.fullmatch(name) and not _SECRET.search(name)
    }
    command, environment = request["command"], {**request["environment"], **task, NOTED: " ".join(task)}
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def task_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of a program's environment that a workload manager set for its step; empty where it is in none."""
    names = environment.get(NOTED, "").split()
    return {name: environment[name] for name in names if name in environment}


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
