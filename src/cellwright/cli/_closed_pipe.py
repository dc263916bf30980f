"""Ends a command when nobody reads its output any more, also while it has nothing to write.

``cellwright ask … | head -1`` would otherwise work on unseen until its time limit. Standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ended_by_reader"]

# A command that is done anyway ends by itself, and need not be interrupted.
_GRACE_S = 0.25


@contextmanager
def ended_by_reader() -> Iterator[None]:
    """Interrupt what is done in here, as Ctrl-C would, once the pipe or socket that is stdout has no reader."""
    over = threading.Event()
    if _is_read():
        threading.Thread(target=_watch, args=[over], name="closed_pipe", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _is_read() -> bool:
    try:
        kind = os.fstat(1).st_mode
    except OSError:  # there is no stdout
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _watch(over: threading.Event) -> None:
    poll = select.poll()
    poll.register(1, 0)  # an end and an error are told without being asked for
    poll.poll()
    if not over.wait(_GRACE_S):
        os.kill(os.getpid(), signal.SIGINT)
