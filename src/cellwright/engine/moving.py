"""Takes a session's state to another host before its own ends, by running again there what made it (see ``replaying``).

Where it is told to; the end of a host that nobody left costs the state, and nothing that was recorded.
"""

from __future__ import annotations

import logging
import time
from typing import Final, Protocol

import anyio

from cellwright.engine.replaying import Replay
from cellwright.engine.runs import Runs
from cellwright.errors import CellwrightError, HostPending, HostUnreachable, KernelBusy, SlurmFailed

__all__ = ["leave_in_time"]

_AGAIN_S: Final = 2.0
_log = logging.getLogger(__name__)


class _Movable(Protocol):
    """As much of a session as leaving takes."""

    runs: Runs

    @property
    def id(self) -> str: ...

    async def reserve_host(self) -> None:
        """Have another host asked for; HostPending until it is there."""
        ...

    async def start_replay(self) -> Replay: ...


async def leave_in_time(session: _Movable, ends_at: float) -> None:
    """Go on elsewhere as soon as that is there and nothing runs here; stay where neither comes in time."""
    while time.time() < ends_at:
        try:
            # Asked for at once, so that its place in the queue is kept while something still runs here.
            await session.reserve_host()
            if not session.runs.live:
                await session.start_replay()
                return
        except CellwrightError as error:
            if not _passes(error):
                _log.warning("session_not_moved session=%s %s", session.id, error)
                return
        await anyio.sleep(_AGAIN_S)


def _passes(error: CellwrightError) -> bool:
    """Whether the same may go well in a moment."""
    if isinstance(error, SlurmFailed):
        return not error.refused
    return isinstance(error, HostPending | HostUnreachable | KernelBusy)
