"""Takes checkpoints before cells, as a kernel's runner asks: when to freeze, when to let old ones go, what to tell.

Which ones are kept is ``checkpoints``' to decide; the order of cells is ``jobs``'.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from cellwright.errors import CheckpointRefused, KernelError
from cellwright.hosts.checkpoints import Kept, Ring
from cellwright.hosts.protocol import Checkpointed, CheckpointsDropped, CheckpointStatus, EventBody, Run
from cellwright.kernels import Kernel

__all__ = ["Checkpointing"]

NONE_OF_OURS = "only Python kernels of our own have checkpoints"


class Checkpointing:
    """The checkpoints of one runner's kernel. Without a ring all are refused."""

    def __init__(
        self,
        kernel: Kernel,
        ring: Ring | None,
        *,
        tell: Callable[[EventBody], None],
        in_background: Callable[..., None],
    ) -> None:
        self._kernel = kernel
        self._ring = ring
        self._tell = tell
        self._in_background: Callable[[Callable[..., Coroutine[Any, Any, None]], Ring], None] = in_background
        self._wanted: set[str] = set()
        """Executions before which a checkpoint was wanted."""
        self._cells = 0

    async def take(self, checkpoint_id: str, name: str | None) -> CheckpointStatus:
        """Take one now, of a kernel that is idle.

        Raises:
            CheckpointRefused: it cannot be taken, with the reason.
        """
        if self._ring is None:
            raise CheckpointRefused(NONE_OF_OURS)
        kept = await self._ring.take(self._kernel, checkpoint_id, name)
        self._in_background(self._make_way, self._ring)
        return kept.status()

    async def before(self, job: Run, checkpoint_id: str, send: Callable[[], None]) -> None:
        """Take one, if that can be done, and send the cell; tell what became of it as soon as it is known."""
        kept: Kept | None = None
        if self._ring is None:
            self._tell(Checkpointed(job.execution_id, refused=NONE_OF_OURS))
        else:
            self._wanted.add(job.execution_id)
            try:
                kept = await self._ring.take(self._kernel, checkpoint_id, at_once=False)
                self._tell(Checkpointed(job.execution_id, kept.status()))
            except KernelError as error:
                self._tell(Checkpointed(job.execution_id, refused=error.message))
        with contextlib.suppress(KernelError):  # that it has ended is told by itself
            send()
        if kept is not None:
            with contextlib.suppress(KernelError):  # it was dropped meanwhile
                if await kept.frozen.describe():
                    self._tell(Checkpointed(job.execution_id, kept.status()))

    def sent(self) -> None:
        """A cell is on its way to the kernel, which will not be as it was."""
        self._cells += 1
        if self._ring is not None and self._ring.is_ahead:
            self._in_background(_drop_ahead, self._ring)

    def ended(self, execution_id: str, *, went_well: bool) -> None:
        """A cell has ended. ``went_well``: the kernel has nothing more to do, and the cell was no failure."""
        if self._ring is None:
            return
        if went_well and execution_id in self._wanted:
            # Another one will be wanted before the next cell, which is yet to come: now nobody waits for it.
            self._in_background(self._freeze_ahead, self._ring)
        self._wanted.discard(execution_id)
        # Only now: whatever is let go takes the machine's time, too.
        if self._ring.is_to_look_after:
            self._in_background(self._make_way, self._ring)

    async def _freeze_ahead(self, ring: Ring) -> None:
        cells = self._cells
        await ring.take_ahead(self._kernel)
        if self._cells != cells:  # it may have been frozen before or after that cell: nobody knows
            await ring.drop_ahead()

    async def _make_way(self, ring: Ring) -> None:
        gone = await ring.make_way()
        if gone:
            self._tell(CheckpointsDropped(tuple(gone)))


async def _drop_ahead(ring: Ring) -> None:
    await ring.drop_ahead()
