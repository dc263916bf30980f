"""Moves a new process into its cgroup and onto its processors, before it does anything else.

Everything that it starts later is born there. Which group and which processors is the host's to say.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = ["join"]


def join(group_fd: int, processors: Sequence[int]) -> None:
    """Enter the group behind the descriptor, if there is one, and close it; run on these processors, if any.

    Raises:
        OSError: the group is gone, and so is whoever asked for this process.
    """
    if group_fd >= 0:
        try:
            os.write(group_fd, b"0")
        finally:
            os.close(group_fd)
    if processors:
        os.sched_setaffinity(0, processors)
