"""Lets go of kernels that nobody has used for long; their sessions keep everything else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import anyio

from cellwright.engine.sessions import Session

__all__ = ["suspend_the_idle"]

_CHECKS_PER_PERIOD = 4
_LONGEST_CHECK_S = 60.0


async def suspend_the_idle(active: Callable[[], Sequence[Session]], limit_s: float) -> None:
    """Look again and again, and suspend whoever has been idle for longer than the limit."""
    while True:
        await anyio.sleep(min(limit_s / _CHECKS_PER_PERIOD, _LONGEST_CHECK_S))
        for session in active():
            if not session.runs.live and time.monotonic() - session.last_active > limit_s:
                await session.suspend(reason=f"Idle for more than {limit_s:g} s (session_idle_s)")
