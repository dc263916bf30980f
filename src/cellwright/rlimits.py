"""Limits of our own processes: as many files as a process can have, and a bounded amount of memory.

The host and the daemon serve everybody. Should one of them be made to hold more than it ever needs, the allocation
fails where it is made, and the machine does not notice.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["OWN_MEMORY_BYTES", "limit_own_memory", "raise_file_limit", "unlimited_children"]

OWN_MEMORY_BYTES = 4 << 30
"""A hundred sessions take a few hundred MB of it."""


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us; a kernel takes about ten."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit_own_memory(most: int = OWN_MEMORY_BYTES) -> None:
    """Let this process have no more than its work takes. Its children begin with the same limit, and may raise it."""
    _own.most, _own.limited = most, True
    _own.set()


@contextmanager
def unlimited_children() -> Iterator[None]:
    """Start other people's programs in here: how much memory those have is not for us to say, or is said elsewhere."""
    _own.lifted += 1
    _own.set()
    try:
        yield
    finally:
        _own.lifted -= 1
        _own.set()


class _Own:
    """The limit on this process's memory, which all of its tasks share."""

    limited = False
    most = OWN_MEMORY_BYTES
    lifted = 0
    """How many are starting a program now."""

    def set(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        own = self.most if hard == resource.RLIM_INFINITY else min(hard, self.most)
        if self.limited:
            resource.setrlimit(resource.RLIMIT_DATA, (hard if self.lifted else own, hard))


_own = _Own()
