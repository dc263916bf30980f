"""Carries bytes between ``srun``'s standard streams and the host's socket: ``python -I -S pipe.py SOCKET``.

Runs on the node, on the standard library alone; the other end is ``transport``. Its first byte says that the host was found.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

FOUND = b"+"
READ_BYTES = 1 << 18


def main(argv: list[str]) -> None:
    """Carry until either side is gone."""
    # Who ends the job signals this too; the host, which ends later, still has something to say.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as host:
        try:
            host.connect(argv[0])
        except OSError as error:
            sys.exit(f"the host's socket does not answer: {error.strerror}")
        write(1, FOUND)
        # A thread for each direction: what stands still in one must not hold up the other.
        threading.Thread(target=carry, args=(0, host.fileno()), daemon=True).start()
        carry(host.fileno(), 1)


def carry(source: int, target: int) -> None:
    """Carry from one descriptor to the other until either is closed, which is the end of all."""
    try:
        while data := os.read(source, READ_BYTES):
            write(target, data)
    except OSError:  # the other side went away
        pass
    finally:
        os._exit(0)


def write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    main(sys.argv[1:])
