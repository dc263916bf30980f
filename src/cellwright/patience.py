"""Time that counts only while this process runs: a machine that stands still uses up nobody's patience.

Whoever waits for another process gives it time to answer. Where the machine stood still meanwhile, neither of them
had that time, and the answer may lie there unread: it is looked for again before anybody gives up. Knows nothing of
what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["Countdown", "fail_after", "move_on_after"]

# Looked at so often: one look that comes later than this by a second was one at a standstill.
_LOOK_S = 1.0
_LATE_S = 1.0
# A process that is late each time is slow, and waits for nothing for ever.
_MOST_STANDSTILLS = 10


class Countdown:
    """Calls back once, after so many seconds in which this process did not stand still. Begins at once."""

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._left_s = seconds
        self._then = then
        self._standstills = 0
        self._wait()

    def cancel(self) -> None:
        """Call nobody."""
        self._handle.cancel()

    def _wait(self) -> None:
        self._began = self._loop.time()
        self._pause_s = min(self._left_s, _LOOK_S)
        self._handle = self._loop.call_later(self._pause_s, self._look)

    def _look(self) -> None:
        passed_s = self._loop.time() - self._began
        if passed_s > self._pause_s + _LATE_S and self._standstills < _MOST_STANDSTILLS:
            self._standstills += 1
        else:
            self._left_s -= passed_s
        if self._left_s > 0:
            self._wait()
        else:
            self._then()


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
