"""The kernels beside a runner's main one: had when a cell needs them, watched, and ended with it.

Which cell runs where is the engine's to say, in what order the runner's; how a kernel is started is its launcher's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc

from cellwright.errors import CellwrightError, KernelGone, KernelStartError
from cellwright.hosts import _cell_queue
from cellwright.hosts._watchdog import Watch
from cellwright.hosts.protocol import Checkpointed, EventBody, Output, Run, Side
from cellwright.kernels import Exit, Kernel

__all__ = ["SecondaryKernel", "SecondaryKernels", "exit_message"]

_ONLY_MAIN = "a cell of another language than the notebook's runs beside the kernel that has checkpoints"


@dataclass(frozen=True, slots=True)
class SecondaryKernel:
    """One secondary kernel, and the watch over it."""

    kernel: Kernel
    watch: Watch | None = None


@dataclass(slots=True)
class _Entry:
    """A kernel that is being started, or lives."""

    starting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    beside: SecondaryKernel | None = None


class SecondaryKernels:
    """All secondary kernels of one main kernel, by name."""

    def __init__(
        self,
        start: Callable[[Side], Awaitable[SecondaryKernel]],
        *,
        hear: Callable[[Kernel], None],
        begin: Callable[[Run], None],
        send: Callable[[Run, Kernel], None],
        tell: Callable[[EventBody], None],
        handle: Callable[[_cell_queue.QueueEvent], None],
    ) -> None:
        """``hear`` gets each kernel before any code runs on it, ``begin`` each job that is about to, ``send`` asks a kernel for one."""
        self._start = start
        self._hear = hear
        self._begin = begin
        self._send = send
        self._tell = tell
        self._happened = handle
        self._entries: dict[str, _Entry] = {}
        self._running: dict[str, str] = {}
        """The execution that each kernel has."""
        self._ended: dict[str, str] = {}
        """How kernels ended that had nothing to do then, until somebody is told."""
        self._lock = anyio.Lock()

    def __iter__(self) -> Iterator[SecondaryKernel]:
        return iter([entry.beside for entry in self._entries.values() if entry.beside is not None])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def find(self, name: str) -> Kernel | None:
        """The kernel of this name, if it lives."""
        entry = self._entries.get(name)
        return entry.beside.kernel if entry is not None and entry.beside is not None else None

    async def run(self, job: Run, side: Side, tasks: anyio.abc.TaskGroup) -> None:
        """Send a cell to the kernel of its language, which may have to be started first."""
        if job.checkpoint is not None:
            self._tell(Checkpointed(job.execution_id, refused=_ONLY_MAIN))
        self._begin(job)
        self._running[side.name] = job.execution_id
        if (end := self._ended.pop(side.name, None)) is not None:
            words = f"The {side.name} kernel was started again, empty: the last one ended. {end}\n"
            self._put_out(job, "stream", {"name": "stderr", "text": words})
        try:
            self._send(job, await self.have(side, tasks))
        except KernelGone as error:
            self._happened(_cell_queue.Lost(job.execution_id, error.message))
        except CellwrightError as error:
            self._could_not_start(job, error)

    def _could_not_start(self, job: Run, error: CellwrightError) -> None:
        words = f"{error.message}. {error.hint}" if error.hint else error.message
        content = {"ename": KernelStartError.__name__, "evalue": words, "traceback": []}
        self._put_out(job, "error", content)
        self._happened(_cell_queue.Replied(job.execution_id, {"status": "error", **content}))
        self._happened(_cell_queue.WentIdle(job.execution_id))

    def _put_out(self, job: Run, kind: str, content: dict[str, Any]) -> None:
        self._tell(Output(job.execution_id, kind, json.dumps(content).encode()))

    async def have(self, side: Side, tasks: anyio.abc.TaskGroup) -> Kernel:
        """The kernel of this name, started now if there is none; ``tasks`` follow it to its end.

        Raises:
            KernelStartError: it could not be had.
            KernelGone: somebody ended it before it was there.
        """
        async with self._lock:
            found = self.find(side.name)
            if found is not None:
                return found
            entry = self._entries[side.name] = _Entry()
            try:
                with entry.starting:
                    entry.beside = await self._start(side)
                    self._hear(entry.beside.kernel)
            finally:
                if entry.beside is None:
                    self._entries.pop(side.name, None)
            if entry.beside is None:
                raise KernelGone(f"The {side.name} kernel was ended before it was ready")
            tasks.start_soon(self._follow, side.name, entry.beside.kernel)
            return entry.beside.kernel

    def kill(self, name: str, reason: str) -> None:
        """End the kernel of this name, or its start."""
        entry = self._entries.get(name)
        if entry is None:
            return
        if entry.beside is None:
            entry.starting.cancel()
        else:
            entry.beside.kernel.process.kill_tree(reason)

    async def keep_limits(self) -> None:
        """End those that are over a limit."""
        for beside in self:
            if beside.watch is not None and (hit := await anyio.to_thread.run_sync(beside.watch.look)):
                beside.kernel.process.kill_tree(hit)

    async def stop(self, *, grace_s: float) -> None:
        """End all of them."""
        # Forgotten first: nobody has to be told of an end that was asked for.
        entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            if entry.beside is None:
                entry.starting.cancel()
            else:
                await entry.beside.kernel.stop(grace_s=grace_s)

    async def _follow(self, name: str, kernel: Kernel) -> None:
        end = await kernel.wait()
        entry = self._entries.get(name)
        if entry is not None and entry.beside is not None and entry.beside.kernel is kernel:
            del self._entries[name]
            self._lost(name, exit_message(end))

    def _lost(self, name: str, words: str) -> None:
        execution_id = self._running.pop(name, None)
        before = self._ended[name] = words
        if execution_id is not None:
            # Whoever waits for that cell is told; where it had ended before, whoever runs the next.
            message = f"The {name} kernel ended, and its variables with it. {before}"
            self._happened(_cell_queue.Lost(execution_id, message))


def exit_message(end: Exit) -> str:
    """A sentence about how a kernel ended."""
    # A limit is told with what to do about it: whoever reads the execution's end may read nothing else.
    return f"{end.message}. {end.next_step}" if end.cause == "limit" else end.message
