"""The timers of one kernel's queue: each tells the queue that it ran out, unless its execution ended before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cellwright.hosts import jobs

__all__ = ["Timers"]


class Timers:
    """Those that are running."""

    def __init__(self, happened: Callable[[jobs.Happening], None]) -> None:
        self._happened = happened
        self._running: dict[tuple[jobs.Timer, str], asyncio.TimerHandle] = {}

    def start(self, timer: jobs.Timer, execution_id: str, seconds: float) -> None:
        expired = jobs.Expired(timer, execution_id)
        self._running[timer, execution_id] = asyncio.get_running_loop().call_later(
            seconds, self._happened, expired
        )

    def ended(self, execution_id: str) -> None:
        """Stop those of an execution."""
        for key in [key for key in self._running if key[1] == execution_id]:
            self._running.pop(key).cancel()

    def stop(self) -> None:
        """Stop all."""
        for handle in self._running.values():
            handle.cancel()
