"""Runs one session's queue: carries out what ``cell_queue`` decides and turns its kernels' messages into host events.

There is one kernel for the notebook's own language, and others beside it (``secondary_kernels``) for cells of other languages. It decides nothing about order, time-outs or ends (see ``cell_queue``), starts no processes (see ``kernels``) and keeps no
journal (its ``report`` does).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, assert_never

import anyio
import anyio.abc
import msgspec

from cellwright.errors import HostError, KernelBusy, KernelError, KernelGone
from cellwright.hosts import _cell_queue
from cellwright.hosts._checkpoints import Checkpointing, CheckpointRing
from cellwright.hosts._comms import COMMS, CommAllowance, comm_of
from cellwright.hosts._questions import Questions
from cellwright.hosts._secondary_kernels import SecondaryKernel, SecondaryKernels, exit_message
from cellwright.hosts._watchdog import Watch
from cellwright.hosts.protocol import (
    WIDGETS_REQUEST,
    CheckpointsDropped,
    CheckpointStatus,
    Comm,
    DigestFailure,
    EventBody,
    Finished,
    HostOptions,
    KernelDied,
    KernelStatus,
    NetworkUsed,
    Output,
    Run,
    Side,
    Started,
)
from cellwright.kernels import Exit, Kernel, Message, MonitorChannel
from cellwright.sandbox.exit_reasons import explain_error

__all__ = ["OUTPUTS", "KernelRunner", "output_of", "reply_of"]

log = logging.getLogger(__name__)

_STOP_GRACE_S = 2.0

_EXCHANGE_S = 1.0


def _send(job: Run, kernel: Kernel) -> None:
    """Ask a kernel for a run.

    Raises:
        KernelGone: it has ended.
    """
    kernel.client.execute(
        job.code,
        message_id=job.execution_id,
        store_history=job.store_history,
        language=job.language,
        files=job.files,
    )


class KernelRunner:
    """Owns one started kernel until it ends."""

    def __init__(
        self,
        kernel_id: str,
        kernel: Kernel,
        options: Callable[[], HostOptions],
        report: Callable[[str, EventBody], None],
        *,
        watch: Watch | None = None,
        ring: CheckpointRing | None = None,
        start_secondary: Callable[[Side], Awaitable[SecondaryKernel]],
        explain: Callable[[Exit], Awaitable[tuple[Exit, bool]]],
    ) -> None:
        self.kernel_id = kernel_id
        self.kernel = kernel
        self.watch = watch
        """Looks after its memory and its disk, if it is confined."""
        self.ring = ring
        """Its checkpoints, if it can have any; they may outlive it."""
        self.made_way = False
        """Whether it ended for another that goes on from a checkpoint."""
        self._options = options
        self._report = report
        self._explain = explain
        self._queue = _cell_queue.Queue()
        self._checkpointing = Checkpointing(kernel, ring, tell=self._tell, in_background=self._in_background)
        self._budgets = Budgets()
        self._comms = CommAllowance()
        self._started_at: dict[str, float] = {}
        self._timers = Timers(self.handle)
        self.questions = Questions(
            timeout_s=lambda: options().input_timeout_s,
            report=self._tell,
            hold=self._timers.hold,
            go_on=self._timers.go_on,
        )
        """The question that its code waits with."""
        self._tasks: anyio.abc.TaskGroup | None = None
        self.secondary = SecondaryKernels(
            start_secondary,
            hear=self._hear,
            begin=self._begin,
            send=_send,
            tell=self._tell,
            handle=self.handle,
        )
        """The kernels beside it, for cells of other languages."""
        self._expected_end = False
        self._exit_code: int | None = None
        self.last_active = time.monotonic()
        self.ended = anyio.Event()

    def _tell(self, body: EventBody) -> None:
        self._report(self.kernel_id, body)

    @property
    def running(self) -> str | None:
        """The execution that runs now."""
        return self._queue.running.job.execution_id if self._queue.running is not None else None

    @property
    def busy(self) -> bool:
        return self._queue.running is not None

    @property
    def stopping(self) -> bool:
        return self._queue.running is not None and self._queue.running.stopping is not None

    @property
    def has_work(self) -> bool:
        return self.busy or bool(self._queue.waiting)

    def status(self) -> KernelStatus:
        return KernelStatus(
            kernel_id=self.kernel_id,
            pid=self.kernel.process.pid,
            running=self.running,
            waiting=tuple(job.execution_id for job in self._queue.waiting),
            memory_bytes=sum(kernel.process.last_memory_bytes() for kernel in self.kernels),
            question=self.questions.current,
        )

    @property
    def kernels(self) -> list[Kernel]:
        """The main kernel and those beside it."""
        return [self.kernel, *(beside.kernel for beside in self.secondary)]

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the kernel to its end and report that end last; started once work can be submitted."""
        self._hear(self.kernel)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                if self._line is not None and self._line.layer is not None:
                    tasks.start_soon(self._exchange_files, self._line)
                task_status.started()
                await self._follow_to_its_end()
                tasks.cancel_scope.cancel()
        except (
            Exception
        ):  # boundary: whatever fails in looking after one kernel ends that kernel, and no other
            log.exception("runner_failed", extra={"kernel": self.kernel_id})
            self.kernel.process.kill_tree("it could not be looked after; the host's log has the reason")
            await self._follow_to_its_end()

    async def _follow_to_its_end(self) -> None:
        end, expected = await self._explain(await self.kernel.wait())
        self._expected_end = self._expected_end or expected
        await self.secondary.stop(grace_s=0)
        self._close(end)

    def _hear(self, kernel: Kernel) -> None:
        """Listen to what a kernel says, and what it does on the network."""
        kernel.client.on_message = partial(self._on_message, kernel)
        if kernel.proxy_socket is not None:
            kernel.proxy_socket.execution = lambda: self.running
            kernel.proxy_socket.kernel = lambda: self.kernel_id
            kernel.proxy_socket.told = lambda entry: self._tell(NetworkUsed(entry))

    def handle(self, event: _cell_queue.QueueEvent) -> None:
        """Settle an event and act on it."""
        self.last_active = time.monotonic()
        self._queue, effects = _cell_queue.advance(self._queue, event)
        for effect in effects:
            self._act(effect)

    async def ask(
        self, kind: str, content: dict[str, Any], *, timeout_s: float, side: Side | None = None
    ) -> dict[str, Any]:
        """Send one shell request outside the queue, to the main kernel or one beside it.

        Raises:
            KernelBusy: a cell runs, and the kernel would answer only after it.
            KernelGone: the kernel ended.
            KernelStartError: the one beside it could not be had.
        """
        if self.ended.is_set() or self._tasks is None:
            raise KernelGone(f"Kernel {self.kernel_id} has ended", hint="Run a cell to start a new one")
        self._refuse_when_busy()
        self.last_active = time.monotonic()
        kernel = self.kernel if side is None else await self.secondary.have(side, self._tasks)
        if kind != WIDGETS_REQUEST:
            return await kernel.client.request(kind, content, timeout_s=timeout_s)
        # A widget's code changes what a checkpoint that was taken ahead would have.
        self._checkpointing.sent()
        try:
            return await kernel.client.request(kind, content, timeout_s=timeout_s)
        except TimeoutError:
            self._in_background(self._interrupt_request, kernel)
            raise

    @property
    def was_stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._expected_end

    async def freeze(self, checkpoint_id: str, name: str | None) -> CheckpointStatus:
        """Take a checkpoint.

        Raises:
            CheckpointRefused: it cannot be taken now, with the reason.
            KernelBusy: a cell runs.
        """
        self._refuse_when_busy()
        self.last_active = time.monotonic()
        return await self._checkpointing.take(checkpoint_id, name)

    async def keep_limits(self) -> None:
        """End the kernel if it is over a limit; over that of memory, its checkpoints go first, but for the newest."""
        await self.secondary.keep_limits()
        if self.watch is None:
            return
        hit = await anyio.to_thread.run_sync(self.watch.look)
        # A group has ended something by then: what its checkpoints would free comes too late.
        is_watched = not self.kernel.process.in_group
        while hit is not None and hit.of_memory and is_watched and self.ring is not None:
            gone = await self.ring.drop_oldest()
            if gone is None:
                break
            self._tell(CheckpointsDropped((gone,)))
            hit = await anyio.to_thread.run_sync(self.watch.look)
        if hit is not None:
            self.kernel.process.kill_tree(hit)

    async def make_way(self) -> None:
        """End the kernel at once, for another that goes on from one of its checkpoints."""
        self._expected_end = self.made_way = True
        await self.kernel.stop(grace_s=0)
        await self.ended.wait()

    async def stop(self) -> None:
        """End the kernel and everything it started; returns when its end is reported."""
        self._expected_end = True
        await self.kernel.stop(grace_s=0 if self.busy else _STOP_GRACE_S)
        await self.ended.wait()

    def _refuse_when_busy(self) -> None:
        if self.busy:
            raise KernelBusy(
                f"Kernel {self.kernel_id} is running a cell",
                hint="Wait for the execution to end, or cancel it, then ask again",
            )

    # Effects -----------------------------------------------------------------------------------------------------

    def _act(self, effect: _cell_queue.Effect) -> None:
        match effect:
            case _cell_queue.SendExecute(job) if job.side is not None:
                self._in_background(self._run_secondary, job, job.side)
            case _cell_queue.SendExecute(job) if job.checkpoint is not None:
                self._in_background(self._checkpoint_then_send, job, job.checkpoint)
            case _cell_queue.SendExecute(job) if self._line is not None and not self._line.is_shown:
                self._in_background(self._bring_in_then_send, self._line, job)
            case _cell_queue.SendExecute(job):
                self._send(job)
            case _cell_queue.StartTimer(timer, execution_id, seconds):
                grace_s = self._options().interrupt_grace_s
                self._timers.start(timer, execution_id, grace_s if seconds is None else seconds)
            case _cell_queue.SendInterrupt():
                if self.running is not None:
                    self.questions.ended(self.running)
                self._in_background(self._interrupt)
            case _cell_queue.Kill(reason):
                self._kill(reason)
            case _cell_queue.End():
                self._end(effect)
            case _:
                assert_never(effect)

    def _in_background(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        if self._tasks is None:
            raise HostError(f"Kernel {self.kernel_id} is given work before it is looked after")
        self._tasks.start_soon(work, *arguments)

    def _send(self, job: Run) -> None:
        self._begin(job)
        _send(job, self.kernel)

    def _begin(self, job: Run) -> None:
        options = self._options()
        self._checkpointing.sent()
        self._budgets.add(job.execution_id, options.max_output_bytes, options.max_output_messages)
        self._started_at[job.execution_id] = time.monotonic()
        self._tell(Started(job.execution_id))

    def _kill(self, reason: str) -> None:
        """End the kernel of what runs."""
        side = self._running_side
        if side is None:
            self.kernel.process.kill_tree(reason)
        else:
            self.secondary.kill(side.name, reason)

    def _end(self, end: _cell_queue.End) -> None:
        if self.questions.waiting is not None:
            self.questions.ended(end.execution_id)
        self._timers.ended(end.execution_id)
        started = self._started_at.pop(end.execution_id, None)
        budget = self._budgets.get(end.execution_id)
        for kind, content in budget.tail() if budget is not None else ():
            self._tell(Output(end.execution_id, kind, content))
        reply = end.reply or {}
        told = reply.get("cellwright") or {}
        failed = reply.get("status") == "error"
        error = {key: reply.get(key) for key in ("ename", "evalue", "traceback")} if failed else None
        finished = Finished(
            execution_id=end.execution_id,
            state=end.state,
            seconds=time.monotonic() - started if started is not None else 0.0,
            execution_count=reply.get("execution_count"),
            error=error,
            reason=self._told(end.reason or self._explanation(error)),
            dropped_bytes=told.get("dropped_bytes", 0) + (budget.dropped_bytes if budget else 0),
            dropped_messages=told.get("dropped_messages", 0) + (budget.all_dropped if budget else 0),
            exit_code=self._exit_code if end.state == "died" else told.get("exit_code"),
            digest_failures=tuple(told.get("digest_failures", ())),
        )
        self._tell(finished)
        if not self.ended.is_set():
            self._checkpointing.ended(end.execution_id, went_well=end.state == "ok" and not self.has_work)

    def _explanation(self, error: dict[str, Any] | None) -> str | None:
        """Which limit of the sandbox an error comes from, if it does."""
        if error is None or (policy := self.kernel.process.policy) is None:
            return None
        return explain_error(str(error["ename"]), str(error["evalue"]), policy)

    def _told(self, reason: str | None) -> str | None:
        """The reason for an end, and which of its files are not safe."""
        unsaved = self._line.unsaved if self._line is not None else ""
        return ". ".join(part for part in (reason, unsaved) if part) or None

    async def _interrupt(self) -> None:
        kernel = self._running_kernel
        # A kernel too busy to take the interrupt is killed when its grace is over; one that is gone needs none.
        with contextlib.suppress(TimeoutError, KernelError):
            if kernel is not None:
                await kernel.interrupt()

    async def _interrupt_request(self, kernel: Kernel) -> None:
        with contextlib.suppress(TimeoutError, KernelError):
            if not self.busy:
                await kernel.interrupt()

    @property
    def _running_side(self) -> Side | None:
        return self._queue.running.job.side if self._queue.running is not None else None

    @property
    def _running_kernel(self) -> Kernel | None:
        """The kernel of what runs, as far as it is there."""
        side = self._running_side
        return self.kernel if side is None else self.secondary.find(side.name)

    async def _run_secondary(self, job: Run, side: Side) -> None:
        """Run a cell on the kernel of its own language."""
        if self._line is not None and not self._line.is_shown:
            await self._line.bring_in()
        if self._tasks is not None:
            await self.secondary.run(job, side, self._tasks)

    # Messages ----------------------------------------------------------------------------------------------------

    def _on_message(self, kernel: Kernel, message: Message) -> None:
        if message.parent_id == self.running and kernel is not self._running_kernel:
            return  # it speaks of a cell that another one runs
        if message.channel == "iopub":
            self._on_iopub(message)
        elif message.kind == "input_request":
            self.questions.take(kernel, message, running=self.running)
        elif message.kind == "execute_reply":
            self.handle(_cell_queue.Replied(message.parent_id, reply_of(message.content, message.metadata)))

    def _on_iopub(self, message: Message) -> None:
        if message.kind == "execute_input":
            self.handle(_cell_queue.Began(message.parent_id))
        elif message.kind == "status":
            if (ended := self._budgets.get(message.parent_id)) is not None and b'"idle"' in message.content:
                ended.dropped_elsewhere = dropped_of(message.metadata)
                self._went_idle(message.parent_id)
        elif message.kind in COMMS:
            if (content := comm_of(message.content)) is not None and self._comms.admit(len(content)):
                self._tell(Comm(message.kind, content))
        elif message.kind in OUTPUTS and (budget := self._budgets.get(message.parent_id)) is not None:
            kind, content = output_of(message.kind, message.content)
            if kind == "error" and (running := self._queue.running) is not None:
                content = _stopped_as(running, message.parent_id, content)
            if budget.admit(kind, content):
                self._tell(Output(message.parent_id, kind, content))

    def _went_idle(self, execution_id: str) -> None:
        if self._line is None or self._line.is_saved:
            self.handle(_cell_queue.WentIdle(execution_id))
        else:
            self.handle(_cell_queue.Settles(execution_id))
            self._in_background(self._save_then_idle, self._line, execution_id)

    # Files -------------------------------------------------------------------------------------------------------

    @property
    def _line(self) -> MonitorChannel | None:
        """The way to its files, where they may be in memory."""
        return self.kernel.line

    async def _bring_in_then_send(self, line: MonitorChannel, job: Run) -> None:
        """Let a cell find what was put there before it was asked for."""
        await line.bring_in()
        self._send(job)

    async def _checkpoint_then_send(self, job: Run, checkpoint_id: str) -> None:
        """Freeze the kernel before a cell."""
        if self._line is not None and not self._line.is_shown:
            await self._line.bring_in()
        await self._checkpointing.before(job, checkpoint_id, lambda: self._send(job))

    async def _save_then_idle(self, line: MonitorChannel, execution_id: str) -> None:
        """Let an execution end once its files are saved, so that whoever hears of its end finds them."""
        await line.save()
        self.handle(_cell_queue.WentIdle(execution_id))

    async def _exchange_files(self, line: MonitorChannel) -> None:
        """While a cell runs, show others its files, and it theirs, with a little delay."""
        while True:
            await anyio.sleep(_EXCHANGE_S)
            if self.busy:
                await line.bring_in()
                await line.save()

    # The end -----------------------------------------------------------------------------------------------------

    def _close(self, end: Exit) -> None:
        self._exit_code = -end.signal if end.signal else end.code
        self.handle(_cell_queue.Died(exit_message(end)))
        self._timers.stop()
        died = KernelDied(
            cause=end.cause,
            message=end.message,
            next_step=end.next_step,
            code=end.code,
            signal=end.signal,
            expected=self._expected_end,
            checkpoints=self.ring.ids if self.ring is not None and not self._expected_end else (),
        )
        self._tell(died)
        self.ended.set()


# The timers of one kernel's queue: each tells the queue that it ran out, unless its execution ended before.


class Timers:
    """Those that are running."""

    def __init__(self, handle: Callable[[_cell_queue.QueueEvent], None]) -> None:
        self._handle = handle
        self._running: dict[tuple[_cell_queue.Timer, str], asyncio.TimerHandle] = {}
        self._held: dict[str, float] = {}
        """What is left of the time of executions whose clock stands still."""

    def start(self, timer: _cell_queue.Timer, execution_id: str, seconds: float) -> None:
        expired = _cell_queue.Expired(timer, execution_id)
        self._running[timer, execution_id] = asyncio.get_running_loop().call_later(
            seconds, self._handle, expired
        )

    def hold(self, execution_id: str) -> None:
        """Stop the clock of a cell for a while."""
        if (handle := self._running.pop(("cell", execution_id), None)) is not None:
            handle.cancel()
            self._held[execution_id] = max(0.0, handle.when() - asyncio.get_running_loop().time())

    def go_on(self, execution_id: str) -> None:
        """Start it again, with the time that was left."""
        if (left := self._held.pop(execution_id, None)) is not None:
            self.start("cell", execution_id, left)

    def ended(self, execution_id: str) -> None:
        """Stop those of an execution."""
        self._held.pop(execution_id, None)
        for key in [key for key in self._running if key[1] == execution_id]:
            self._running.pop(key).cancel()

    def stop(self) -> None:
        """Stop all."""
        for handle in self._running.values():
            handle.cancel()


# Bounds what one execution may add to the journal, for kernels that do not cap their output themselves.

# Threads of a cell may print after it ended; beyond this many cells back, nobody is listening any more.
_REMEMBERED_EXECUTIONS = 64

# Room above the kernel's own cap for JSON escapes and for the stand-ins that it puts in place of what it dropped.
_SLACK = 2.0

_TAIL_SHARE = 4


@dataclass(slots=True)
class OutputBudget:
    """One execution's allowance: the head goes through, the last part is kept as a tail, the rest is counted."""

    max_bytes: int
    max_messages: int
    dropped_bytes: int = 0
    dropped_messages: int = 0
    dropped_elsewhere: int = 0
    """Messages that did not even come here: a Jupyter server drops what comes too fast for it."""
    _bytes: int = 0
    _messages: int = 0
    _tail: deque[tuple[str, bytes]] = field(default_factory=deque)
    _tail_bytes: int = 0

    @property
    def all_dropped(self) -> int:
        """Messages that are missing, wherever they were dropped."""
        return self.dropped_messages + self.dropped_elsewhere

    def admit(self, kind: str, content: bytes) -> bool:
        """Say whether a message may pass now; one that may not is kept for the tail or counted as dropped."""
        if not self._tail and not self.dropped_messages and self._fits(len(content)):
            self._bytes += len(content)
            self._messages += 1
            return True
        self._keep_in_tail(kind, content)
        return False

    def tail(self) -> Iterator[tuple[str, bytes]]:
        """Yield, once, what follows the head at the end: a line that tells what is missing, then the tail."""
        if self.dropped_messages:
            yield "stream", _marker(self.dropped_bytes, self.dropped_messages, self.max_bytes)
        while self._tail:
            yield self._tail.popleft()
        self._tail_bytes = 0

    def _fits(self, size: int) -> bool:
        return self._bytes + size <= self.max_bytes * _SLACK and self._messages < self.max_messages * _SLACK

    def _keep_in_tail(self, kind: str, content: bytes) -> None:
        self._tail.append((kind, content))
        self._tail_bytes += len(content)
        while (
            self._tail_bytes > self.max_bytes // _TAIL_SHARE
            or len(self._tail) > self.max_messages // _TAIL_SHARE
        ):
            _, dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self.dropped_bytes += len(dropped)
            self.dropped_messages += 1


def _marker(dropped_bytes: int, dropped_messages: int, limit: int) -> bytes:
    text = (
        f"\n[cellwright: {dropped_bytes:,} bytes in {dropped_messages:,} messages dropped here; "
        f"limit max_output_bytes={limit:,}]\n"
    )
    return msgspec.json.encode({"name": "stderr", "text": text})


class Budgets:
    """The budgets of the last executions, by execution."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, OutputBudget] = OrderedDict()

    def __contains__(self, execution_id: str) -> bool:
        return execution_id in self._held

    def add(self, execution_id: str, max_bytes: int, max_messages: int) -> None:
        self._held[execution_id] = OutputBudget(max_bytes, max_messages)
        if len(self._held) > _REMEMBERED_EXECUTIONS:
            self._held.popitem(last=False)

    def get(self, execution_id: str) -> OutputBudget | None:
        return self._held.get(execution_id)


# Checks the messages of kernels and gives them the shape that everybody after the host relies on. Pure.

# Whoever folds, copies or writes a message goes down as deep as it does, from wherever its own stack is.
_MAX_DEPTH = 100

_MAX_REPLY_BYTES = 4 << 20

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Content(msgspec.Struct):
    execution_count: _Count | None = None


class _Stream(_Content):
    name: str = "stdout"
    text: str = ""


class _Transient(msgspec.Struct):
    display_id: str | None = None


class _Display(_Content):
    data: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    transient: _Transient | None = None


class _Error(_Content):
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = []


class _Clearing(_Content):
    wait: bool = False


class _Reply(_Error):
    status: str = "error"


class _Report(msgspec.Struct):
    dropped_bytes: _Count = 0
    dropped_messages: _Count = 0
    exit_code: int | None = None
    digest_failures: Annotated[list[DigestFailure], msgspec.Meta(max_length=1_000)] = []


class _About(msgspec.Struct):
    cellwright: _Report | None = None


_decode_reply = msgspec.json.Decoder(_Reply).decode

_decode_about = msgspec.json.Decoder(_About).decode

_decode_whole = msgspec.json.Decoder(dict[str, Any]).decode

OUTPUTS: Mapping[str, type[_Content]] = {
    "stream": _Stream,
    "display_data": _Display,
    "execute_result": _Display,
    "update_display_data": _Display,
    "error": _Error,
    "clear_output": _Clearing,
}
"""The kinds of message that are outputs, each with its shape."""


def output_of(kind: str, content: bytes) -> tuple[str, bytes]:
    """An output's kind and content as they may be passed on."""
    try:
        return kind, _checked(kind, content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        # What Python writes by default and JSON does not know, and halves of characters, are no reason to lose it all.
        plain = json.dumps(json.loads(content, parse_constant=lambda _: None), ensure_ascii=False)
        return kind, _checked(kind, plain.encode("utf-8", "replace"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        words = (
            f"[cellwright: a {kind} message of the kernel was left out, for it is none: {str(error)[:200]}]\n"
        )
        return "stream", msgspec.json.encode({"name": "stderr", "text": words})


def _stopped_as(running: _cell_queue.Running, execution_id: str, content: bytes) -> bytes:
    """An error's content, told as a time-out where the running cell is stopped for that."""
    if running.stopping != "timeout" or running.job.execution_id != execution_id:
        return content
    error = _decode_whole(content)
    told = _cell_queue.stopped_as(running, error)
    return content if told is error else msgspec.json.encode(told)


def _checked(kind: str, content: bytes) -> bytes:
    # All of it: what a shape does not know is skipped without a look, and others will look.
    whole = _decode_whole(content)
    said = msgspec.convert(whole, OUTPUTS[kind])
    if isinstance(said, _Display):
        for mime, form in (said.data or {}).items():
            if not _is_form(mime, form):
                raise ValueError(f"its {mime[:100]} is no text")
    if content.count(b"[") + content.count(b"{") > _MAX_DEPTH:
        _refuse_deep(whole)
    return content


def _is_form(mime: str, form: Any) -> bool:
    if isinstance(form, str) or mime.endswith("json"):
        return True
    return isinstance(form, list) and all(isinstance(line, str) for line in form)


def _refuse_deep(said: dict[str, Any]) -> None:
    level: list[Any] = [said]
    for _ in range(_MAX_DEPTH):
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [value for values in inside for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")


def dropped_of(metadata: bytes) -> int:
    """How many messages were dropped on the way, where a message says so."""
    try:
        report = _decode_about(metadata).cellwright
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    return report.dropped_messages if report is not None else 0


def reply_of(content: bytes, metadata: bytes) -> dict[str, Any]:
    """The reply to an execution: ``status``, ``execution_count``, the error, and our own kernels' account."""
    try:
        reply, report = _decode_reply(content[:_MAX_REPLY_BYTES]), _decode_about(metadata).cellwright
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        evalue = f"the kernel's reply cannot be read: {str(error)[:200]}"
        reply, report = _Reply(ename="BadReply", evalue=evalue), None
    return {**msgspec.structs.asdict(reply), "cellwright": msgspec.structs.asdict(report or _Report())}
