"""Watches what no hard limit keeps: the memory of a kernel's whole tree, and what it writes to its directory.

Looks and tells (``look`` returns the limit that was passed); whoever asked ends the kernel.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from cellwright.kernels import Kernel
from cellwright.sandbox.exits import LimitHit, over_disk, over_files, over_memory
from cellwright.sandbox.places import Place
from cellwright.sandbox.policy import Policy

__all__ = ["Watch"]

# Looking at a directory may take no more than this part of the time.
_SHARE = 10
_BLOCK = 512


@dataclass(slots=True)
class _Usage:
    used: int = 0
    files: int = 0


class Watch:
    """Looks after one kernel."""

    def __init__(self, kernel: Kernel, place: Place, policy: Policy) -> None:
        self._kernel = kernel
        # Without a mount namespace temporary files lie on the disk, beside the sockets.
        self._directories = [str(kernel.directory / "tmp")]
        # What is in memory is limited by its size.
        if kernel.line is None or kernel.line.layer is None:
            self._directories.append(place.written)
        self._policy = policy
        # A folder of the person's own is not empty: what was there before is not the session's.
        self._before = _usage([place.written]) if place.mode == "direct" else _Usage()
        self._next_look = 0.0

    def look(self) -> LimitHit | None:
        """The limit that the kernel is over, if it is. Blocking."""
        return self._memory() or self._disk()

    def _memory(self) -> LimitHit | None:
        limit = self._policy.memory_bytes
        process = self._kernel.process
        if process.in_group:  # which keeps the limit itself
            return None
        # The quick count has shared pages in it more than once, and can only be too high.
        if limit is None or process.resident_bytes() <= limit:
            return None
        used = process.memory_bytes()
        return over_memory(self._policy, used) if used > limit else None

    def _disk(self) -> LimitHit | None:
        begun = time.monotonic()
        if begun < self._next_look:
            return None
        now = _usage(self._directories)
        self._next_look = time.monotonic() + _SHARE * (time.monotonic() - begun)
        if now.used - self._before.used > self._policy.disk_bytes:
            return over_disk(self._policy, now.used - self._before.used)
        if now.files - self._before.files > self._policy.disk_files:
            return over_files(self._policy, now.files - self._before.files)
        return None


def _usage(directories: list[str]) -> _Usage:
    total = _Usage()
    ahead = list(directories)
    while ahead:
        try:
            entries = os.scandir(ahead.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                _count(entry, total, ahead)
    return total


def _count(entry: os.DirEntry[str], total: _Usage, ahead: list[str]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        total.used += status.st_blocks * _BLOCK
        total.files += 1
        if entry.is_dir(follow_symlinks=False):
            ahead.append(entry.path)
    except OSError:  # it was deleted meanwhile
        return
