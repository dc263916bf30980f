"""Memory that a deleted session has left: given back to the system, which the C library would not do by itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

__all__ = ["MemoryReturn"]

# Several sessions often go together, and what held one is let go a moment later.
_WAIT_S = 2.0


class MemoryReturn:
    """Gives memory back a little after something large went, once for all that went meanwhile."""

    def __init__(self, in_background: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]) -> None:
        self._in_background = in_background
        self._is_due = False

    def something_went(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._in_background(self._give_back)

    async def _give_back(self) -> None:
        await anyio.sleep(_WAIT_S)
        self._is_due = False
        await anyio.to_thread.run_sync(_trim)


def _trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # a GNU library's; others do it by themselves, or never
        trim(0)
