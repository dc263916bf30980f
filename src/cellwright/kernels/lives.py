"""What a kernel lives by, and how that ends: a process of ours (``processes``), or one elsewhere (``jupyter.lives``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import anyio

from cellwright.errors import KernelError
from cellwright.kernels.exits import Exit
from cellwright.sandbox.exit_reasons import LimitHit
from cellwright.sandbox.policy import Policy

__all__ = ["Life", "QuickCount"]


@dataclass(frozen=True, slots=True)
class QuickCount:
    """What the system tells of a process's memory without walking its pages."""

    resident: int
    """In bytes; what is shared counts in full for each who has it."""
    faulted: int
    """Every page that it was ever given, also in the place of one that it shared and wrote to."""
    worked: int = 0
    """How long it ran, in the system's ticks: one that did not took nothing."""
    unmapped: int = 0
    """What of the first is no page that it sees."""


class Life(ABC):
    """One kernel's, from its start to its explained end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        """The process, where it is one of this machine's; 0 where it is not."""
        self.end_expected = False
        """Whether it was asked to end, so that nobody waits for its last messages."""
        self.policy: Policy | None = None
        """The limits it runs under, if it is confined; they explain some ends."""
        self._killed_by_us: str | None = None
        self._exit: Exit | None = None
        self._ended = anyio.Event()

    async def wait(self) -> Exit:
        """How it ended, once it has. Any number of tasks may wait."""
        await self._ended.wait()
        if self._exit is None:
            raise RuntimeError("the process ended without an explanation")
        return self._exit

    @property
    def exit(self) -> Exit | None:
        """How it ended, or None while it lives."""
        return self._exit

    def expect_end(self, reason: str) -> None:
        """Note why it will end, where it was asked to; the first reason is the one that is told."""
        self.end_expected = True
        self._killed_by_us = self._killed_by_us or reason

    @abstractmethod
    async def watch(self) -> None:
        """Notice the end and explain it; run exactly once, by whoever owns it."""

    @abstractmethod
    def kill_tree(self, reason: str | LimitHit) -> None:
        """End the kernel and everything below it; the reason is told in its Exit."""

    def signal_group(self, number: int) -> None:
        """Signal the process and what it started in its own group."""
        raise KernelError(f"There is no process here that signal {number} could go to")

    @property
    def is_outlived(self) -> bool:
        """Whether its box goes on when it ends."""
        return False

    @property
    def in_group(self) -> bool:
        """Whether a group of its own keeps its limits."""
        return False

    def descendants(self) -> list[int]:
        """The processes below the kernel, of this machine."""
        return []

    @property
    def is_ending(self) -> bool:
        """Whether it ends just now and holds memory that is counted nowhere: not where it is another machine's."""
        return False

    def quick_counts(self) -> dict[tuple[int, int], QuickCount]:
        """Memory of this machine that it takes, by process and when that began."""
        return {}

    def memory_bytes(self) -> int:
        """Memory of this machine that it takes; pages shared with siblings count in part."""
        return 0
