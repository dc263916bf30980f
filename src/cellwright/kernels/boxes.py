"""The host's side of a confined kernel: what it is started with, and the line to the monitor beside it.

What is allowed stands in ``cellwright.sandbox``, how it is enforced in ``cellwright_kernel.lockdown``.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import msgspec

from cellwright.errors import KernelStartError
from cellwright.sandbox.doors import DOOR, PROXY_PORT, Door, Opening
from cellwright.sandbox.groups import Groups
from cellwright.sandbox.places import Place, needs_own_fork, place_mounts
from cellwright.sandbox.plans import (
    PACKAGES,
    SOCKETS,
    allowed_environment,
    box_plan,
    readable_paths,
    watched_plan,
)
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.quotas import MemoryLayer, memory_of
from cellwright.sandbox.tiers import Tier
from cellwright_kernel.bridge import proxy_environment

__all__ = ["BoxLine", "Isolation"]

PACKET_BYTES = 1 << 16
OWN_PROCESSES = 8

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Isolation:
    """How the kernels of a host are confined."""

    tier: Tier
    policy: Policy
    secret: tuple[str, ...] = ()
    """Directories that are never shown as a whole: the user's home, the engine's state."""
    passed: tuple[str, ...] = ()
    """Environment variables that code may see beyond the harmless ones."""
    packages: str = ""
    """The directory of all layers of packages, to be read by every kernel."""
    opening: Opening | None = None
    """How far the network is open, if it is."""
    groups: Groups | None = None
    """Where kernels of tier A get a group each."""

    def under(self, policy: Policy | None) -> Isolation:
        """The same for a session whose code may do less."""
        return self if policy is None else replace(self, policy=policy)

    def door(self) -> Door | None:
        """A new way to the network for one kernel; None where it has none."""
        return Door(self.opening) if self.opening is not None and self.has_door else None

    @property
    def has_door(self) -> bool:
        """Whether code reaches the network. Without a network of its own it has no loopback to find a proxy on."""
        return self.stands_by and self.opening is not None and self.policy.network == "proxy"

    @property
    def stands_by(self) -> bool:
        """Whether a kernel can be confined before its session is known."""
        return self.tier in ("A", "B")

    def seen_layers(self, names: Sequence[str]) -> tuple[str, ...]:
        """Layers of packages as a kernel sees them."""
        return tuple(f"{PACKAGES if self.stands_by else self.packages}/{name}" for name in names)

    def readable(self, paths: Sequence[str]) -> list[str]:
        """What of an interpreter's own paths may be shown."""
        return readable_paths(paths, never=self.secret)

    def environment(self, environment: Mapping[str, str], directory: Path) -> dict[str, str]:
        """What code sees of an environment."""
        allowed = allowed_environment(environment, self.passed)
        if not self.stands_by:
            temporary = str(directory / "tmp")
            allowed |= {"HOME": temporary, "TMPDIR": temporary}
        return allowed | (proxy_environment(PROXY_PORT) if self.has_door else {})

    def plan(
        self,
        readable: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        place: Place | None,
        *,
        known: bool = False,
    ) -> dict[str, Any]:
        """What a process is started with. A place goes in at once if it is ``known`` for good or must not wait."""
        allowed = self.environment(environment, directory)
        if self.stands_by:
            plan = box_plan(self.policy, readable, allowed)
            if self.groups is not None and self.policy.processes is not None:
                # The group counts them too, and can say later that it refused: it must come first.
                plan["limits"]["processes"] = self.policy.processes + OWN_PROCESSES
            if self.has_door:
                plan["proxy"] = {"port": PROXY_PORT, "socket": f"{SOCKETS}/{DOOR}"}
            if self.packages:
                plan["mounts"].append({"kind": "bind", "from": self.packages, "at": PACKAGES, "write": False})
                plan["rules"]["READ"].append(PACKAGES)
            if place is not None and (known or needs_own_fork(place)):
                plan["mounts"] += place_mounts(
                    place, readable, gate=False, memory=memory_of(self.policy, place.mode)
                )
                plan["rules"]["WRITE"].append(place.cwd)
                plan["rules"]["READ"].append(place.top)
            return plan
        if place is None:
            raise KernelStartError("A kernel cannot stand by in this tier")
        if os.getuid() == 0:
            _refuse_unreachable([place.cwd, str(directory), *readable])
        temporary = directory / "tmp"
        temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        shown = [path for path in (*readable, place.project, self.packages) if path]
        directories = {"sockets": str(directory), "temporary": str(temporary)}
        return watched_plan(
            self.policy,
            shown,
            allowed,
            directories=directories,
            writable=[place.cwd],
            owned=[place.cwd] if place.mode == "private" else [],
        )

    def mounts(self, place: Place, readable: Sequence[str]) -> list[dict[str, Any]]:
        """What is mounted when a kernel that was confined before gets its session."""
        if needs_own_fork(place):
            return []
        return place_mounts(place, readable, gate=True, memory=memory_of(self.policy, place.mode))

    def directory(self, wanted: Path) -> Path:
        """Where a kernel's sockets go: as wanted, unless its user could not get there."""
        if self.stands_by or os.getuid() != 0:
            return wanted
        return Path(tempfile.mkdtemp(prefix="cw-"))

    def profile(self, directory: Path) -> str:
        """Where IPython keeps what it insists on keeping."""
        return "/tmp/.ipython" if self.stands_by else str(directory / "tmp" / ".ipython")  # noqa: S108


def _refuse_unreachable(paths: Sequence[str]) -> None:
    """Raise where the user that root's kernels become could not get to one of these paths."""
    for path in paths:
        closed = next((above for above in Path(path).parents if not above.stat().st_mode & 0o001), None)
        if closed is not None:
            raise KernelStartError(
                f"Without namespaces root's kernels run as a user who cannot pass through {closed}",
                hint="Run Cellwright as an ordinary user, or set CELLWRIGHT_STORAGE to a directory that others can "
                "pass through",
            )


class BoxLine:
    """Tells a kernel's monitor what its session may see, and holds what it writes. Closed with the kernel."""

    def __init__(self, saved: Path | None = None) -> None:
        self.layer: MemoryLayer | None = None
        """What the session writes, where that is in memory."""
        self._saved = saved
        self._unsaved = ""
        self._overlaid = False
        self._saving = anyio.Lock()
        self._mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mine.setblocking(False)  # noqa: FBT003  # the standard library takes no name
        self._theirs: socket.socket | None = theirs

    @property
    def fd(self) -> int:
        """The monitor's end, to be let go of with ``handed_over``."""
        if self._theirs is None:
            raise ValueError("the monitor's end was handed over")
        return self._theirs.fileno()

    def handed_over(self) -> None:
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    def abandon(self) -> None:
        """Let go of a line that nobody has taken up."""
        self.handed_over()
        self._mine.close()

    async def close(self) -> None:
        """Save what the session wrote last, and let go of everything."""
        self.abandon()
        with anyio.CancelScope(shield=True):
            await self.save()
            self._unsaved = self._unsaved and f"{self._unsaved}: they are lost"
            async with self._saving:
                if self.layer is not None:
                    self.layer.close()
                    self.layer = None

    @property
    def is_saved(self) -> bool:
        """Whether there is surely nothing to save."""
        return self.layer is None or (not self._saving.locked() and self.layer.is_saved())

    @property
    def is_shown(self) -> bool:
        """Whether there is surely nothing to bring in."""
        return self.layer is None or (not self._saving.locked() and self.layer.is_shown())

    @property
    def unsaved(self) -> str:
        """Which files the disk did not take when they were last saved, and what to do; empty where it took all."""
        if not self._unsaved or self.layer is None:
            return self._unsaved
        if self.is_saved:  # code deleted them meanwhile
            return ""
        return (
            f"{self._unsaved}: they are lost when the kernel ends. Free space, then run any cell to save them"
        )

    async def save(self) -> None:
        """Save what the session wrote, as far as it is in memory."""
        async with self._saving:
            if self.layer is not None:
                self._unsaved = await anyio.to_thread.run_sync(_save, self.layer)

    async def bring_in(self) -> None:
        """Show the session what others put into its folder."""
        async with self._saving:
            if self.layer is not None:
                await anyio.to_thread.run_sync(_bring_in, self.layer)

    async def settle(self, mounts: list[dict[str, Any]], saved: Path | None = None) -> None:
        """Put what a session sees into its box, and take the sockets out of its sight.

        ``saved`` is the directory on disk of what it writes.

        Raises:
            KernelStartError: it could not be mounted, or what was saved does not fit.
        """
        self._saved = saved or self._saved
        self._overlaid = _has_overlay(mounts)
        self._mine.send(msgspec.json.encode({"mounts": mounts, "drop": [SOCKETS]}))
        reply = await self._next()
        if reply.get("offer"):
            reply = await self._next()
        if not reply.get("ok"):
            raise KernelStartError(
                f"The working directory could not be shown to the kernel: {reply['error']}",
                hint="Run `cellwright doctor` to see what this machine allows",
            )

    async def furnish(self, plan: dict[str, Any]) -> None:
        """Fill the directory of a process that is started with its place, and offers it before it runs.

        Raises:
            KernelStartError: what was saved does not fit.
        """
        mounts = plan.get("mounts", ())
        self._overlaid = _has_overlay(mounts)
        if any(mount.get("offered") or mount.get("memory") for mount in mounts):
            await self._next()

    async def _next(self) -> dict[str, Any]:
        """The monitor's next word; a directory that it offers is filled first."""
        await anyio.wait_readable(self._mine)
        answer, fds, _, _ = socket.recv_fds(self._mine, PACKET_BYTES, 1)
        reply: dict[str, Any] = msgspec.json.decode(answer) if answer else {"error": "its monitor is gone"}
        if reply.get("offer") and self._saved is not None:
            self.layer = MemoryLayer(fds[0], self._saved, shared=not self._overlaid)
            await anyio.to_thread.run_sync(self.layer.fill)
            self._mine.send(b"filled")
        return reply


def _has_overlay(mounts: Sequence[Mapping[str, Any]]) -> bool:
    return any(mount["kind"] == "overlay" for mount in mounts)


def _bring_in(layer: MemoryLayer) -> None:
    try:
        layer.bring_in()
    except OSError as error:
        log.warning("files_not_brought_in", extra={"reason": str(error)})


def _save(layer: MemoryLayer) -> str:
    """Save, and tell in words what the disk did not take: that stays in memory, and is tried again after the next cell."""
    try:
        done = layer.save()
    except OSError as error:
        log.warning("files_not_saved", extra={"reason": str(error)})
        return f"Files could not be saved to {layer.saved} ({error.strerror or error})"
    if done.left_out:
        log.warning("files_not_saved", extra={"count": done.left_out})
    if not done.no_place:
        return ""
    count, why = len(done.no_place), "; ".join(sorted(set(done.no_place.values())))
    return f"{count} {'file' if count == 1 else 'files'} could not be saved to {layer.saved} ({why})"
