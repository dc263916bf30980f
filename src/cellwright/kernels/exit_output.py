"""The end of what a process prints: read all the time, so that it never blocks, and kept only so far."""

from __future__ import annotations

import os
import re

import anyio

__all__ = ["ExitOutput"]

KEPT_BYTES = 8_000
READ_BYTES = 1 << 16


class ExitOutput:
    """Reads one pipe to its end and remembers the last few thousand bytes."""

    def __init__(self, *, noise: re.Pattern[str] | None = None, kept_bytes: int = KEPT_BYTES) -> None:
        """``noise`` is what the program always says and nobody wants to read."""
        self._kept = b""
        self._kept_bytes = kept_bytes
        self._noise = noise
        self._grown = anyio.Event()
        self._read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_fd, False)
        self._write_fd: int | None = write_fd

    @property
    def write_fd(self) -> int:
        """The end for the process, to be let go of with ``handed_over``."""
        if self._write_fd is None:
            raise ValueError("the pipe's end was handed over")
        return self._write_fd

    def handed_over(self) -> None:
        """The process has its end by now: close ours, so that its end is noticed."""
        if self._write_fd is not None:
            os.close(self._write_fd)
            self._write_fd = None

    async def run(self) -> None:
        """Read until every writer is gone; cancel it earlier where one outlives its use."""
        while True:
            await anyio.wait_readable(self._read_fd)
            if not self._take():
                return

    async def heard(self, words: re.Pattern[bytes]) -> bytes:
        """The first group of what the words match, once they were said; ``run`` must run."""
        while (found := words.search(self._kept)) is None:
            await self._grown.wait()
        return found[1]

    @property
    def text(self) -> str:
        """What is remembered, with anything that is in the pipe by now."""
        while self._take():
            pass
        text = self._kept.decode("utf-8", "replace")
        return (self._noise.sub("", text) if self._noise is not None else text).strip()

    def close(self) -> None:
        self.handed_over()
        if self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1

    def _take(self) -> bool:
        if self._read_fd < 0:
            return False
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return False
        self._kept = (self._kept + data)[-self._kept_bytes :]
        self._grown.set()
        self._grown = anyio.Event()
        return bool(data)
