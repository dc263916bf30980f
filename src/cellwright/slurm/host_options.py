"""Options that the engine writes down with an allocation, for its host to begin with.

So the first kernel's step is started while the login side is still on its way, and an allocation that nobody comes to is
given back in time. It changes nothing else: what an engine says when it attaches is what counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cellwright.hosts.launchers import start_environment
from cellwright.hosts.protocol import HostOptions

__all__ = ["Expectation", "expectation", "read_expectation", "write_expectation"]


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
