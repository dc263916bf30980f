"""A kernel's way to the network: its proxy (``egress``) on a socket in its own directory, while the kernel lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from cellwright.sandbox.destinations import NetworkMode, NetworkRules
from cellwright.sandbox.egress import Egress, EgressLimits
from cellwright.sandbox.netlog import NetworkEntry

__all__ = ["DOOR", "PROXY_PORT", "Door", "Opening"]

DOOR = "net"
"""The socket's name in a kernel's directory."""

PROXY_PORT = 3128
"""Where code finds its proxy, on a loopback that nobody else is on."""

_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Opening:
    """How far the network is open, in the words of the settings."""

    mode: NetworkMode
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    limits: EgressLimits = field(default_factory=EgressLimits)

    def rules(self) -> NetworkRules:
        """What is allowed.

        Raises:
            NetworkRuleInvalid: an entry cannot be understood.
        """
        return NetworkRules.parse(self.mode, allow=self.allow, deny=self.deny)


class Door:
    """One kernel's proxy. It stands before the kernel does, so who runs and who listens is told later."""

    def __init__(self, opening: Opening) -> None:
        self.execution: Callable[[], str | None] = _nobody
        """Tells which execution runs now."""
        self.told: Callable[[NetworkEntry], None] = _ignore
        """Gets each request when it is over; must not block."""
        self._egress = Egress(
            opening.rules(),
            limits=opening.limits,
            execution=self._running,
            told=self._tell,
        )
        self._scope = anyio.CancelScope()
        self._closed = anyio.Event()

    # Looked up each time: who listens comes after the door.
    def _running(self) -> str | None:
        return self.execution()

    def _tell(self, entry: NetworkEntry) -> None:
        self.told(entry)

    async def serve(self, path: Path, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Answer on the socket until closed."""
        try:
            with self._scope:
                await self._egress.serve(path, task_status=task_status)
        finally:
            self._closed.set()

    async def close(self) -> None:
        """End every connection; when it returns each was told."""
        self._scope.cancel()
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await self._closed.wait()


def _nobody() -> None:
    return None


def _ignore(_: NetworkEntry) -> None:
    """What becomes of a request before anybody listens."""
