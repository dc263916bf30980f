"""The GPUs that a host's sessions may use, with their memory in use: read in the background, reported as last seen.

A driver may take seconds to answer, and a request for the host's status should not wait for that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import anyio
import anyio.abc

from cellwright.hosts.protocol import GpuUse
from cellwright.sandbox.gpus import find_gpus, gpu_memory

__all__ = ["GpuWatch"]

_FRESH_S = 2.0

_FIRST_LOOK_S = 5.0

_MIB = 1024 * 1024


class GpuWatch:
    """Keeps the last reading of the GPUs."""

    def __init__(self, choice: Callable[[], str]) -> None:
        """``choice`` is the setting ``gpus`` as it is now."""
        self._choice = choice
        self._seen: tuple[GpuUse, ...] = ()
        self._looked_at: float | None = None
        self._looking = False
        self._first = anyio.Event()

    async def seen(self, tasks: anyio.abc.TaskGroup) -> tuple[GpuUse, ...]:
        """The GPUs as last seen; the first call waits a while for the first look."""
        stale = self._looked_at is None or time.monotonic() - self._looked_at > _FRESH_S
        if stale and not self._looking:
            self._looking = True
            tasks.start_soon(self._look)
        with anyio.move_on_after(_FIRST_LOOK_S):
            await self._first.wait()
        return self._seen

    async def _look(self) -> None:
        try:
            self._seen = await anyio.to_thread.run_sync(
                partial(gpu_use, self._choice()), abandon_on_cancel=True
            )
            self._looked_at = time.monotonic()
            self._first.set()
        finally:
            self._looking = False


def gpu_use(choice: str) -> tuple[GpuUse, ...]:
    """The GPUs that sessions may use by the setting and the job's variables. Blocking."""
    found = find_gpus(choice, os.environ)
    memory = gpu_memory(found) if found else {}
    return tuple(
        GpuUse(device, about.name, about.used_mib * _MIB, about.total_mib * _MIB)
        if (about := memory.get(device)) is not None
        else GpuUse(device)
        for device in found.names
    )
