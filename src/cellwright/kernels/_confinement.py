"""The host's side of a confined kernel: what it is started with. The line to the monitor beside it is ``monitor``.

What is allowed stands in ``cellwright.sandbox``, how it is enforced in ``cellwright_kernel._lockdown``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cellwright.errors import KernelStartError
from cellwright.sandbox.cgroups import Groups
from cellwright.sandbox.gpus import NO_GPUS, Gpus, show_gpus
from cellwright.sandbox.policy import (
    CACHES,
    PACKAGES,
    SOCKETS,
    Policy,
    allowed_environment,
    readable_paths,
    sandbox_plan,
    thread_counts,
    watched_plan,
)
from cellwright.sandbox.proxy import PROXY_PORT, PROXY_SOCKET, Opening, ProxySocket
from cellwright.sandbox.quotas import memory_of
from cellwright.sandbox.tiers import Tier
from cellwright.sandbox.workspace import SharedWorkspace, Workspace, needs_own_fork, workspace_mounts
from cellwright_kernel.bridge import CONNECTIONS_VARIABLE, proxy_environment

__all__ = ["Isolation"]

OWN_PROCESSES = 8


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
    approved_imports: tuple[tuple[str, str], ...] = ()
    """Packages that may be installed, each after a name that it is imported by."""
    caches: str = ""
    """The directory of all prepared caches of libraries, to be read by every kernel."""
    opening: Opening | None = None
    """How far the network is open, if it is."""
    connections: str = ""
    """The engine's socket for named connections, where there are any."""
    groups: Groups | None = None
    """Where kernels of tier A get a group each."""
    gpus: Gpus = NO_GPUS
    """The devices of kernels whose policy lets them use any."""

    def under(self, policy: Policy | None) -> Isolation:
        """The same for a session whose code may do less."""
        return self if policy is None else replace(self, policy=policy)

    def proxy_socket(self) -> ProxySocket | None:
        """A new way to the network and to connections for one kernel; None where it has none."""
        if not self.has_proxy:
            return None
        opening = self.opening if self.opening is not None and self.has_network else Opening("off")
        return ProxySocket(opening, connections=self.connections)

    @property
    def has_network(self) -> bool:
        """Whether code reaches the network. Without a network of its own it has no loopback to find a proxy on."""
        return self.stands_by and self.opening is not None and self.policy.network == "proxy"

    @property
    def has_proxy(self) -> bool:
        """Whether code has a proxy: for the network, or for connections alone."""
        return self.has_network or (self.stands_by and bool(self.connections))

    @property
    def stands_by(self) -> bool:
        """Whether a kernel can be confined before its session is known."""
        return self.tier in ("A", "B")

    @property
    def _own_gpus(self) -> Gpus:
        return self.gpus if self.policy.gpus != "off" else NO_GPUS

    def seen_layers(self, names: Sequence[str]) -> tuple[str, ...]:
        """Layers of packages as a kernel sees them."""
        return tuple(f"{PACKAGES if self.stands_by else self.packages}/{name}" for name in names)

    def seen_caches(self, prepared: Sequence[Path]) -> tuple[str, ...]:
        """Those caches that are made, as a kernel sees them."""
        top = CACHES if self.stands_by else self.caches
        return tuple(f"{top}/{path.name}" for path in prepared if path.is_dir())

    def readable(self, paths: Sequence[str]) -> list[str]:
        """What of an interpreter's own paths may be shown."""
        return readable_paths(paths, never=self.secret)

    def environment(self, environment: Mapping[str, str], directory: Path) -> dict[str, str]:
        """What code sees of an environment."""
        allowed = allowed_environment(environment, self.passed)
        if not self.stands_by:
            temporary = str(directory / "tmp")
            allowed |= {"HOME": temporary, "TMPDIR": temporary}
        allowed |= thread_counts(self.policy, len(os.sched_getaffinity(0)), allowed)
        allowed |= dict(self._own_gpus.environment)
        if self.has_proxy and self.connections:
            allowed[CONNECTIONS_VARIABLE] = f"127.0.0.1:{PROXY_PORT}"
        return allowed | (proxy_environment(PROXY_PORT) if self.has_network else {})

    def plan(
        self,
        readable: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        workspace: Workspace | None,
        *,
        known: bool = False,
        shared: SharedWorkspace | None = None,
    ) -> dict[str, Any]:
        """What a process is started with. A place goes in at once if it is ``known`` for good or must not wait."""
        plan = self._plan(readable, environment, directory, workspace, known=known, shared=shared)
        if shared is not None:
            plan["owner"] = shared.owner
        return show_gpus(plan, self._own_gpus)

    def _plan(
        self,
        readable: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        workspace: Workspace | None,
        *,
        known: bool,
        shared: SharedWorkspace | None,
    ) -> dict[str, Any]:
        allowed = self.environment(environment, directory)
        if self.stands_by:
            plan = sandbox_plan(self.policy, readable, allowed) | {"counted": self.groups is not None}
            if self.groups is not None and self.policy.processes is not None:
                # The group counts them too, and can say later that it refused: it must come first.
                plan["limits"]["processes"] = self.policy.processes + OWN_PROCESSES
            if self.has_proxy:
                plan["proxy"] = {"port": PROXY_PORT, "socket": f"{SOCKETS}/{PROXY_SOCKET}"}
            for source, at in ((self.packages, PACKAGES), (self.caches, CACHES)):
                if source:
                    plan["mounts"].append({"kind": "bind", "from": source, "at": at, "write": False})
                    plan["rules"]["READ"].append(at)
            if workspace is not None and (known or shared is not None or needs_own_fork(workspace)):
                plan["mounts"] += self._mounts(workspace, readable, shared)
                plan["rules"]["WRITE"].append(workspace.cwd)
                plan["rules"]["READ"].append(workspace.top)
            return plan
        if workspace is None:
            raise KernelStartError("A kernel cannot stand by in this tier")
        if os.getuid() == 0:
            _refuse_unreachable([workspace.cwd, str(directory), *readable])
        temporary = directory / "tmp"
        temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        shown = [path for path in (*readable, workspace.project, self.packages, self.caches) if path]
        directories = {"sockets": str(directory), "temporary": str(temporary)}
        return watched_plan(
            self.policy,
            shown,
            allowed,
            directories=directories,
            writable=[workspace.cwd],
            owned=[workspace.cwd] if workspace.mode == "private" and shared is None else [],
        )

    def _mounts(
        self, workspace: Workspace, readable: Sequence[str], shared: SharedWorkspace | None
    ) -> list[dict[str, Any]]:
        if shared is not None:
            return [{"kind": "given", "at": workspace.top, "fd": shared.mount_fd}]
        return workspace_mounts(
            workspace, readable, gate=False, memory=memory_of(self.policy, workspace.mode)
        )

    def mounts(self, workspace: Workspace, readable: Sequence[str]) -> list[dict[str, Any]]:
        """What is mounted when a kernel that was confined before gets its session."""
        if needs_own_fork(workspace):
            return []
        return workspace_mounts(workspace, readable, gate=True, memory=memory_of(self.policy, workspace.mode))

    def directory(self, wanted: Path) -> Path:
        """Where a kernel's sockets go: as wanted, unless its user could not get there."""
        if self.stands_by or os.getuid() != 0:
            return wanted
        return Path(tempfile.mkdtemp(prefix="cw-"))

    def profile(self, directory: Path) -> str:
        """Where IPython keeps what it insists on keeping."""
        return "/tmp/.ipython" if self.stands_by else str(directory / "tmp" / ".ipython")


def _refuse_unreachable(paths: Sequence[str]) -> None:
    """Raise where the user that root's kernels become could not get to one of these paths."""
    for path in paths:
        closed = next((above for above in Path(path).parents if not above.stat().st_mode & 0o001), None)
        if closed is not None:
            raise KernelStartError(
                f"Without namespaces root's kernels run as a user who cannot pass through {closed}",
                hint=f"{path} lies there. Run Cellwright as an ordinary user; or let others pass through (`chmod o+x "
                f"{closed}`), or have an interpreter, a project and CELLWRIGHT_STORAGE where they can",
            )
