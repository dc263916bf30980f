"""Whose turn it is in an allocation's directory: a requeued job's host takes over from the one before it.

Each host puts an empty file into ``fence/`` whose name tells its job, how often that was restarted, and itself. The
last name is the host that counts; whoever finds another there than its own ends. Nothing is ever changed or removed, so
there is no race to lose; and a listing is up to date on file systems where a question for one file is not.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Claim", "Fence"]

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
