"""Where the host of an allocation keeps what: its journal on the shared file system, its sockets on its node."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cellwright.hosts.local import HostPaths, runtime_base
from cellwright.settings.paths import write_private

__all__ = ["About", "AllocationPaths", "read_about", "write_about"]


@dataclass(frozen=True, slots=True)
class AllocationPaths(HostPaths):
    """The places of a host whose ``storage`` is ``<storage>/allocations/<key>``."""

    @property
    def cache(self) -> Path:
        """The login side's own: what was made there once serves here as well."""
        return self.storage.parent.parent / "cache"

    @property
    def credentials(self) -> Path:
        """Keys for TLS, where the login side put some."""
        return self.storage / "tls"

    @property
    def expected(self) -> Path:
        """What the login side expects of the host (see ``expectations``)."""
        return self.storage / "expected.json"

    def runtime_of(self, incarnation: str) -> Path:
        """On the node; another host of the same allocation may still be there."""
        digest = hashlib.sha256(f"{self.storage}/{incarnation}".encode()).hexdigest()[:12]
        return runtime_base() / digest


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a host in a job says of itself."""

    pid: int
    incarnation: str
    socket: str
    node: str
    job_id: int
    restarts: int
    ends_at: float | None = None
    addresses: tuple[str, ...] = ()
    """Where it listens for TLS, best first."""
    port: int | None = None


def write_about(path: Path, about: About) -> None:
    """All at once, for whoever reads it meanwhile."""
    write_private(str(path), msgspec.json.encode(about))


def read_about(path: Path) -> About | None:
    """What the host said; None where there is none, or nothing that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=About)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None
