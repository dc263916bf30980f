"""The job that the fork server gives to a forked child: which kernel to become, and how. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """What a forked child needs to become a kernel; the descriptors are its own to close."""

    connection_file: str
    max_bytes: int
    max_messages: int
    stderr_fd: int
    ready_fd: int
    lifeline_fd: int
    control_fd: int
    line_fd: int
    profile: str
    plan: dict[str, Any] | None = None
    directory: str = ""
    group_fd: int = -1
    processors: tuple[int, ...] = ()
    listeners: tuple[int, ...] = ()
    """For each channel, where the kernel itself may not listen."""
