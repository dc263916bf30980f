"""The daemon as a process: ``python -m cellwright.daemon STORAGE DIRECTORY``. Started by ``connect``.

It listens before it imports anything heavy: what clients send meanwhile waits, and their first question is answered
from what is known in advance (``early_responder``).
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import socket
import sys
import time

import cellwright
from cellwright.daemon._early_responder import EarlyResponder
from cellwright.daemon._refusals import refuse_arrivals
from cellwright.daemon.paths import DaemonPaths
from cellwright.rlimits import limit_own_memory, raise_file_limit
from cellwright.settings.paths import make_private

_WAITING_CONNECTIONS = 128
# Counted in looks, and not by the clock: while the whole machine stands still nobody is late.
_LOCK_LOOKS = 3_000
_LOCK_LOOK_S = 0.02
# Importing leaves the early_responder little time: the client that this daemon was started for is served before.
_FIRST_GREETING_S = 0.1


def main() -> int:
    paths, directory = DaemonPaths(sys.argv[1]), sys.argv[2]
    lock = _take_lock(paths)
    if lock is None:
        sys.stderr.write(f"another daemon owns {paths.storage} and does not end\n")
        return 1
    listener = _listen(paths)
    about = {
        "pid": os.getpid(),
        "version": cellwright.__version__,
        "prefix": sys.prefix,
        "started_at": time.time(),
        "socket": paths.socket,
    }
    _write(paths.about, json.dumps(about))
    early_responder = EarlyResponder(listener, about, directory)
    early_responder.start()
    _say_ready()
    early_responder.wait_for_first(_FIRST_GREETING_S)
    raise_file_limit()
    limit_own_memory()
    # Thousands of classes are about to be made, and none of them is garbage.
    gc.disable()
    # Nor is it worth a look when the process ends, and all of it with it.
    atexit.register(gc.freeze)
    try:
        from cellwright.daemon._service import run_daemon  # the heavy part, after listening

        failure = run_daemon(paths, directory, listener, early_responder)
    finally:
        for left in (paths.socket, paths.about):
            if os.path.exists(left):
                os.unlink(left)
    if failure is None:
        return 0
    # Whoever comes from now on starts another, with settings that may have been corrected.
    os.close(lock)
    refuse_arrivals(listener, early_responder.finish(), failure)
    return 1


def _take_lock(paths: DaemonPaths) -> int | None:
    """Own the storage directory for as long as the lock is open; a daemon that is just ending is waited for."""
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(_LOCK_LOOKS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_LOOK_S)
        else:
            return lock
    return None


def _listen(paths: DaemonPaths) -> socket.socket:
    make_private(paths.runtime)
    if os.path.lexists(
        paths.socket
    ):  # left over from one that was killed: we hold the lock, so nobody listens on it
        os.unlink(paths.socket)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(paths.socket)
    finally:
        os.umask(before)
    listener.listen(_WAITING_CONNECTIONS)
    return listener


def _write(path: str, text: str) -> None:
    """Write a small file that a reader sees whole or not at all."""
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def _say_ready() -> None:
    os.write(1, b"listening\n")
    # Nobody reads after that line; a print in some library must not end the daemon with a broken pipe.
    os.dup2(2, 1)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
