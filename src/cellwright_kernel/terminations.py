"""What SIGTERM does to a kernel: mostly its end, but in a job step that is the host's to see to.

Who ends a job signals everything in it at once, and kills it later. In between the host has every kernel's work stop and
hears what it has put out to the end, for which the kernel must be there. ``step`` has the signal ignored.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

__all__ = ["termination"]


class _Outlasting:
    """Passes it over in the process it was made for; a fork of that, which may be a child of code's own, obeys."""

    forks_obey = False
    """Whether forks of this process are seen to already, also by the process that this is a fork of."""

    def __init__(self) -> None:
        if _Outlasting.forks_obey:
            return
        _Outlasting.forks_obey = True
        # A signal that comes in the middle of a fork would be lost to the child: it waits until the child obeys.
        os.register_at_fork(before=_hold, after_in_parent=_let_through, after_in_child=_obey)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        pass


def _hold() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _obey() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_through()


def termination() -> Callable[[int, FrameType | None], None] | signal.Handlers:
    """What a kernel's process is to do at SIGTERM; a program that it starts ends as everywhere."""
    found = signal.getsignal(signal.SIGTERM)
    in_step = found is signal.SIG_IGN or isinstance(found, _Outlasting)
    return _Outlasting() if in_step else signal.SIG_DFL
