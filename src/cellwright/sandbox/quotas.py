"""Keeps what a session writes within a hard quota: a file system in memory of that size, saved after every cell.

No ordinary user may limit a directory on a disk, but everybody may mount memory of a fixed size in namespaces of their
own. So the files of a kernel that lives are in memory, and in the session's own directory as they were when its last
cell ended. Whoever holds the kernel fills, saves and closes (``kernels``). Blocking.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cellwright.errors import KernelStartError
from cellwright.sandbox.mirrors import Mirror, Update
from cellwright.sandbox.policy import Mode, Policy

__all__ = ["MemoryLayer", "memory_of"]

MOST_IN_MEMORY = 256 << 20
"""A larger quota lies on the disk, where it can only be watched: so much memory is not a session's to take."""

# Before, memory cannot hold what an ordinary user's overlay notes on its files.
_FIRST_WITH_USER_ATTRIBUTES = (6, 6)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def memory_of(policy: Policy, mode: Mode) -> dict[str, int] | None:
    """The size of the file system in memory that holds what a session writes; None where that is the disk."""
    if mode == "direct" or policy.disk_bytes > MOST_IN_MEMORY:
        return None
    if mode == "overlay" and os.getuid() != 0 and _linux() < _FIRST_WITH_USER_ATTRIBUTES:
        return None
    return {"bytes": policy.disk_bytes, "inodes": policy.disk_files}


class MemoryLayer:
    """A directory in memory and the one on disk in which it is saved. Owns its descriptor of the former."""

    def __init__(self, descriptor: int, saved: Path, *, shared: bool) -> None:
        self.shared = shared
        """Whether what others put into the directory on disk comes in: it cannot below an overlay."""
        self.saved = saved
        self._memory = descriptor
        self._disk = os.open(saved, _DIRECTORY)
        size, status = _size(descriptor), os.fstat(descriptor)
        owner = (status.st_uid, status.st_gid) if os.getuid() == 0 else None
        # One pass may copy a file that is deleted meanwhile, and another in its place.
        self._outward = Mirror(self._memory, self._disk, room=2 * size)
        self._inward = Mirror(self._disk, self._memory, room=size, owner=owner, wary=True)

    def fill(self) -> None:
        """Bring in what was saved.

        Raises:
            KernelStartError: it does not fit.
        """
        done = self._inward.update()
        if done.left_out:
            raise KernelStartError(
                f"The session's files in {self.saved} do not fit in its quota, or cannot be read",
                hint="Raise max_session_disk or max_session_files, or delete files there",
            )
        self._outward.trust(done.changed)
        # What code changed and nobody has saved yet is not replaced by what somebody else changed.
        self._inward.spared = self._outward.differs

    def is_shown(self) -> bool:
        """Whether there is nothing to bring in. Quick: need not be called from a worker thread."""
        return not self.shared or self._inward.is_current()

    def is_saved(self) -> bool:
        """Whether there is nothing to save. Quick, too."""
        return self._outward.is_current()

    def bring_in(self) -> None:
        """Take over what others changed in the directory on disk, where it is shared."""
        if self.shared:
            self._outward.trust(self._inward.update().changed)

    def save(self) -> Update:
        """Save what changed, and tell what could not be."""
        done = self._outward.update()
        self._inward.trust(done.changed)
        if done.no_place and done.changed:
            # What was deleted goes last, and may have made the room that was missing.
            done = self._outward.update()
            self._inward.trust(done.changed)
        return done

    def close(self) -> None:
        os.close(self._memory)
        os.close(self._disk)


def _linux() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def _size(descriptor: int) -> int:
    found = os.fstatvfs(descriptor)
    return found.f_blocks * found.f_frsize
