"""A process in a box that forks itself into boxes below: ``nested.py CONTROL_FD LIFELINE_FD LINE_FD``, its plan on stdin.

Confined by the real lockdown. Over its line it runs code for the tests, and with ``spawn`` makes a process that does the
same over a line of its own, in the box whose namespaces come along, or else in its own.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "src"))

from cellwright_kernel import _lockdown, _namespaces, _nested_sandboxes

PACKET_BYTES = 1 << 16


def main() -> None:
    control_fd, lifeline_fd, line_fd = map(int, sys.argv[1:])
    request = json.load(sys.stdin)
    lines = _lockdown.Lifelines(control_fd, lifeline_fd)
    _lockdown.confine(request["plan"], lines, [2, line_fd], request["directory"])
    serve(socket.socket(fileno=line_fd))


def serve(line: socket.socket) -> None:
    scope: dict[str, Any] = {}
    while True:
        data, fds, _, _ = socket.recv_fds(line, PACKET_BYTES, 16)
        if not data:
            os._exit(0)
        request = json.loads(data)
        if "spawn" in request:
            spawn(line, socket.socket(fileno=fds[0]), fds[1:], keeps_powers=request["spawn"] == "powerful")
            continue
        try:
            scope["result"] = None
            exec(request["run"], scope)  # noqa: S102  # what this is for
            answer = {"result": scope["result"]}
        except BaseException:  # noqa: BLE001  # boundary: the test is told
            answer = {"error": traceback.format_exc()}
        line.send(json.dumps(answer).encode())


def spawn(line: socket.socket, own: socket.socket, descriptors: list[int], *, keeps_powers: bool) -> None:
    """Fork twice: the grandchild serves, and is the reaper's. One that keeps its powers does not let go of any."""
    middle = os.fork()
    if middle:
        own.close()
        for fd in descriptors:
            os.close(fd)
        status = os.waitstatus_to_exitcode(os.waitpid(middle, 0)[1])
        line.send(json.dumps({"result": status}).encode())
        return
    try:
        if keeps_powers:
            _namespaces.drop_powers = lambda *_: None
        if descriptors:
            _nested_sandboxes.join(line, descriptors)
        if os.fork():
            os._exit(0)
    except BaseException:  # noqa: BLE001  # boundary: this child ends here
        traceback.print_exc()
        os._exit(1)
    line.close()
    serve(own)


if __name__ == "__main__":
    main()
