"""Ends a command when nobody reads its output any more, also while it has nothing to write.

``cellwright ask … | head -1`` would otherwise work on unseen until its time limit. Standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
import time

__all__ = ["end_with_reader"]

# A command that is done anyway ends by itself, and need not be interrupted.
_GRACE_S = 0.25


def end_with_reader() -> None:
    """Interrupt this process, as Ctrl-C would, once the pipe or socket that is its stdout has no reader."""
    try:
        kind = os.fstat(1).st_mode
    except OSError:  # it has none
        return
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        threading.Thread(target=_watch, name="closed_pipe", daemon=True).start()


def _watch() -> None:
    poll = select.poll()
    poll.register(1, 0)  # an end and an error are told without being asked for
    poll.poll()
    time.sleep(_GRACE_S)
    if not sys.is_finalizing():
        os.kill(os.getpid(), signal.SIGINT)
