"""Waiting for the daemon from the command line: in turns, with one line on the terminal that says how it goes."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Self

__all__ = ["TURN_MS", "ProgressLine"]

# A call to the daemon comes back after this long at the latest, so that an interrupt is noticed between calls too.
TURN_MS = 50_000
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """One line on a terminal that says how long it has been and what was said last; gone when it is over."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty()
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    async def tell(
        self, progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        width = shutil.get_terminal_size().columns - 1
        line = f"… {time.monotonic() - self._begun:.0f} s  {message or ''}"
        sys.stderr.write(_CLEAR + "".join(char for char in line if char.isprintable())[:width])
        sys.stderr.flush()
