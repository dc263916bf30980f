"""How long others are waited for, by the time in which they could be heard.

A machine that stands still for a minute, or a process that is stopped for one, finds every deadline over when it goes on,
and the answers unread. Time that nobody had is not counted here: a standstill costs one part of many, however long it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["Countdown", "patience"]

_PARTS = 20


class Countdown:
    """Calls something after so many seconds in which this process was at work, unless it is stopped before."""

    def __init__(self, seconds: float, over: Callable[[], None]) -> None:
        self._part_s = seconds / _PARTS
        self._over = over
        self._left = _PARTS
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._part_s, self._passed)

    def stop(self) -> None:
        self._handle.cancel()

    def _passed(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._handle = self._loop.call_later(self._part_s, self._passed)
        else:
            self._over()


@contextmanager
def patience(seconds: float, *, shield: bool = False) -> Iterator[anyio.CancelScope]:
    """Cancel what is inside when that time is over; the scope tells whether it was."""
    with anyio.CancelScope(shield=shield) as scope:
        countdown = Countdown(seconds, scope.cancel)
        try:
            yield scope
        finally:
            countdown.stop()
