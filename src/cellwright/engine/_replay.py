"""Runs again what made a session's state, on an empty kernel, and compares what it puts out with what it did then.

``run_steps`` is the core, for whoever wants a state to be made again; a ``Replay`` is one such run of a whole session,
which anybody may wait for. Which steps there are is decided in ``lineage``, what counts as the same in
``notebook.comparison``; each step is an execution like any other (see ``_execution_queue``), so that whatever stops this
half-way leaves a lineage that says how far it came.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, assert_never

import anyio
from msgspec import to_builtins

from cellwright.engine import _recovery
from cellwright.engine._checkpoints import Checkpoints, RolledBack
from cellwright.engine._context import SessionContext
from cellwright.engine._document import SessionDocument
from cellwright.engine._execution_queue import ExecutionQueue
from cellwright.engine._executions import Execution
from cellwright.engine.journal import Journal
from cellwright.engine.kernel import SessionKernel
from cellwright.engine.lineage import Step, before, contains, steps, steps_until, to_replay
from cellwright.engine.records import Batch, ExecutionRecord, new_replay_id
from cellwright.errors import (
    CellwrightError,
    HostPending,
    HostUnreachable,
    KernelBusy,
    KernelError,
    SlurmFailed,
    UnknownCheckpoint,
)
from cellwright.hosts.protocol import ExecutionState
from cellwright.notebook import Comparison, Difference, Document, Rules, compare_outputs

__all__ = ["Redone", "Replay", "Replays", "run_steps"]
ReplayState: TypeAlias = Literal["running", "completed", "stopped"]

_MOST_REPORTED = 50

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Redone:
    """One step that ran again."""

    step: Step
    now: ExecutionRecord
    comparison: Comparison

    @property
    def same(self) -> bool:
        """Whether it ended as it did then and put out the same."""
        return self.comparison.same

    @property
    def goes_on(self) -> bool:
        """Whether what comes after it may run."""
        return _goes_on(self.step.state, self.now.state)


async def run_steps(
    queue: ExecutionQueue,
    requested: Sequence[Step],
    journal: Journal,
    *,
    timeout_s: float | None = None,
    rules: Rules | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[Redone, None]:
    """Run steps in order on the kernel that a session has now, and yield each as it ends, compared with the journal's.

    The last that is yielded may have failed where it did not then; nothing is run after it. The steps may be of
    another session. Once ``stopping`` is true nothing more is run.

    Raises:
        KernelGone: the session lost that kernel in between.
    """
    kernel_id = queue.session.record.kernel_id or ""
    for step in requested:
        if stopping():
            return
        execution = await queue.execute_step(step, kernel_id, timeout_s=_limit(step, timeout_s))
        if stopping():  # whoever said so while it was being queued did not find it
            await queue.cancel(execution.id)
        await execution.wait()
        redone = Redone(step, execution.record, await _compare(journal, step, execution, rules or Rules()))
        yield redone
        if not redone.goes_on:
            return


def _limit(step: Step, timeout_s: float | None) -> float | None:
    # More time would not help what was cut, only let it run on.
    return step.timeout_s if timeout_s is None or step.was_cut else timeout_s


async def _compare(journal: Journal, step: Step, execution: Execution, rules: Rules) -> Comparison:
    recorded = _recovery.load_execution(journal, step.execution_id)
    before, now = recorded.outputs if recorded is not None else [], execution.outputs
    # Outputs may be megabytes, and nobody else should wait for them.
    found = await anyio.to_thread.run_sync(compare_outputs, before, now, rules)
    if _same_end(step, execution.state):
        return found
    ended = f"ended as {step.state}, and now as {execution.state}"
    how = f"{ended} ({execution.reason})" if execution.reason else ended
    return Comparison((Difference("state", step.state, execution.state, how), *found.differences), found.more)


def _same_end(step: Step, now: ExecutionState) -> bool:
    return step.state == now or (step.was_cut and now == "timeout")


def _goes_on(then: ExecutionState, now: ExecutionState) -> bool:
    match now:
        case "ok":
            return True
        case "error" | "timeout":
            return then != "ok"
        case "queued" | "running" | "interrupted" | "died":
            return False
        case _:
            assert_never(now)


class Replay:
    """A session's state being made again. It belongs to the engine, not to whoever asked for it."""

    def __init__(self, queue: ExecutionQueue, requested: Sequence[Step], *, timeout_s: float | None) -> None:
        """A replay has the queue to itself until its end."""
        session = queue.session
        self.id = queue.reserved_for = new_replay_id()
        self.session_id = session.id
        self.generation = session.generation
        self.steps = tuple(requested)
        self.redone: list[Redone] = []
        """What has run so far, in order."""
        self.reason: str | None = None
        """Why it did not go on."""
        self.edited = _edited(session.file.document, requested)
        """Cells that hold another source by now than the one that ran, or are gone."""
        self._queue = queue
        self._session = session
        self._recorder = session.services.recorder
        self._timeout_s = timeout_s
        self._ended = anyio.Event()
        self._cancelled = False

    @property
    def state(self) -> ReplayState:
        if not self.done:
            return "running"
        return "stopped" if self.reason is not None else "completed"

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    @property
    def same(self) -> bool:
        """Whether everything ran so far, and put out the same."""
        return self.reason is None and all(redone.same for redone in self.redone)

    @property
    def not_run(self) -> tuple[Step, ...]:
        return self.steps[len(self.redone) :]

    @property
    def differences(self) -> list[tuple[Redone, Difference]]:
        return [(redone, found) for redone in self.redone for found in redone.comparison.differences]

    async def wait(self, timeout_s: float | None = None) -> Replay:
        """Return when it has ended and that is journalled, or after ``timeout_s`` with it still running."""
        with anyio.move_on_after(timeout_s):
            await self._ended.wait()
        return self

    async def cancel(self) -> None:
        """Stop it, and what it runs. The kernel keeps what was made so far, and the session can be replayed again."""
        if self.done:
            return
        self.stop()
        for execution in self._session.runs.live:
            await self._queue.cancel(execution.id)

    def stop(self) -> None:
        """Run nothing more."""
        self._cancelled = True

    async def run(self) -> None:
        """Run every step; the engine does so in the background, where nothing may be raised."""
        try:
            await self._run_steps()
        except CellwrightError as error:
            self.reason = error.message
        except Exception:  # noqa: BLE001  # boundary: one replay that fails must not take the engine with it
            _log.exception("replay_failed session=%s", self.session_id)
            self.reason = "It failed inside Cellwright; look at the log"
        await self._tell_end()
        self._queue.reserved_for = None
        self._ended.set()

    async def _run_steps(self) -> None:
        again = run_steps(
            self._queue,
            self.steps,
            self._recorder.journal,
            timeout_s=self._timeout_s,
            stopping=lambda: self._cancelled,
        )
        async with aclosing(again):
            async for redone in again:
                self.redone.append(redone)
                await self._tell_progress(redone)
        last = self.redone[-1] if self.redone else None
        whole = not self.not_run and (last is None or last.goes_on)
        if self._cancelled and not whole:
            self.reason = f"It was cancelled after {len(self.redone)} of {len(self.steps)} steps"
        elif last is not None and not last.goes_on:
            self.reason = _why_stopped(len(self.redone), last)

    async def _tell_progress(self, redone: Redone) -> None:
        batch = Batch()
        data = {
            "replay_id": self.id,
            "done": len(self.redone),
            "total": len(self.steps),
            "cell_id": redone.step.cell_id,
            "same": redone.same,
        }
        self._session.note(batch, "notebook.replay.progress", data, execution=redone.now)
        await self._recorder.commit(batch)

    async def _tell_end(self) -> None:
        batch = Batch()
        self._session.note(batch, "notebook.replay.completed", self._report())
        try:
            await self._recorder.commit(batch)
        except CellwrightError as error:  # it is tried again, in order, until the journal has it
            _log.warning("replay_not_journalled session=%s %s", self.session_id, error)

    def _report(self) -> dict[str, Any]:
        differences = self.differences
        return {
            "replay_id": self.id,
            "state": "stopped" if self.reason is not None else "completed",
            "done": len(self.redone),
            "total": len(self.steps),
            "same": self.same,
            "reason": self.reason,
            "differences": [
                {
                    "cell_id": redone.step.cell_id,
                    "execution_id": redone.now.id,
                    "replays": redone.step.execution_id,
                    **to_builtins(found),
                }
                for redone, found in differences[:_MOST_REPORTED]
            ],
            "more": len(differences) - len(differences[:_MOST_REPORTED]),
            "edited": list(self.edited),
            "not_run": [step.cell_id for step in self.not_run],
        }

    def __repr__(self) -> str:
        return f"<Replay {self.id} {self.state} {len(self.redone)} of {len(self.steps)}>"


def _why_stopped(number: int, redone: Redone) -> str:
    step, now = redone.step, redone.now
    what = f"cell {step.cell_id}" if step.cell_id is not None else "code in no cell"
    error = f" ({now.error.get('ename')}: {now.error.get('evalue')})" if now.error else ""
    why = f": {now.reason}" if now.reason else ""
    return f"Step {number}, {what}, ended as {now.state}{error} and as {step.state} then{why}"


def _edited(document: Document, steps: Sequence[Step]) -> tuple[str, ...]:
    """Only what a cell ran last counts: what it held before that was edited on the way to it."""
    last = {step.cell_id: step.source for step in steps if step.cell_id is not None}
    return tuple(
        cell_id
        for cell_id, source in last.items()
        if cell_id not in document or document.cell(cell_id).source != source
    )


class Replays:
    """The replays of one session: to make a lost state again, to go back before a cell, to move to another host."""

    def __init__(
        self,
        session: SessionContext,
        document: SessionDocument,
        kernel: SessionKernel,
        checkpoints: Checkpoints,
        queue: ExecutionQueue,
    ) -> None:
        self.last: Replay | None = None
        """The newest one, running or ended."""
        self._session = session
        self._document = document
        self._kernel = kernel
        self._checkpoints = checkpoints
        self._queue = queue

    async def start(self, *, upto: str | None, timeout_s: float | None, host: str | None) -> Replay:
        """Start an empty kernel, run on it what made the last state, in order, and return at once."""
        services = self._session.services
        await self._document.refresh()
        target = services.hosts.host_name(host) if host is not None else None
        async with self._session.turn:
            self._queue.refuse_if_reserved()
            with anyio.CancelScope(shield=True):
                redo = await self._steps(upto)
                await self._kernel.start_empty(target)
                self.last = replay = Replay(self._queue, redo, timeout_s=timeout_s)
                services.in_background(replay.run)
        return replay

    async def _steps(self, upto: str | None) -> Sequence[Step]:
        """The steps that made the state, up to the last run of cell ``upto`` or to that execution.

        Raises:
            KernelBusy: something is running.
            UnknownExecution: ``upto`` is none of what made the state.
        """
        session, journal = self._session, self._session.services.recorder.journal
        if session.runs.live:
            raise KernelBusy(
                f"Session {session.id} runs {session.runs.live[0].id}",
                hint="A replay takes the kernel away: wait for its end, or interrupt it first",
            )
        await journal.flush()
        lineage = to_replay(session.record)
        _recovery.refuse_if_let_go(journal, session.record, lineage)
        return steps_until(steps(_recovery.load_lineage(journal, session.id, lineage), lineage), upto)

    async def roll_back_before(self, cell_id: str) -> RolledBack:
        """Make the state again that there was before a cell last ran.

        Raises:
            UnknownCheckpoint: that cell has never run in this state.
            KernelError: a step failed that did not fail then.
        """
        session, journal = self._session, self._session.services.recorder.journal
        history = await self._checkpoints.own_history()
        ran = [one for one in history if one.cell_id == cell_id and contains(session.record.lineage, one)]
        if not ran:
            raise UnknownCheckpoint(
                f"Cell {cell_id!r} has not run in the state that session {session.id} has",
                hint="Name a cell that has, or a checkpoint",
            )
        lineage = before(session.record.lineage, ran[-1])
        undone = tuple(
            one.id for one in history if contains(session.record.lineage, one) and not contains(lineage, one)
        )
        made = steps(_recovery.load_lineage(journal, session.id, lineage), lineage)
        if made:
            replay = await (await self.start(upto=made[-1].execution_id, timeout_s=None, host=None)).wait()
            if replay.reason is not None:
                raise KernelError(f"The state could not be made again: {replay.reason}")
        else:
            await self._kernel.restart()
        return await self._checkpoints.note_remade(undone)

    async def move_before(self, ends_at: float) -> None:
        """Go on on another host as soon as it is there and nothing runs here; stay where neither comes in time."""
        while time.time() < ends_at:
            try:
                # Asked for at once, so that its place in the queue is kept while something still runs here.
                await self._kernel.reserve_host()
                if not self._session.runs.live:
                    await self.start(upto=None, timeout_s=None, host=None)
                    return
            except CellwrightError as error:
                if not _passes(error):
                    _log.warning("session_not_moved session=%s %s", self._session.id, error)
                    return
            await anyio.sleep(_AGAIN_S)


def _passes(error: CellwrightError) -> bool:
    """Whether the same may go well in a moment."""
    if isinstance(error, SlurmFailed):
        return not error.refused
    return isinstance(error, HostPending | HostUnreachable | KernelBusy)
