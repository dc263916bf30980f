"""The lifetime of a kernel and the explanation of its end: a process of ours (``processes``), or one elsewhere
(``jupyter.lifetime``).
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import anyio

from cellwright.errors import KernelError
from cellwright.sandbox.exit_reasons import V8_IS_FULL, LimitHit
from cellwright.sandbox.policy import Policy

__all__ = ["Exit", "Lifetime", "QuickCount", "explain_exit"]


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


class Lifetime(ABC):
    """The lifetime of one kernel, from its start to its explained end."""

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
        """Whether its sandbox goes on when it ends."""
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


# Why a kernel ended: a status becomes a cause, a sentence and the next step. Pure (processes finds the
# facts).

Cause = Literal["exit", "signal", "out_of_memory", "killed", "limit", "culled", "unreachable", "unknown"]

RESTART = "Run the cells again in a new kernel"

CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a kernel's process ended."""

    code: int | None
    signal: int | None
    cause: Cause
    message: str
    next_step: str
    exit_output: str = ""
    """The end of what the process wrote to its original stderr; for a crash, where it happened."""


def explain_exit(
    status: int | None,
    *,
    killed_by_us: str | None,
    oom_kills_seen: bool,
    exit_output: str = "",
    limit: LimitHit | None = None,
) -> Exit:
    """Explain a status as ``os.waitstatus_to_exitcode`` gives it; None is one that nobody could read."""
    if limit is not None:
        number = -status if status is not None and status < 0 else None
        return Exit(None, number, "limit", limit.message, limit.next_step, exit_output)
    if killed_by_us is not None:
        number = -status if status is not None and status < 0 else None
        code = status if status is not None and status >= 0 else None
        return Exit(code, number, "killed", f"The kernel was ended: {killed_by_us}", RESTART, exit_output)
    if status is None:
        message = "The kernel ended and its status was lost with the process that started it"
        return Exit(None, None, "unknown", message, RESTART, exit_output)
    if status >= 0:
        message = f"The kernel's process exited by itself with code {status}"
        step = f"{RESTART}; look for a call of exit, quit, os._exit or Deno.exit in the last cell"
        return Exit(status, None, "exit", message, step, exit_output)
    return _explain_signal(-status, oom_kills_seen=oom_kills_seen, exit_output=exit_output)


def _explain_signal(number: int, *, oom_kills_seen: bool, exit_output: str) -> Exit:
    if V8_IS_FULL.search(exit_output):
        message = "The kernel's heap was full: V8 lets it grow no further"
        step = f"{RESTART}; use less memory at once (samples, chunks, fewer copies)"
        return Exit(None, number, "out_of_memory", message, step, exit_output)
    if number == signal.SIGKILL and oom_kills_seen:
        message = "The system ran out of memory and ended the kernel's process"
        step = "Use less memory at once (smaller samples, chunks, fewer copies), or close other sessions"
        return Exit(None, number, "out_of_memory", message, step, exit_output)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number in CRASHES:
        message = f"The kernel's process crashed in native code ({name})"
        step = f"{RESTART}; the last call into a compiled library is the likely cause"
    else:
        message = f"Somebody ended the kernel's process with {name}"
        step = RESTART
    return Exit(None, number, "signal", message, step, exit_output)
