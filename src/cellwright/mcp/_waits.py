"""Waiting for executions on behalf of a call: not for longer than its client does, and never silently.

An execution is the engine's. A call that ends first leaves it running and hands back its id; a call that its client
cancels stops it; a client that goes away does not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import anyio

from cellwright.delegation import DelegatedRun
from cellwright.engine import Event, Execution, Replay, Session, Subscription
from cellwright.engine.questions import Question
from cellwright.errors import CellwrightError
from cellwright.mcp._elicitation import ask_in_turn, needs_input
from cellwright.mcp._replies import last_line
from cellwright.mcp.calls import Call
from cellwright.mcp.clients import log_entry
from cellwright.plans import PlanRun
from cellwright.plans.reports import plan_brief
from cellwright.verification import Verification

__all__ = [
    "done_with_progress",
    "run_and_wait",
    "wait_for",
    "wait_for_agent",
    "wait_for_plan",
    "wait_for_replay",
    "wait_for_verification",
]

T = TypeVar("T")

_CANCEL_GRACE_S = 10.0
# How soon after a cell of many it is told that it is over.
_LOOK_S = 0.5
_LONG_CELL_S = 60.0


async def run_and_wait(
    call: Call, session_id: str, submit: Callable[[], Awaitable[Sequence[Execution]]], *, wait_s: float | None
) -> list[Execution]:
    """Queue executions and wait for them; they are returned running where the wait ends first."""
    # Listening begins before: what they do while others are being queued belongs to this call too.
    with _events_to_log(call, session_id) as events:
        # Shielded: a call that is cancelled while its cells are being queued must know which ones to stop.
        with anyio.CancelScope(shield=True), _answering(call, session_id) as answering:
            executions = list(await submit())
            answering(execution.id for execution in executions)
            call.client.began(*(execution.id for execution in executions))
        await _wait_for(call, executions, events, wait_s=wait_s)
    return executions


async def wait_for(call: Call, executions: Sequence[Execution], *, wait_s: float | None) -> None:
    """Wait for executions of a session, telling progress; stop them if the client cancels its call."""
    session_id = executions[0].session_id
    with _events_to_log(call, session_id) as events:
        with _answering(call, session_id) as answering:
            answering(execution.id for execution in executions)
        await _wait_for(call, executions, events, wait_s=wait_s)


@contextmanager
def _answering(call: Call, session_id: str) -> Iterator[Callable[[Iterable[str]], None]]:
    """Say that the client's person can answer what executions ask that are begun meanwhile, where that is so."""
    if call.caller.asks == "no":
        yield lambda _ids: None
        return
    with call.engine.session(session_id).questions.expected(passwords=call.caller.asks_passwords) as begun:
        yield begun


async def wait_for_replay(call: Call, replay: Replay, *, wait_s: float | None) -> None:
    """The same for a replay."""
    with _events_to_log(call, replay.session_id) as events:
        await _wait(call, events, partial(_follow_replay, call, replay), replay.cancel, wait_s=wait_s)


async def wait_for_verification(call: Call, verification: Verification, *, wait_s: float | None) -> None:
    """The same for a verification."""
    follow = partial(_follow_verification, call, verification)
    with _events_to_log(call, verification.session_id) as events:
        await _wait(call, events, follow, verification.cancel, wait_s=wait_s)


async def wait_for_plan(call: Call, run: PlanRun, *, wait_s: float | None) -> None:
    """The same for a plan, which a client that cancels its call pauses."""
    call.client.began(run.id)
    with _events_to_log(call, run.session_id) as events:
        await _wait(call, events, partial(_follow_plan, call, run), run.cancel, wait_s=wait_s)


async def wait_for_agent(
    call: Call, run: DelegatedRun, *, wait_s: float | None, stream: bool = False, since: int = 0
) -> None:
    """The same for a question that an agent answers; with ``stream`` progress is all that happened, as JSON."""
    follow = partial(_stream_agent, call, run, since) if stream else partial(_follow_agent, call, run)
    await _wait(call, None, follow, run.cancel, wait_s=wait_s)


async def done_with_progress(
    call: Call,
    work: Callable[[], Awaitable[T]],
    *,
    stop: Callable[[], Awaitable[None]] | None = None,
    say: Callable[[], str] = str,
) -> T:
    """Do what has no id to hand back, telling how long it has been, or what there is to ``say``.

    ``stop`` ends it if the client cancels its call.
    """
    found: list[T] = []
    failure: CellwrightError | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report_time, call, say)
            try:
                found.append(await work())
            except CellwrightError as error:
                failure = error  # raised in here it would become a group
            tasks.cancel_scope.cancel()
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_CANCEL_GRACE_S, shield=True):
            if stop is not None and await call.caller.was_cancelled():
                await stop()
        raise
    if failure is not None:
        raise failure
    return found[0]


async def _report_time(call: Call, say: Callable[[], str]) -> None:
    began = time.monotonic()
    while True:
        await anyio.sleep(call.shared.pace.progress_s)
        elapsed_s = time.monotonic() - began
        message = say() or f"running for {elapsed_s:.0f} s"
        await call.caller.report_progress(round(elapsed_s, 3), message=message)


@contextmanager
def _events_to_log(call: Call, session_id: str) -> Iterator[Subscription | None]:
    """What happens to a session from now on, where the call asks to be told, as the newest protocol has it."""
    if not call.caller.wants_log:
        yield None
        return
    with call.engine.subscribe(session_id) as events:
        yield events


async def _wait_for(
    call: Call, executions: Sequence[Execution], events: Subscription | None, *, wait_s: float | None
) -> None:
    """Wait for executions.

    Raises:
        InputNeeded: one asks what only the client's next call can answer.
    """

    async def stop() -> None:
        for execution in reversed(executions):  # what waits first, so that it does not start
            if not execution.done:
                await call.engine.cancel(execution.id)

    if call.caller.asks == "no" or not executions:
        await _wait(call, events, partial(_follow, call, executions), stop, wait_s=wait_s)
        return
    session, questions = call.engine.session(executions[0].session_id), list[Question]()
    follow = partial(_follow_and_ask, call, session, executions, questions)
    await _wait(call, events, follow, stop, wait_s=wait_s)
    if questions:
        raise needs_input(session, executions, questions[0])


async def _follow_and_ask(
    call: Call, session: Session, executions: Sequence[Execution], questions: list[Question]
) -> None:
    """Follow executions and ask what they ask, until they have ended or the client's next call is needed."""
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            question = await ask_in_turn(call.caller, session, executions)
            if question is not None:
                questions.append(question)
                tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await _follow(call, executions)
        tasks.cancel_scope.cancel()


async def _wait(
    call: Call,
    events: Subscription | None,
    follow: Callable[[], Awaitable[None]],
    stop: Callable[[], Awaitable[None]],
    *,
    wait_s: float | None,
) -> None:
    wait_s = call.shared.pace.wait_s if wait_s is None else wait_s
    try:
        async with anyio.create_task_group() as tasks:
            if events is not None:
                tasks.start_soon(_forward_log, call, events)
            with anyio.move_on_after(wait_s):
                await follow()
            if events is not None:
                events.close()  # what it holds is told before the call answers: nothing can be after that
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_CANCEL_GRACE_S, shield=True):
            if await call.caller.was_cancelled():
                await stop()
        raise


async def _follow(call: Call, executions: Sequence[Execution]) -> None:
    began = time.monotonic()
    for place, execution in enumerate(executions):
        while not execution.done:
            await execution.wait(call.shared.pace.progress_s)
            if not execution.done:
                await _report_progress(call, executions, place, time.monotonic() - began)
        await execution.wait()  # ended is not yet journalled


async def _follow_replay(call: Call, replay: Replay) -> None:
    await _follow_cells(call, replay, lambda: (len(replay.redone), len(replay.steps)), lambda: "steps")


async def _follow_verification(call: Call, verification: Verification) -> None:
    def last_cell() -> str:
        if not verification.checked:
            return "cells"
        last = verification.checked[-1]
        return f"cells, {last.cell.id} {'same' if last.same else 'different'}"

    await _follow_cells(
        call, verification, lambda: (len(verification.checked), len(verification.cells)), last_cell
    )


async def _follow_cells(
    call: Call,
    work: Replay | Verification,
    count: Callable[[], tuple[int, int]],
    say: Callable[[], str],
) -> None:
    """Tell of every cell that is over, and in a long one now and then that it goes on."""
    pace_s = call.shared.pace.progress_s
    began = reported_at = begun_at = time.monotonic()
    reported = -1
    while not (await work.wait(min(pace_s, _LOOK_S))).done:
        done, total = count()
        now = time.monotonic()
        if done == reported and now - reported_at < pace_s:
            continue
        if done != reported:
            begun_at = now
        reported, reported_at = done, now
        message = f"{done} of {total} {say()}, running for {now - began:.0f} s"
        await call.caller.report_progress(
            round(done + _share(now - begun_at), 6), message=message, total=total
        )


def _share(seconds: float) -> float:
    """A number below 1 for a cell that has run this long: the protocol has each report be of more than the last."""
    return seconds / (seconds + _LONG_CELL_S)


async def _follow_plan(call: Call, run: PlanRun) -> None:
    """Tell of every change, so that whoever shows the plan knows when to look."""
    began, seen = time.monotonic(), None
    while not run.done:
        if run.plan is seen:  # else it changed while this was being told
            await run.changed(call.shared.pace.progress_s)
        seen = run.plan
        if not run.done:
            elapsed_s = time.monotonic() - began
            message = f"{plan_brief(run.plan)}, running for {elapsed_s:.0f} s"
            await call.caller.report_progress(round(elapsed_s, 3), message=message)


async def _follow_agent(call: Call, run: DelegatedRun) -> None:
    """Tell of every new step, and in a long one now and then that it goes on."""
    began = reported_at = time.monotonic()
    seen, reported = 0, ""
    while True:
        await run.changed(seen, call.shared.pace.progress_s)
        seen = max((entry["number"] for entry in run.entries(seen)), default=seen)
        if run.done:
            return
        brief, now = run.brief(), time.monotonic()
        if brief != reported or now - reported_at >= call.shared.pace.progress_s:
            reported, reported_at = brief, now
            message = f"{brief}, running for {now - began:.0f} s"
            await call.caller.report_progress(round(now - began, 3), message=message)


async def _stream_agent(call: Call, run: DelegatedRun, since: int) -> None:
    """Tell all that happened after ``since``, a few entries to a message, to the end."""
    while True:
        await run.changed(since, call.shared.pace.progress_s)
        over = run.done
        if entries := run.entries(since):
            since = entries[-1]["number"]
            await call.caller.report_progress(since, message=json.dumps(entries, ensure_ascii=False))
            await anyio.sleep(call.shared.pace.stream_s)
        elif over:
            return


async def _report_progress(call: Call, executions: Sequence[Execution], place: int, elapsed_s: float) -> None:
    execution = executions[place]
    about = f"{place + 1} of {len(executions)}, " if len(executions) > 1 else ""
    line = last_line(execution)
    message = f"{about}{execution.state} for {elapsed_s:.0f} s" + (f": {line}" if line else "")
    await call.caller.report_progress(round(elapsed_s, 3), message=message)


async def _forward_log(call: Call, events: Subscription) -> None:
    """Send what happens as log messages on the call's own stream, until it is closed."""
    async for event in events:
        if isinstance(event, Event):
            await call.caller.log(*log_entry(event))
