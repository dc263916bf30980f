"""Waits for what nobody tells: a file, another process, what somebody else's object has become. Else wait for an event."""

from __future__ import annotations

from collections.abc import Callable

import anyio

# A processor that only looks is missing where the awaited thing is done.
PACE_S = 0.02


async def look_again() -> None:
    """Let others work before the next look."""
    await anyio.sleep(PACE_S)


async def until(holds: Callable[[], bool], *, limit_s: float = 60) -> None:
    """Return as soon as something holds.

    Raises:
        TimeoutError: it does not, for so long.
    """
    with anyio.fail_after(limit_s):
        while not holds():
            await look_again()
