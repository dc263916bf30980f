"""What is opened for a forked kernel before its process is there, and closed again if it never is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

from cellwright.kernels.allotments import Allotment
from cellwright.kernels.boxlines import BoxLine
from cellwright.kernels.freezing import KernelLine
from cellwright.kernels.lastwords import LastWords
from cellwright.sandbox.proxy import Door
from cellwright.sandbox.workspace import Shared

__all__ = ["Wiring"]


class Wiring:
    """The ends that stay here and the ends that go with the fork."""

    def __init__(
        self,
        allotment: Allotment,
        door: Door | None,
        *,
        plan: dict[str, Any] | None,
        saved: Path | None,
        given: Shared | None = None,
    ) -> None:
        """``plan`` is what a confined kernel is started with, ``saved`` where its files lie, if that is known yet.

        ``given`` is another kernel's place that it is to have.
        """
        self._given = given
        self.allotment = allotment
        self.door = door
        self.last_words = LastWords()
        self.kernel_line = KernelLine()
        self.line = BoxLine(saved)
        self._plan = plan
        self._ready_read, self._ready_write = os.pipe2(os.O_CLOEXEC)

    def fds(self, lifeline_fd: int) -> list[int]:
        """What goes with the fork, in the order that ``cellwright_kernel.forkserver`` expects."""
        own = [self.last_words.write_fd, self._ready_write, lifeline_fd, self.line.fd, self.kernel_line.fd]
        given = [self._given.mount_fd] if self._given is not None else []
        return [*own, *given, *self.allotment.fds]

    def handed_over(self) -> None:
        """Let go of the ends that went with the fork."""
        os.close(self._ready_write)
        self.allotment.handed_over()
        self.last_words.handed_over()
        self.line.handed_over()
        self.kernel_line.handed_over()

    async def drop(self) -> None:
        """Close everything else too, where no process came to be; after ``handed_over``."""
        os.close(self._ready_read)
        self.last_words.close()
        self.line.abandon()
        self.kernel_line.close()
        if self.door is not None:
            await self.door.close()
        await self.allotment.remove()

    async def ready(self) -> None:
        """Wait until the kernel listens, and show it its files where it is started with them."""
        try:
            if self._plan is not None:
                await self.line.furnish(self._plan)
            await self.kernel_line.meet()
            await anyio.wait_readable(self._ready_read)
            if not os.read(self._ready_read, 1):
                # Its end is noticed and explained by whoever watches the process.
                await anyio.sleep_forever()
        finally:
            os.close(self._ready_read)
