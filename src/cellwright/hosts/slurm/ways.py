"""The way to the host of one allocation: through ``srun``, or by TLS where a site forbids that.

Where the allocation stands is asked of whoever keeps track of it (``allocations``); which of its hosts counts, of the
fence. Two engines cannot both own the allocation, as they cannot own its storage; should one that lost its storage
still be there, the host listens to whoever attached last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import anyio
import anyio.abc
import anyio.to_thread

from cellwright.errors import HostLost, HostPending, HostUnreachable, UnknownHost
from cellwright.hosts.connection import HostConnection
from cellwright.hosts.slurm import tls
from cellwright.hosts.slurm.commands import job_environment
from cellwright.hosts.slurm.fencing import Fence
from cellwright.hosts.slurm.piping import PipeStream, pipe_command
from cellwright.hosts.slurm.places import About, AllocationPaths, read_about
from cellwright.hosts.slurm.shelves import Allocation
from cellwright.hosts.slurm.states import Ended, Pending, Submitting
from cellwright.hosts.slurm.wording import told_state

__all__ = ["AllocationWay", "Connecting", "Tracker"]

Connecting: TypeAlias = Literal["srun", "tls"]
BEAT_S = 2.0
_CONNECT_S = 15.0


class Tracker(Protocol):
    """Who knows where allocations stand: ``allocations.Allocations``."""

    def find(self, wanted: str) -> Allocation:
        """The allocation as it was last seen."""
        ...

    async def look(self) -> bool:
        """Look again; whether SLURM answered."""
        ...

    def doubt(self, key: str) -> None:
        """Its link broke: look more often."""
        ...

    def trust(self, key: str) -> None:
        """Its link is back."""
        ...


class AllocationWay:
    """How one allocation's host is reached; it is never started here."""

    def __init__(
        self, tracker: Tracker, directory: Path, *, python: str, connecting: Connecting = "srun"
    ) -> None:
        """``directory`` is the allocation's, ``python`` an interpreter that its node has."""
        self.paths = AllocationPaths(directory)
        self._tracker = tracker
        self._key = directory.name
        self._python = python
        self._connecting = connecting
        self._fence = Fence(self.paths.storage)

    @property
    def beat_s(self) -> float | None:
        return BEAT_S

    async def connect(self) -> HostConnection:
        allocation = await self._running()
        about = await anyio.to_thread.run_sync(self._living)
        if about is None:
            raise HostPending(
                f"{_named(allocation)} has its node, and its host is starting there",
                hint=f"If that takes long, see {allocation.log}",
            )
        if self._connecting == "tls":
            stream: anyio.abc.ByteStream = await tls.connect(about, self.paths.credentials)
        else:
            stream = await self._through_srun(about)
        self._tracker.trust(self._key)
        return HostConnection(stream)

    async def end(self) -> str | None:
        self._tracker.doubt(self._key)
        await self._tracker.look()
        try:
            allocation = self._tracker.find(self._key)
        except UnknownHost:
            return f"Allocation {self._key!r} is forgotten"
        if not isinstance(allocation.state, Ended):
            return None
        return f"{_named(allocation)} {told_state(allocation.state, now=time.time()).text}"

    async def _running(self) -> Allocation:
        """The allocation, where it runs.

        Raises:
            HostPending: it waits for its turn.
            HostLost: it has ended.
            UnknownHost: it is forgotten.
        """
        allocation = self._tracker.find(self._key)
        if isinstance(allocation.state, Pending | Submitting):
            await self._tracker.look()
            allocation = self._tracker.find(self._key)
        told = told_state(allocation.state, now=time.time())
        if isinstance(allocation.state, Pending | Submitting):
            raise HostPending(f"{_named(allocation)} is {told.text}", hint=told.hint)
        if isinstance(allocation.state, Ended) or allocation.job_id is None:
            raise HostLost(f"{_named(allocation)} {told.text}", hint=told.hint)
        return allocation

    def _living(self) -> About | None:
        """What the host says that counts; None before it has said so."""
        latest = self._fence.latest()
        about = read_about(self.paths.current)
        return (
            about
            if latest is not None and about is not None and about.incarnation == latest.incarnation
            else None
        )

    async def _through_srun(self, about: About) -> PipeStream:
        command = pipe_command(about.job_id, self._python, about.socket)
        stream = await PipeStream.open(command, _environment(os.environ))
        found = False
        try:
            with anyio.move_on_after(_CONNECT_S) as late:
                found = await stream.greeted()
        finally:
            if not found:
                await stream.aclose()
        if found:
            return stream
        why = f"no answer within {_CONNECT_S:g} s" if late.cancelled_caught else stream.words
        raise HostUnreachable(
            f"srun does not reach job {about.job_id} on {about.node}: {why or 'it ended without a word'}",
            hint="Its kernels go on; the next attempt follows by itself",
        )


def _named(allocation: Allocation) -> str:
    job = f" (job {allocation.job_id})" if allocation.job_id is not None else ""
    return f"Allocation {allocation.name!r}{job}"


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What ``srun`` is started with, and sends to the node as it is: nothing secret, and nothing of another job's."""
    return job_environment(environment, ("LD_LIBRARY_PATH",))
