"""What a kernel lives in: its box with the line to it, its way to the network, its group, its directory.

Goes when the kernel has ended; a ``family`` is one that may outlive it.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from cellwright.kernels.boxlines import BoxLine
from cellwright.kernels.processes import KernelProcess
from cellwright.sandbox.cgroups import Group
from cellwright.sandbox.proxy import Door

__all__ = ["Lodging"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lodging:
    """Where one kernel lives, and nobody after it."""

    directory: Path
    line: BoxLine | None = None
    door: Door | None = None
    group: Group | None = None
    _listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def run(self) -> None:
        """Listen to whoever stays beside the kernel, until that is gone or this is closed."""
        if self.line is not None:
            with self._listening:
                await self.line.run()

    def joined(self) -> None:
        """Nobody else will come."""

    async def left(self, process: KernelProcess) -> None:  # noqa: ARG002  # as every home has it
        """The kernel has ended, and so does this."""
        await self.close()

    async def close(self) -> None:
        """Save what was written last, and let go of everything."""
        self._listening.cancel()
        with anyio.CancelScope(shield=True):
            if self.line is not None:
                await self.line.close()
            if self.door is not None:
                await self.door.close()
            if self.group is not None:
                removed = await anyio.to_thread.run_sync(self.group.remove)
                if not removed:  # the next host tries again
                    log.warning("group_left_behind path=%s pids=%s", self.group.path, self.group.pids)
        shutil.rmtree(self.directory, ignore_errors=True)
