"""Records of allocations: a directory for each, private to its user, on the file system that nodes share.

``<storage>/allocations/<name>-<digits>/`` is made before the job is given to SLURM, so that it is there when the job
starts. The digits are our own, because the job's number is not known yet; ``allocation.json`` has it later. The host
inside the job keeps its journal in the same directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from cellwright.hosts.launchers import start_environment
from cellwright.hosts.local import HostPaths, make_private, runtime_base
from cellwright.hosts.protocol import HostOptions
from cellwright.settings.paths import write_private
from cellwright.slurm._shapes import Shape
from cellwright.slurm._states import AllocationState, Ended, Ending

__all__ = [
    "DEFAULT_NAME",
    "Allocation",
    "AllocationDirectories",
    "AllocationPaths",
    "Claim",
    "Expectation",
    "Fence",
    "HostAddress",
    "expectation",
    "read_expectation",
    "read_host_address",
    "write_expectation",
    "write_host_address",
]

DEFAULT_NAME: Final = "default"
"""What an allocation is called where nobody says otherwise."""

_RECORD = "allocation.json"


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One allocation as it was last seen."""

    key: str
    """The name of its directory; no other ever has it."""
    name: str
    directory: str
    shape: Shape
    submitted_at: float
    state: AllocationState
    job_id: int | None = None
    seen_at: float = 0.0
    """When SLURM last told its state."""
    warn_s: int = 0
    """How long before its time limit it is signalled."""
    instead_of: str | None = None
    """What was asked for, where that had no room or was about to end and this was made in its place."""

    @property
    def named(self) -> str | None:
        """Its name, where that must be said to mean it."""
        return self.name if self.name != DEFAULT_NAME else None

    def goes_by(self, wanted: str) -> bool:
        """Whether it is meant by a name, a job's number or a key."""
        return wanted in (self.name, self.key, str(self.job_id))

    @property
    def alive(self) -> bool:
        """Whether it has a place, or will have one."""
        return not isinstance(self.state, Ended)

    @property
    def lasting(self) -> bool:
        """Whether it lives and is not about to end."""
        return not isinstance(self.state, Ended | Ending)

    @property
    def log(self) -> Path:
        """What the job itself put out."""
        return Path(self.directory) / "job.log"


class AllocationDirectories:
    """The directory of all allocations."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def reserve(self, name: str) -> tuple[str, Path]:
        """A new allocation's key and its directory, made."""
        make_private(self.directory)
        while True:
            key = f"{name}-{secrets.token_hex(4)}"
            try:
                (self.directory / key).mkdir(mode=0o700)
            except FileExistsError:
                continue
            return key, self.directory / key

    def write(self, allocation: Allocation) -> None:
        """Replace what is known of an allocation; the old record stays until the new one is on the disk."""
        record = msgspec.json.format(msgspec.json.encode(allocation), indent=1) + b"\n"
        write_private(f"{allocation.directory}/{_RECORD}", record)

    def read(self) -> tuple[list[Allocation], list[str]]:
        """Every allocation that is written down, and the keys of directories whose record cannot be read."""
        found, unreadable = [], []
        # Listed, not asked one by one: on a slow shared file system a listing is up to date before a question is.
        for entry in sorted(self.directory.iterdir()) if self.directory.is_dir() else ():
            try:
                record = msgspec.json.decode((entry / _RECORD).read_bytes(), type=Allocation)
            except NotADirectoryError:
                continue
            except (OSError, msgspec.DecodeError, ValueError, RecursionError):
                unreadable.append(entry.name)
            else:
                # Where the storage was moved, the record did not know.
                found.append(msgspec.structs.replace(record, key=entry.name, directory=str(entry)))
        return found, unreadable

    def remove(self, key: str) -> None:
        """Remove an allocation's directory with all that is in it."""
        shutil.rmtree(self.directory / key, ignore_errors=True)


# Where the host of an allocation keeps what: its journal on the shared file system, its sockets on its node.


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
        """What the login side expects of the host."""
        return self.storage / "expected.json"

    def runtime_of(self, incarnation: str) -> Path:
        """On the node; another host of the same allocation may still be there."""
        digest = hashlib.sha256(f"{self.storage}/{incarnation}".encode()).hexdigest()[:12]
        return runtime_base() / digest


class HostAddress(msgspec.Struct, frozen=True, omit_defaults=True):
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


def write_host_address(path: Path, about: HostAddress) -> None:
    """All at once, for whoever reads it meanwhile."""
    write_private(str(path), msgspec.json.encode(about))


def read_host_address(path: Path) -> HostAddress | None:
    """What the host said; None where there is none, or nothing that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=HostAddress)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None


# Options that the engine writes down with an allocation, for its host to begin with.


class Expectation(msgspec.Struct, frozen=True):
    """What the first kernel will need."""

    options: HostOptions
    environment: dict[str, str]
    found_within_s: float = 0
    """How long whoever waits for the host may take to see that it is there."""


def expectation(options: HostOptions, environment: Mapping[str, str]) -> Expectation:
    """Of the environment only what an interpreter reads when it starts: the rest may hold secrets."""
    return Expectation(options, start_environment(environment))


def write_expectation(path: Path, expected: Expectation) -> None:
    """For this user's eyes only. Blocking."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(expected))


def read_expectation(path: Path) -> Expectation | None:
    """What was expected; None where nothing was, or nothing that this version understands. Blocking."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Expectation)
    except (OSError, msgspec.MsgspecError):
        return None


# Whose turn it is in an allocation's directory: a requeued job's host takes over from the one before it.

_NAME = re.compile(r"(\d+)\.(\d+)\.([0-9a-f]+)")


class Claim(NamedTuple):
    """One host's claim; of two the greater counts."""

    job_id: int
    restarts: int
    incarnation: str

    @property
    def name(self) -> str:
        return f"{self.job_id}.{self.restarts}.{self.incarnation}"


class Fence:
    """All claims to one allocation's directory. Blocking."""

    def __init__(self, allocation: Path) -> None:
        self._directory = allocation / "fence"

    def claim(self, claim: Claim) -> bool:
        """Take over; False where a later host has done so already."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._directory / claim.name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return self.latest() == claim

    def latest(self) -> Claim | None:
        """The claim that counts; None before there was any."""
        try:
            names = os.listdir(self._directory)  # the names are all that is wanted
        except FileNotFoundError:
            return None
        return max(filter(None, map(_claim, names)), default=None)


def _claim(name: str) -> Claim | None:
    found = _NAME.fullmatch(name)
    return Claim(int(found[1]), int(found[2]), found[3]) if found is not None else None
