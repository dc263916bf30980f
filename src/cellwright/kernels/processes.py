"""A kernel's process: its end, its signals, its tree. Speaks no Jupyter (see client).

The end is read from a pidfd, so nothing polls and no recycled number is ever signalled. Who started the process
knows its status: the fork server while it lives, this process otherwise.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import anyio

from cellwright.errors import KernelError
from cellwright.kernels.programs import SharedLimit
from cellwright.sandbox.cgroups import Group
from cellwright.sandbox.exit_reasons import V8_IS_FULL, LimitHit, ended_by_signal
from cellwright.sandbox.policy import Policy
from cellwright_kernel import descendants

__all__ = [
    "Exit",
    "ExitOutput",
    "KernelProcess",
    "Lifetime",
    "QuickCount",
    "Survivors",
    "adopt_orphans",
    "expected_child",
    "explain_exit",
    "pid_of",
    "reap",
    "reap_strangers",
]


# The end of what a process prints: read all the time, so that it never blocks, and kept only so far.

KEPT_BYTES = 8_000

READ_BYTES = 1 << 16


class ExitOutput:
    """Reads one pipe to its end and remembers the last few thousand bytes."""

    def __init__(self, *, noise: re.Pattern[str] | None = None, kept_bytes: int = KEPT_BYTES) -> None:
        """``noise`` is what the program always says and nobody wants to read."""
        self._kept = b""
        self._kept_bytes = kept_bytes
        self._noise = noise
        self._grown = anyio.Event()
        self._read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_fd, False)
        self._write_fd: int | None = write_fd

    @property
    def write_fd(self) -> int:
        """The end for the process, to be let go of with ``handed_over``."""
        if self._write_fd is None:
            raise ValueError("the pipe's end was handed over")
        return self._write_fd

    def handed_over(self) -> None:
        """The process has its end by now: close ours, so that its end is noticed."""
        if self._write_fd is not None:
            os.close(self._write_fd)
            self._write_fd = None

    async def run(self) -> None:
        """Read until every writer is gone; cancel it earlier where one outlives its use."""
        while True:
            await anyio.wait_readable(self._read_fd)
            if not self._take():
                return

    async def heard(self, words: re.Pattern[bytes]) -> bytes:
        """The first group of what the words match, once they were said; ``run`` must run."""
        while (found := words.search(self._kept)) is None:
            await self._grown.wait()
        return found[1]

    @property
    def text(self) -> str:
        """What is remembered, with anything that is in the pipe by now."""
        while self._take():
            pass
        text = self._kept.decode("utf-8", "replace")
        return (self._noise.sub("", text) if self._noise is not None else text).strip()

    def close(self) -> None:
        self.handed_over()
        if self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1

    def _take(self) -> bool:
        if self._read_fd < 0:
            return False
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return False
        self._kept = (self._kept + data)[-self._kept_bytes :]
        self._grown.set()
        self._grown = anyio.Event()
        return bool(data)


# The lifetime of a kernel and the explanation of its end: a process of ours (``processes``), or one
# elsewhere (``jupyter.lifetime``).


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
        self._counts_then: dict[tuple[int, int], QuickCount] | None = None
        self._memory_then = 0
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

    def group_limit(self) -> LimitHit | None:
        """The limit by which its group ended something that it started."""
        return None

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

    def last_memory_bytes(self) -> int:
        """The same, counted again only where one of its processes ran or was given pages since."""
        counts = self.quick_counts()
        if counts != self._counts_then:
            self._counts_then, self._memory_then = counts, self.memory_bytes()
        return self._memory_then


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


class Tree(Protocol):
    """A kernel's processes, where they are not simply all that is below it."""

    def pids(self) -> list[int]:
        """All of them."""
        ...

    def kill(self) -> None:
        """End those that are the kernel's and its code's."""
        ...

    @property
    def shares_group(self) -> bool:
        """Whether other kernels than this one are in its group."""
        ...


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_UNMAPPED = re.compile(rb"^(?:VmPTE|HugetlbPages):\s+(\d+) kB$", re.MULTILINE)


class KernelProcess(Lifetime):
    """One process that runs a kernel. Takes over the pidfd and the pipe of its exit output."""

    def __init__(
        self,
        pid: int,
        pidfd: int,
        *,
        status: Callable[[], Awaitable[int | None]],
        exit_output: ExitOutput,
        depth: int = 0,
        group: Group | None = None,
        tree: Tree | None = None,
    ) -> None:
        super().__init__(pid)
        self._tree = tree
        self._told: tuple[int] | None = None
        self._end_reported = anyio.Event()
        self._depth = depth
        self._group = group
        self._group_kills_before = group.oom_kills() if group is not None else 0
        self.shared_limit: SharedLimit | None = None
        """The limit of the kernel together with the process that forked it, where there is one."""
        self.exit_output = exit_output
        self._pidfd = pidfd
        self._status = status
        self._limit: LimitHit | None = None
        self._oom_kills_before = _oom_kills()
        self._watching = anyio.CancelScope(shield=True)
        self._counts: dict[tuple[int, int], QuickCount] = {}

    async def watch(self) -> None:
        """Notice the end and explain it; run exactly once, by whoever owns the process.

        Cancelling does not stop it, since an owner that gives up has yet to see the process end: ``abandon`` does.
        """
        try:
            with self._watching:
                await self._noticed()
                status = self._told[0] if self._told is not None else await self._status()
            if self._watching.cancelled_caught:
                status = None
            self._exit = explain_exit(
                status,
                killed_by_us=self._killed_by_us,
                oom_kills_seen=_oom_kills() > self._oom_kills_before,
                exit_output=self.exit_output.text,
                limit=self._limit or self._limit_behind(status),
            )
        finally:
            os.close(self._pidfd)
            self._pidfd = -1
        self._ended.set()

    async def _noticed(self) -> None:
        async with anyio.create_task_group() as either:

            async def then_go(wait: Callable[..., Awaitable[None]], *arguments: int) -> None:
                await wait(*arguments)
                either.cancel_scope.cancel()

            either.start_soon(then_go, anyio.wait_readable, self._pidfd)
            either.start_soon(then_go, self._end_reported.wait)

    def belong_to(self, tree: Tree) -> None:
        """From now on its sandbox outlives it: others say when it has ended, and what is its own is theirs to know."""
        self._tree = tree

    @property
    def is_outlived(self) -> bool:
        """Whether its sandbox goes on when it ends."""
        return self._tree is not None

    def report_end(self, status: int) -> None:
        """Somebody saw the kernel end, whose sandbox goes on."""
        self._told = (status,)
        self._end_reported.set()

    def _limit_behind(self, status: int | None) -> LimitHit | None:
        hit = self._behind_group(status)
        if hit is None and self.shared_limit is not None:
            hit = self.shared_limit(status)
        if hit is not None or status is None or status >= 0 or self.policy is None:
            return hit
        return ended_by_signal(self.policy, -status, self.exit_output.text)

    @property
    def in_group(self) -> bool:
        """Whether a group of its own keeps its limits."""
        return self._group is not None

    def group_limit(self) -> LimitHit | None:
        """The limit by which its group ended something that it started; None where that may have been another's."""
        return self._behind_group(None) if not self._shares_group else None

    @property
    def _shares_group(self) -> bool:
        return self._tree is not None and self._tree.shares_group

    def _behind_group(self, status: int | None) -> LimitHit | None:
        if self._group is None or (self._shares_group and status != -signal.SIGKILL):
            return None
        return self._group.limit_behind(status, self._group_kills_before)

    def abandon(self) -> None:
        """Stop watching a process that does not even die when it is killed."""
        self._watching.cancel()

    def signal(self, number: int) -> None:
        """Signal the process alone; one that has ended is left in peace."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def signal_group(self, number: int) -> None:
        """Signal the process and what it started in its own group."""
        if self._exit is None and self._pidfd >= 0:
            # Until its status was read a dead process keeps its number, so the group cannot be another's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader(), number)

    def _leader(self) -> int:
        """The kernel itself: a confined one is that many generations below its monitor."""
        pid = self.pid
        for _ in range(self._depth):
            below = descendants.children_of(pid)
            if not below:
                raise ProcessLookupError
            pid = below[0]
        return pid

    def kill_tree(self, reason: str | LimitHit) -> None:
        """End the kernel and everything below it; the reason is told in its Exit."""
        if self._exit is None and self._pidfd >= 0:
            if isinstance(reason, LimitHit):
                self._limit = self._limit or reason
            self._killed_by_us = self._killed_by_us or str(reason)
            if self._tree is not None:
                self._tree.kill()
                return
            if self._group is not None:
                self._group.kill()
            # One that was just forked may not be in its group yet.
            descendants.kill_tree(self.pid)

    def descendants(self) -> list[int]:
        """The processes below the kernel."""
        if self._exit is not None:
            return []
        below = self._tree.pids() if self._tree is not None else descendants.tree_of(self.pid)
        return [pid for pid in below if pid != self.pid]

    @property
    def is_ending(self) -> bool:
        """Whether the kernel, or something below it, ends just now and has memory that is counted nowhere."""
        return self._exit is None and any(map(descendants.is_ending, [self.pid, *self.descendants()]))

    def quick_counts(self) -> dict[tuple[int, int], QuickCount]:
        """Memory of the kernel and everything below it, by process and when that began."""
        pids = [self.pid, *self.descendants()] if self._exit is None else []
        self._counts = dict(_quick_count(pid, self._counts) for pid in pids)
        return self._counts

    def memory_bytes(self) -> int:
        """Memory of the kernel and everything below it; pages shared with siblings count in part.

        The system walks all pages of all these processes, for tens of milliseconds each.
        """
        return sum(map(_proportional_bytes, [self.pid, *self.descendants()])) if self._exit is None else 0


class Survivors:
    """Processes that must not outlive something; held by pidfd, so that no other is ever meant."""

    def __init__(self, pids: Collection[int]) -> None:
        self._pidfds: list[int] = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self._pidfds.append(os.pidfd_open(pid))

    def kill(self) -> None:
        """End those that still live, and forget all."""
        while self._pidfds:
            pidfd = self._pidfds.pop()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


def adopt_orphans() -> None:
    """Make this process the parent of processes whose own has died, such as kernels of a dead fork server."""
    descendants.become_subreaper()


# Which children a process has is a fact about the process, so this is one list for all of it.
_wanted: set[int] = set()


@contextlib.contextmanager
def expected_child(pid: int) -> Iterator[None]:
    """Keep a child from being taken for a stranger. Enter it before anything else can run."""
    _wanted.add(pid)
    try:
        yield
    finally:
        _wanted.discard(pid)


def reap_strangers(known: Collection[int] = ()) -> list[int]:
    """End and bury children of this process that are nobody's: what dead kernels left behind.

    Children that this package started are spared; ``known`` must hold those that others did and still want.
    Returns the numbers of the rest.
    """
    strangers = [
        pid for pid in descendants.children_of(os.getpid()) if pid not in known and pid not in _wanted
    ]
    for pid in strangers:
        descendants.kill_tree(pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return strangers


def reap(pid: int) -> int | None:
    """The exit status of a child of this process that has ended; None where it is not ours to know."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if reaped else None


def pid_of(pidfd: int) -> int:
    """The number of a process, as this one sees it.

    Raises:
        ValueError: it is a descriptor of something else.
    """
    told = Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="ascii")
    found = [line for line in told.splitlines() if line.startswith("Pid:")]
    if not found:
        raise ValueError("it is no descriptor of a process")
    return int(found[0].split()[1])


def _quick_count(
    pid: int, before: Mapping[tuple[int, int], QuickCount]
) -> tuple[tuple[int, int], QuickCount]:
    try:
        # The name before it is in parentheses, and may be anything.
        told = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        small, large, user, system, began, resident = (int(told[place]) for place in (7, 9, 11, 12, 19, 21))
    except (OSError, IndexError):
        return (pid, 0), QuickCount(0, 0)
    earlier = before.get((pid, began))
    worked = user + system
    unmapped = earlier.unmapped if earlier and earlier.worked == worked else _unmapped_bytes(pid)
    return (pid, began), QuickCount(
        resident * PAGE_BYTES + unmapped, (small + large) * PAGE_BYTES, worked, unmapped
    )


def _unmapped_bytes(pid: int) -> int:
    """What a process takes beside the pages that it sees: its page tables, and pages of the machine's store of large ones."""
    try:
        told = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    return sum(int(found) for found in _UNMAPPED.findall(told)) * 1024


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int) -> int:
    """The process's share of memory; 0 where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024 + _unmapped_bytes(pid)
    except PermissionError:
        # It made itself unreadable: then all that it has counts as its own.
        return _resident_bytes(pid) + _unmapped_bytes(pid)
    except OSError:
        pass
    return 0


def _oom_kills() -> int:
    """How many processes this machine has killed for want of memory so far."""
    try:
        for line in Path("/proc/vmstat").read_bytes().splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
