"""The values that an engine and its sessions work with. ``assembly`` takes them from the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cellwright.connections.known import Connection
from cellwright.engine.placement import DefaultHost
from cellwright.hosts.protocol import HostOptions
from cellwright.sandbox.approved_packages import ApprovedList
from cellwright.sandbox.npm import NpmList
from cellwright.sandbox.packages import InstallLimits
from cellwright.sandbox.proxy import Opening
from cellwright.settings.model import ApprovalRules

__all__ = ["EngineOptions", "PackageOptions"]


@dataclass(frozen=True, slots=True)
class PackageOptions:
    """What may be installed, and where it goes."""

    store: Path
    """Where the layers of all sessions lie; every kernel may read them, and none may write."""
    approved_names: Iterable[str]
    approved_npm_names: Iterable[str]
    limits: InstallLimits

    @property
    def approved(self) -> ApprovedList:
        """What may be installed at all.

        Raises:
            PackageRefused: an entry of the list cannot be understood, which is told to whoever installs.
        """
        return ApprovedList(self.approved_names)

    @property
    def approved_npm(self) -> NpmList:
        """The same of npm's packages."""
        return NpmList(self.approved_npm_names)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """All that an engine takes from the settings."""

    storage: Path
    root: Path
    """Where one works who names no directory."""
    notebook_dir: Path
    """Where new notebooks go."""
    project: Path | None
    home: Path
    """The user's home, which no session may see as a whole."""
    default_language: str
    default_host: DefaultHost
    host: HostOptions
    """What hosts are told when the engine attaches to them."""
    host_wait_s: float
    """How long a host that is starting is waited for."""
    packages: PackageOptions
    max_cells: int
    max_source_bytes: int
    max_sessions: int
    suspends_when_full: bool
    """Whether an idle session makes room at ``max_sessions``; otherwise new ones are refused."""
    max_runs: int
    cell_timeout_s: float
    session_idle_s: float
    undelete_s: float
    """How long a session that a person deleted can be had back."""
    save_quiet_s: float
    event_buffer: int
    history_days: float
    max_journal: int
    moves_on_expiry: bool
    """Whether a session goes on elsewhere before its allocation ends."""
    kept: Path
    """The storage directory, also of an engine whose own is gone with it: there is what people always allow."""
    approvals: ApprovalRules
    """What is asked about before it is done."""
    connections: Mapping[str, Connection]
    """What code and agents reach by name."""
    dangers: tuple[str, ...]
    """The settings that lift a protection, for the audit log."""

    @property
    def opening(self) -> Opening | None:
        """How far the network is open; None where it is closed."""
        return self.host.opening
