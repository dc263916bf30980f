"""A kernel's directory, its unix sockets, and the connection file that tells the kernel both."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cellwright.errors import KernelStartError
from cellwright.kernels.messages import Channel

__all__ = ["INSIDE", "LISTENED", "Connection", "create_connection"]

INSIDE = "inside.json"
MAX_SOCKET_PATH = 107
PORTS: dict[str, int] = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4, "hb": 5}
LISTENED = tuple(PORTS)
"""The channels of a kernel, in the order in which their sockets are handed over."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A kernel's address and the key that signs what is said there."""

    directory: Path
    key: str

    @property
    def file(self) -> Path:
        """The connection file, which other Jupyter clients read too."""
        return self.directory / "connection.json"

    def url(self, channel: Channel) -> str:
        return f"ipc://{self.path(channel)}"

    def path(self, channel: str) -> str:
        """A channel's socket."""
        return f"{self.prefix}-{PORTS[channel]}"

    @property
    def prefix(self) -> str:
        """What the names of all its sockets begin with."""
        return str(self.directory / "s")


def create_connection(directory: Path, *, seen_at: str | None = None) -> Connection:
    """Make the directory, for this user only, and put a connection file into it.

    A kernel that sees the directory elsewhere, at ``seen_at``, finds another one there, named ``inside.json``.

    Raises:
        KernelStartError: the path is too long for a unix socket.
    """
    longest = len(os.fsencode(directory)) + len("/s-5")
    if longest > MAX_SOCKET_PATH:
        raise KernelStartError(
            f"The path of a kernel's sockets has {longest} bytes and may have {MAX_SOCKET_PATH}: {directory}",
            hint="Choose a shorter directory for run-time files",
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = Connection(directory, secrets.token_hex(32))
    _write(connection.file, connection.prefix, connection.key)
    if seen_at is not None:
        _write(directory / INSIDE, f"{seen_at}/{Path(connection.prefix).name}", connection.key)
    return connection


def _write(file: Path, prefix: str, key: str) -> None:
    content = {
        "transport": "ipc",
        "ip": prefix,
        "key": key,
        "signature_scheme": "hmac-sha256",
        **{f"{name}_port": port for name, port in PORTS.items()},
    }
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(content, stream)
