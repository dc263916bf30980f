"""The hosts in allocations: which one the next kernel goes to, and the way to each.

What allocations there are is ``allocations``', how one is spoken with ``transport``'.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import Final

import anyio
import anyio.abc

from cellwright.errors import HostPending, UnknownHost
from cellwright.hosts.transport import HostTransport
from cellwright.slurm.allocations import Allocations
from cellwright.slurm.directories import DEFAULT_NAME, Allocation
from cellwright.slurm.shapes import Shape, memory_bytes
from cellwright.slurm.states import Ended, Pending, Running, Submitting, state_text

__all__ = ["DEFAULT_NAME", "PREFIX", "SlurmFleet", "host_name", "lasts"]

PREFIX: Final = "slurm:"
# An idle cluster starts a job at once, a busy one does not: looking often pays at first only.
_FIRST_LOOK_S: Final = 0.1
_LOOK_S: Final = 0.5
_KEPT_S: Final = 7 * 24 * 3_600
_WAIT: Final = "Wait with `cellwright wait`; the next call that needs the kernel tries again"


class SlurmFleet:
    """Every allocation of one storage directory, as a place for kernels."""

    def __init__(
        self,
        allocations: Allocations,
        *,
        shape: Shape,
        way: Callable[[Allocations, str], HostTransport],
        kernels: Callable[[str], int],
        expiring: Callable[[], Collection[str]],
        kernel_bytes: int | None,
        wait_s: float,
    ) -> None:
        """``shape`` is asked for where nobody says otherwise; ``kernels`` counts those on a host, by its name.

        ``expiring`` names the hosts that said that their end is near, which SLURM may do a minute early.
        ``kernel_bytes`` is the memory that each may have, ``wait_s`` how long a new allocation is waited for before
        its place in the queue is told instead.
        """
        self.allocations = allocations
        self.shape = shape
        self._way = way
        self._kernels = kernels
        self._expiring = expiring
        self._kernel_bytes = kernel_bytes
        self._wait_s = wait_s

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep up with SLURM while this runs."""
        await self.allocations.load()
        await self._forget_the_old()
        task_status.started()
        await self.allocations.watch()

    async def _forget_the_old(self) -> None:
        """Remove what is left of allocations that ended long ago: whoever wanted to know why has looked."""
        long_ago = time.time() - _KEPT_S
        for one in self.allocations.all(ended=True):
            if isinstance(one.state, Ended) and one.seen_at < long_ago and not self._kernels(host_name(one)):
                await self.allocations.forget(one.key)

    async def choose(self, which: str | None) -> str:
        """The name of the host on which the next kernel is to start; an allocation is asked for where there is none.

        Raises:
            HostPending: it waits for its turn, of which the message tells.
            LimitReached: one more allocation would be too many.
            UnknownHost: none is called that.
            SlurmFailed: SLURM refused, or does not answer.
        """
        pause_s = _FIRST_LOOK_S
        with anyio.move_on_after(self._wait_s):
            while True:
                found = self._with_room(which)
                if found is not None:
                    return host_name(found)
                if not self._coming(which):
                    await self._ask_for_one(which)
                await anyio.sleep(pause_s)
                pause_s = min(pause_s + _FIRST_LOOK_S, _LOOK_S)
                await self.allocations.look()
        raise self._pending(which)

    def way(self, name: str) -> HostTransport:
        """The way to a host by its name, also to one that is gone."""
        return self._way(self.allocations, name.removeprefix(PREFIX))

    def _with_room(self, which: str | None) -> Allocation | None:
        now, expiring = time.time(), self._expiring()
        lasting = [
            one for one in self._called(which) if lasts(one, now=now) and host_name(one) not in expiring
        ]
        kernels = {one.key: self._kernels(host_name(one)) for one in lasting}
        roomy = [one for one in lasting if kernels[one.key] < self.capacity(one)]
        return min(roomy, key=lambda one: (kernels[one.key], one.submitted_at), default=None)

    def capacity(self, allocation: Allocation) -> float:
        """How many kernels fit into an allocation, each with all the memory that it may have."""
        total = memory_bytes(allocation.shape.memory)
        if total is None or self._kernel_bytes is None:
            return math.inf
        return max(1, total // self._kernel_bytes)

    def _coming(self, which: str | None) -> list[Allocation]:
        return [one for one in self._called(which) if isinstance(one.state, Pending | Submitting)]

    def _called(self, which: str | None) -> list[Allocation]:
        return [
            one
            for one in self.allocations.all()
            if which is None or one.goes_by(which) or one.instead_of == which
        ]

    async def _ask_for_one(self, which: str | None) -> None:
        """Another of the same shape where all of that name are as good as over, else one as the settings say."""
        like = self._called(which)
        if which is not None and not like:
            raise UnknownHost(
                f"There is no allocation {which!r}",
                hint=f"`cellwright start --name {which}` asks for one, `cellwright hosts` lists what there is",
            )
        taken = {one.name for one in self.allocations.all() if one.lasting}
        stem = like[0].name if like else DEFAULT_NAME
        name = next(one for one in (stem, *(f"{stem}-{n}" for n in range(2, 1_000))) if one not in taken)
        # What is found by the same wish the next time, or every look would ask for one more.
        instead_of = which if which != name else None
        await self.allocations.start(name, like[0].shape if like else self.shape, instead_of=instead_of)

    def _pending(self, which: str | None) -> HostPending:
        coming = self._coming(which)
        if not coming:
            return HostPending("No allocation is there yet", hint=_WAIT)
        first = coming[0]
        told = state_text(first.state, now=time.time())
        return HostPending(
            f"Allocation {first.name} (job {first.job_id}) is {told.text}", hint=told.hint or _WAIT
        )


def host_name(allocation: Allocation) -> str:
    """What the host in an allocation is called."""
    return f"{PREFIX}{allocation.key}"


def lasts(allocation: Allocation, *, now: float) -> bool:
    """Whether an allocation takes kernels: it runs, and is not about to end."""
    state = allocation.state
    return (
        isinstance(state, Running)
        and not state.suspended
        and (state.ends_at is None or state.ends_at - now > allocation.warn_s)
    )
