"""How long others are waited for, by the time in which they could be heard.

A machine that stands still for a minute, or a process that is stopped for one, finds every deadline over when it goes on,
and the answers unread. Time that nobody had is not counted here: a standstill costs one part of many, however long it is.
Knows nothing of what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["Countdown", "fail_after", "move_on_after"]

_PARTS = 20


class Countdown:
    """Calls something once, after so many seconds in which this process was at work. Begins at once."""

    def __init__(self, seconds: float, over: Callable[[], None]) -> None:
        self._part_s = seconds / _PARTS
        self._over = over
        self._left = _PARTS
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._part_s, self._passed)

    def cancel(self) -> None:
        """Call nobody."""
        self._handle.cancel()

    def _passed(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._handle = self._loop.call_later(self._part_s, self._passed)
        else:
            self._over()


@contextmanager
def move_on_after(seconds: float, *, shield: bool = False) -> Iterator[anyio.CancelScope]:
    """As anyio's, by the time of a ``Countdown``."""
    with anyio.CancelScope(shield=shield) as scope:
        countdown = Countdown(seconds, scope.cancel)
        try:
            yield scope
        finally:
            countdown.cancel()


@contextmanager
def fail_after(seconds: float) -> Iterator[None]:
    """As anyio's, by the time of a ``Countdown``.

    Raises:
        TimeoutError: it took longer.
    """
    with move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise TimeoutError
