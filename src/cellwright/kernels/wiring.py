"""What is opened for a forked kernel before its process is there, and closed again if it never is."""

from __future__ import annotations

import os
from functools import partial

import anyio

from cellwright.kernels.allotments import Allotment
from cellwright.kernels.boxes import BoxLine
from cellwright.kernels.lastwords import LastWords
from cellwright.sandbox.doors import Door

__all__ = ["Wiring"]


class Wiring:
    """The ends that stay here and the ends that go with the fork."""

    def __init__(self, allotment: Allotment, door: Door | None, *, confined: bool) -> None:
        self.allotment = allotment
        self.door = door
        self.last_words = LastWords()
        self.line = BoxLine() if confined else None
        self._ready_read, self._ready_write = os.pipe2(os.O_CLOEXEC)
        self.ready = partial(_ready_byte, self._ready_read)
        """Returns when the kernel listens."""

    def fds(self, lifeline_fd: int) -> list[int]:
        """What goes with the fork, in the order that ``cellwright_kernel.forkserver`` expects."""
        line = [self.line.fd] if self.line is not None else []
        return [self.last_words.write_fd, self._ready_write, lifeline_fd, *line, *self.allotment.fds]

    def handed_over(self) -> None:
        """Let go of the ends that went with the fork."""
        os.close(self._ready_write)
        self.allotment.handed_over()
        self.last_words.handed_over()
        if self.line is not None:
            self.line.handed_over()

    async def drop(self) -> None:
        """Close everything else too, where no process came to be; after ``handed_over``."""
        os.close(self._ready_read)
        self.last_words.close()
        if self.line is not None:
            self.line.close()
        if self.door is not None:
            await self.door.close()
        await self.allotment.remove()


async def _ready_byte(fd: int) -> None:
    try:
        await anyio.wait_readable(fd)
        if not os.read(fd, 1):
            # Its end is noticed and explained by whoever watches the process.
            await anyio.sleep_forever()
    finally:
        os.close(fd)
