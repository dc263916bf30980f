"""``cellwright mcp``: carries bytes between a client's pipes and the daemon, and understands none of them.

Standard library only: a client gives up on a server that is slow to answer, and importing the SDK takes longer than
some clients wait. Two threads, one a direction, so that a client that does not read cannot stop what it writes.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

from cellwright.daemon._refusals import refuse_requests
from cellwright.daemon.connect import connect_or_start
from cellwright.daemon.handshake import encode_handshake
from cellwright.daemon.paths import DaemonPaths
from cellwright.errors import CellwrightError
from cellwright.settings.modelkeys import model_environment
from cellwright.settings.paths import find_storage

__all__ = ["pump"]

_CHUNK = 256 * 1024
_OK, _FAILED, _INTERRUPTED = 0, 3, 130


def pump(*, dialect: str | None, toolset: str | None) -> int:
    """Serve the client on stdin and stdout until either side is done; the exit code."""
    directory = os.getcwd()
    try:
        paths = DaemonPaths(find_storage(directory))
        connection = connect_or_start(paths, directory, say=_say)
    except CellwrightError as error:
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        refuse_requests(lambda: os.read(0, _CHUNK), lambda reply: _write_all(1, reply), error)
        return _FAILED
    handshake = encode_handshake(
        "mcp", dialect=dialect, toolset=toolset, directory=directory, environment=model_environment()
    )
    try:
        return _carry(connection, handshake)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _carry(connection: socket.socket, handshake: bytes) -> int:
    finished = threading.Event()
    threading.Thread(target=_upstream, args=(connection, handshake, finished), daemon=True).start()
    while True:
        try:
            chunk = connection.recv(_CHUNK)
        except ConnectionError:
            chunk = b""
        if not chunk:
            break
        try:
            _write_all(1, chunk)
        except BrokenPipeError:  # the client is gone; what it asked for goes on in the daemon
            return _OK
    if finished.is_set():
        return _OK
    _say("error: The daemon ended, or closed the connection, before this client was done")
    _say(
        "hint: See `cellwright daemon logs`; starting `cellwright mcp` again starts a new daemon with every session"
    )
    return _FAILED


def _upstream(connection: socket.socket, handshake: bytes, finished: threading.Event) -> None:
    try:
        connection.sendall(handshake)
        while chunk := os.read(0, _CHUNK):
            connection.sendall(chunk)
    except OSError:  # the daemon is gone: the other direction finds out and says so
        return
    finished.set()
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
