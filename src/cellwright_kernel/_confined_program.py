"""Becomes another program, confined: ``__main__.py --confine CONTROL_FD``, with the program and the plan on stdin.

It may be started long before it is told: everything that it needs is loaded by then. The second way into the lockdown, for kernels that are started from cold (see ``spawn`` for those that are not
confined). The program dies with the host: the monitor watches it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from cellwright_kernel import _lockdown

__all__ = ["main"]


def main(argv: list[str]) -> None:
    """Confine this process as told on standard input, then run the program."""
    said = sys.stdin.read()
    if not said:  # whoever started it had no use for it after all
        return
    request = json.loads(said)
    program = request["program"]
    if request["caches"]:  # few programs have any, and later there is nothing to import from
        from cellwright_kernel._librarycaches import link_caches
    _lockdown.join_cgroup(request["group_fd"], request["processors"])
    lines = _lockdown.Lifelines(control_fd=int(argv[0]), lifeline_fd=_lifeline(request))
    _lockdown.confine(request["plan"], lines, [2, *request["streams"]], request["directory"])
    os.setsid()
    # In a job step it was ignored so far.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _take_streams(request["streams"])
    for source, target in request["copies"]:
        _copy_files(source, target)
    for target, link in request["links"]:
        os.makedirs(os.path.dirname(link), exist_ok=True)  # quick
        os.symlink(target, link)
    if request["caches"]:
        link_caches(request["caches"])
    os.chdir(request["cwd"])
    if request["tcp_only"]:
        from cellwright_kernel import _ferry as ferry  # a third of all imports here, and few need it

        ferry.run(request["connection_file"], program)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")


def _lifeline(request: dict[str, Any]) -> int:
    """What is readable once the host has ended: a pipe of its own where it is not our parent, like a forked kernel's."""
    if "lifeline_fd" in request:
        return int(request["lifeline_fd"])
    host = os.getppid()
    lifeline = os.pidfd_open(host)
    if os.getppid() != host or host != request["host"]:
        sys.exit("the process that starts this kernel has ended")
    return lifeline


def _take_streams(streams: list[int]) -> None:
    """Read nothing, or what comes over the first of these; and write to the second, if there is one."""
    for standard, fd in enumerate(streams or [os.open(os.devnull, os.O_RDONLY)]):
        os.dup2(fd, standard)
        os.close(fd)


def _copy_files(source: str, target: str) -> None:
    """Copy the plain files of a directory into a new one."""
    os.makedirs(target, exist_ok=True)  # here and below: strings throughout, and quick
    for name in os.listdir(source):
        with open(f"{source}/{name}", "rb") as read, open(f"{target}/{name}", "wb") as written:
            written.write(read.read())
