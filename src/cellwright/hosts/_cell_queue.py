"""Decides what one kernel does next: a pure function from a queue and an event to a new queue and effects.

It sends nothing, starts no timer and knows no clock; ``runner`` carries the effects out and reports what happens.
Every race between a reply, a time-out, a cancellation and a death is settled here, where it can be tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, assert_never

from cellwright.hosts.protocol import ExecutionState, Run, earlier_failed

__all__ = [
    "Began",
    "Cancelled",
    "Died",
    "Effect",
    "End",
    "Expired",
    "HostEnds",
    "Interrupted",
    "Kill",
    "Lost",
    "MemoryShort",
    "Queue",
    "QueueEvent",
    "Replied",
    "SendExecute",
    "SendInterrupt",
    "Settles",
    "StartTimer",
    "Submitted",
    "Timer",
    "WentIdle",
    "advance",
    "stopped_as",
]

# The kernel sends its reply and its idle status on two sockets; once one is here the other is due, unless the kernel is
# kept from its work for a while: what it still puts out must not be lost then.
IDLE_DEADLINE_S = 30.0

Timer: TypeAlias = Literal["cell", "grace", "idle"]
StopCause: TypeAlias = Literal["timeout", "cancelled", "memory", "host"]


@dataclass(frozen=True, slots=True)
class Running:
    """The job that the kernel has, and how far its end has come."""

    job: Run
    begun: bool = False
    reply: dict[str, Any] | None = None
    idle: bool = False
    settling: bool = False
    """Whether its code has ended, and what it left is being saved."""
    stopping: StopCause | None = None
    why: str = ""
    """What ends its host, where that is why it is stopped."""
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """One kernel's work: what runs and what waits."""

    running: Running | None = None
    waiting: tuple[Run, ...] = ()


# What happens ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submitted:
    job: Run


@dataclass(frozen=True, slots=True)
class Began:
    """The kernel took the job up; before that an interrupt would be lost."""

    execution_id: str


@dataclass(frozen=True, slots=True)
class Replied:
    execution_id: str
    reply: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settles:
    """The kernel is idle, and goes by that name once what the job left is saved: a disk may take its time."""

    execution_id: str


@dataclass(frozen=True, slots=True)
class WentIdle:
    execution_id: str


@dataclass(frozen=True, slots=True)
class Expired:
    """A timer that was started ran out."""

    timer: Timer
    execution_id: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    execution_id: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """All of the kernel's work is to stop."""


@dataclass(frozen=True, slots=True)
class MemoryShort:
    """The machine's memory is short, and this kernel was chosen to give way."""


@dataclass(frozen=True, slots=True)
class HostEnds:
    """The host is about to end its kernels and itself; ``why`` in words."""

    why: str


@dataclass(frozen=True, slots=True)
class Died:
    """The kernel's process ended; ``message`` says why."""

    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The job's own kernel ended, beside the main one, which goes on; ``message`` says why."""

    execution_id: str
    message: str


QueueEvent: TypeAlias = (
    Submitted
    | Began
    | Replied
    | Settles
    | WentIdle
    | Expired
    | Cancelled
    | Interrupted
    | MemoryShort
    | HostEnds
    | Lost
    | Died
)

# What to do ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendExecute:
    job: Run


@dataclass(frozen=True, slots=True)
class SendInterrupt:
    pass


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Report ``Expired`` after this time; ``none`` means the host's grace for interrupted cells."""

    timer: Timer
    execution_id: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Kill:
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """Tell the engine that an execution is over."""

    execution_id: str
    state: ExecutionState
    reply: dict[str, Any] | None = None
    reason: str | None = None


Effect: TypeAlias = SendExecute | SendInterrupt | StartTimer | Kill | End
Step: TypeAlias = tuple[Queue, list[Effect]]


def advance(queue: Queue, event: QueueEvent) -> Step:  # noqa: C901, PLR0911, PLR0912  # one for each of the closed set
    """Settle one event; whatever concerns a job that is no longer here changes nothing."""
    match event:
        case Submitted(job):
            return _next_job(replace(queue, waiting=(*queue.waiting, job)), [])
        case Began(execution_id):
            return _on_running(queue, execution_id, lambda running: _began(queue, running))
        case Replied(execution_id, reply):
            return _on_running(queue, execution_id, lambda running: _replied(queue, running, reply))
        case Settles(execution_id):
            return _on_running(queue, execution_id, lambda running: _settles(queue, running))
        case WentIdle(execution_id):
            return _on_running(queue, execution_id, lambda running: _went_idle(queue, running))
        case Expired(timer, execution_id):
            return _on_running(queue, execution_id, lambda running: _expired(queue, running, timer))
        case Cancelled(execution_id):
            return _cancelled(queue, execution_id)
        case Interrupted():
            dropped = [_dropped(job, "The kernel was interrupted before this ran") for job in queue.waiting]
            return _stop(replace(queue, waiting=()), "cancelled", dropped)
        case MemoryShort():
            return _stop(queue, "memory", [])
        case HostEnds(why):
            return _host_ends(queue, why)
        case Lost(execution_id, message):
            return _on_running(queue, execution_id, lambda running: _lost(queue, running, message))
        case Died(message):
            return _died(queue, message)
        case _:
            assert_never(event)


def _on_running(queue: Queue, execution_id: str, settle: Callable[[Running], Step]) -> Step:
    if queue.running is None or queue.running.job.execution_id != execution_id:
        return queue, []
    return settle(queue.running)


def _began(queue: Queue, running: Running) -> Step:
    late: list[Effect] = [SendInterrupt()] if running.stopping is not None else []
    return replace(queue, running=replace(running, begun=True)), late


def _replied(queue: Queue, running: Running, reply: dict[str, Any]) -> Step:
    if running.idle:
        return _finish(queue, running, reply)
    timer = StartTimer("idle", running.job.execution_id, IDLE_DEADLINE_S)
    return replace(queue, running=replace(running, reply=reply)), [] if running.settling else [timer]


def _settles(queue: Queue, running: Running) -> Step:
    return replace(queue, running=replace(running, settling=True)), []


def _went_idle(queue: Queue, running: Running) -> Step:
    if running.reply is not None:
        return _finish(queue, running, running.reply)
    # Idle without a reply: the reply is still on its own socket. The deadline keeps a lost one from hanging us.
    timer = StartTimer("idle", running.job.execution_id, IDLE_DEADLINE_S)
    return replace(queue, running=replace(running, idle=True)), [timer]


def _expired(queue: Queue, running: Running, timer: Timer) -> Step:
    if running.settling and not running.idle:  # the kernel has done its part
        return queue, []
    match timer:
        case "cell":
            return _stop(queue, "timeout", [])
        case "grace":
            if running.killed or running.idle:  # what is idle has stopped; only its reply is missing
                return queue, []
            kill = Kill(f"it did not stop when interrupted ({_cause(running)})")
            return replace(queue, running=replace(running, killed=True)), [kill]
        case "idle":
            lost = {"status": "error", "ename": "ReplyLost", "evalue": "the kernel went idle without a reply"}
            return _finish(queue, running, running.reply or lost)
        case _:
            assert_never(timer)


def _cancelled(queue: Queue, execution_id: str) -> Step:
    if queue.running is not None and queue.running.job.execution_id == execution_id:
        return _stop(queue, "cancelled", [])
    for job in queue.waiting:
        if job.execution_id == execution_id:
            waiting = tuple(other for other in queue.waiting if other is not job)
            return replace(queue, waiting=waiting), [_dropped(job, "Cancelled before it ran")]
    return queue, []


def _stop(queue: Queue, cause: StopCause, effects: Sequence[Effect]) -> Step:
    running = queue.running
    if running is None or running.stopping is not None:
        return queue, list(effects)
    grace = StartTimer("grace", running.job.execution_id, None)
    interrupt = [SendInterrupt()] if running.begun else []
    return replace(queue, running=replace(running, stopping=cause)), [*effects, *interrupt, grace]


def _host_ends(queue: Queue, why: str) -> Step:
    dropped = [_dropped(job, f"Not run: {why}") for job in queue.waiting]
    running = replace(queue.running, why=why) if queue.running is not None else None
    return _stop(Queue(running), "host", dropped)


def _finish(queue: Queue, running: Running, reply: dict[str, Any]) -> Step:
    state = _final_state(running, reply)
    if state == "timeout":  # also where the code caught the interrupt
        reply = stopped_as(running, reply) | {"status": "error"}
    return _go_on(queue, running, End(running.job.execution_id, state, reply, _reason(running)))


def _lost(queue: Queue, running: Running, message: str) -> Step:
    return _go_on(queue, running, _end_of_killed(running, message))


def _go_on(queue: Queue, running: Running, end: End) -> Step:
    """Tell the end of what ran, drop what it takes with it, and take up the next."""
    effects: list[Effect] = [end]
    state, waiting = end.state, queue.waiting
    if state != "ok" and running.job.rolls_back:
        dropped = [_dropped(job, "The session was rolled back before this ran") for job in waiting]
        return Queue(), [*effects, *dropped]
    if state != "ok" and running.job.group is not None and not running.job.allow_error:
        reason = earlier_failed(running.job.execution_id)
        effects += [_dropped(job, reason) for job in waiting if job.group == running.job.group]
        waiting = tuple(job for job in waiting if job.group != running.job.group)
    return _next_job(Queue(None, waiting), effects)


def _final_state(running: Running, reply: dict[str, Any]) -> ExecutionState:
    # Code may catch the KeyboardInterrupt and end well: the work was cut short all the same.
    match running.stopping:
        case "timeout":
            return "timeout"
        case "cancelled" | "memory":
            return "interrupted"
        case "host":
            return "died"
        case None:
            return "ok" if reply.get("status") == "ok" else "error"
        case _:
            assert_never(running.stopping)


_INTERRUPTS = frozenset({"KeyboardInterrupt", "InterruptException", "interrupt"})
"""What kernels raise where they are interrupted: Python and Deno, Julia, R."""

_TERMINAL_COLOUR = r"(?:\x1b\[[\d;]*m)*"


def stopped_as(running: Running, error: dict[str, Any]) -> dict[str, Any]:
    """An error, or a reply, of a cell; for one that ran out of time a ``TimeoutError`` in place of the interrupt.

    An error of another kind that came while it was stopped stays as it is.
    """
    raised = error.get("ename") or ""
    if running.stopping != "timeout" or (raised and raised not in _INTERRUPTS):
        return error
    evalue = f"the cell ran longer than {running.job.timeout_s:g} s"
    lines = [_renamed(line, raised, evalue) for line in error.get("traceback") or ()] if raised else []
    return {**error, "ename": "TimeoutError", "evalue": evalue, "traceback": lines}


def _renamed(line: str, raised: str, evalue: str) -> str:
    """A line of a traceback that begins with the name of what was raised, as its heading or as its last line."""
    named = rf"({_TERMINAL_COLOUR}){re.escape(raised)}\b(?P<end>{_TERMINAL_COLOUR}(:.*)?$)?"
    found = re.match(named, line, re.DOTALL)
    if found is None:
        return line
    told = f"{found[1]}TimeoutError"
    return f"{told}: {evalue}" if found["end"] is not None else told + line[found.end() :]


def _cause(running: Running) -> str:
    match running.stopping:
        case "timeout":
            return f"over its limit of {running.job.timeout_s:g} s; raise `cell_timeout_s` or pass a longer timeout"
        case "memory":
            return "the machine's memory is short, see `max_memory_fraction`"
        case "host":
            return running.why
        case "cancelled" | None:
            return "cancelled"
        case _:
            assert_never(running.stopping)


def _died(queue: Queue, message: str) -> Step:
    effects: list[Effect] = []
    if queue.running is not None:
        effects.append(_end_of_killed(queue.running, message))
    effects += [_dropped(job, f"Not run: {message}") for job in queue.waiting]
    return Queue(), effects


def _end_of_killed(running: Running, message: str) -> End:
    # A kernel that we killed for not stopping is the end of a time-out or a cancellation, not a crash.
    state = _final_state(running, {}) if running.killed else "died"
    # What ends its host is the reason also where the kernel had to be ended before it had stopped.
    reply = running.reply
    if state == "timeout":
        reply = stopped_as(running, reply or {}) | {"status": "error"}
    return End(running.job.execution_id, state, reply, running.why or message)


def _reason(running: Running) -> str | None:
    return _cause(running) if running.stopping else None


def _dropped(job: Run, reason: str) -> End:
    return End(job.execution_id, "interrupted", reason=reason)


def _next_job(queue: Queue, effects: list[Effect]) -> Step:
    if queue.running is not None or not queue.waiting:
        return queue, effects
    job, *rest = queue.waiting
    effects += [SendExecute(job), StartTimer("cell", job.execution_id, job.timeout_s)]
    return Queue(Running(job), tuple(rest)), effects
