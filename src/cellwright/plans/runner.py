"""Carries a plan out: does what ``machine`` says, in order, and tells it what came of it.

A run belongs to the engine, not to whoever asked for it. All that it has to remember is in the plan, which is kept in
the notebook before anything is done, and in the history; so another run can go on wherever one was cut off.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial

import anyio
from msgspec.structs import replace

from cellwright.engine import Engine, Execution, Session
from cellwright.engine.introspection import with_inputs
from cellwright.engine.lineage import contains
from cellwright.engine.records import new_plan_run_id
from cellwright.errors import CellwrightError
from cellwright.notebook import CellMetadataSet, Document
from cellwright.notebook.python_names import cell_names
from cellwright.plans import _machine
from cellwright.plans._candidates import TryOut, choose
from cellwright.plans._cells import keeping_changes
from cellwright.plans._machine import (
    CheckResults,
    Effect,
    Event,
    FailureKind,
    Next,
    Propose,
    RunCell,
    WriteCell,
    advance,
)
from cellwright.plans.checks import check_source, output_appears, told
from cellwright.plans.error_classes import classify
from cellwright.plans.failures import (
    Adviser,
    Elsewhere,
    Failure,
    Proposal,
    diagnosed,
    go_back,
    install_for,
    surroundings_of,
)
from cellwright.plans.fixers import Fixer, considered
from cellwright.plans.model import MAX_NOTICES, Attempt, Check, Plan, Todo

__all__ = ["Fixers", "PlanRun", "diff_of", "missing_cells"]
_log = logging.getLogger(__name__)

_MAX_DIFF = 8_000


@dataclass(frozen=True, slots=True)
class Fixers:
    """The fixers and advisers that are asked about a failure, in this order."""

    fixers: tuple[Fixer, ...] | None = None
    """None: all that there are."""
    advisers: tuple[Adviser, ...] = ()

    async def propose(self, failure: Failure, try_out: TryOut | None = None) -> Proposal | None:
        """The first proposal that can be applied, else the first suggestion there is.

        ``try_out`` is asked about the candidates where no fixer is certain, before any adviser is.
        """
        # A long cell with many mistakes may take seconds, for which nobody else should wait.
        found, likely = await anyio.to_thread.run_sync(considered, failure, self.fixers)
        if try_out is not None and likely:
            found = await try_out(failure, likely) or found
        for adviser in self.advisers:
            if found is not None and found.applies:
                break
            try:
                advice = await adviser(failure)
            except Exception:  # noqa: BLE001  # boundary: somebody's own code must not stop the plan
                _log.exception("adviser_failed")
                continue
            if advice is not None and (found is None or advice.applies):
                found = advice
        return found


class PlanRun:
    """One run of a plan, from somebody's decision to the next halt. Made by the planner."""

    def __init__(
        self, engine: Engine, session: Session, fixers: Fixers, plan: Plan, begins: Next | None
    ) -> None:
        """``begins`` is what a decision led to; None where a run of this plan was cut off, and is taken up."""
        self.id = new_plan_run_id()
        self.plan = begins.plan if begins is not None else plan
        """As it is now."""
        self.executions: list[Execution] = []
        """What this run ran, in order; checks are not among them."""
        self._engine = engine
        self._session = session
        self._begins = begins
        self._fixers = fixers
        self._hold = session.record.hold
        """Who had the session when this began: whoever takes it over later stops it between two steps."""
        self._stopping = anyio.Event()
        self._trial = Trial(engine, session, self._stopping)
        self._ended = anyio.Event()
        self._changed = anyio.Event()

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    async def wait(self, timeout_s: float | None = None) -> PlanRun:
        """Return when it has come to a halt, or after ``timeout_s`` with it still running."""
        with anyio.move_on_after(timeout_s):
            await self._ended.wait()
        return self

    async def changed(self, timeout_s: float | None = None) -> None:
        """Return when the plan has changed next, or after ``timeout_s``."""
        with anyio.move_on_after(timeout_s):
            await self._changed.wait()

    async def cancel(self) -> None:
        """Pause the plan: what runs is interrupted, and its step can be run again."""
        self._stopping.set()
        if not self.done:
            await self._session.interrupt()
            await self.wait()

    # The loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do it all; in the background, where nothing may be raised."""
        try:
            with self._session.at_work():
                await self._go_on(self._begins or await self._take_up())
        except CellwrightError as error:
            await self._pause(str(error))
        except Exception:  # noqa: BLE001  # boundary: one plan that fails must not take the engine with it
            _log.exception("plan_failed session=%s", self.session_id)
            await self._pause("It failed inside Cellwright; look at the log")
        finally:
            await self._save()
            self._ended.set()
            self._changed.set()

    async def _go_on(self, step: Next) -> None:
        await self._keep(step)
        while step.effects:
            step = self._advanced(await self._carry_out(step.effects))
            await self._keep(step)

    async def _keep(self, step: Next) -> None:
        """Journal the plan as it is now, with the cells that are written, before anything else is done."""
        writes = [effect for effect in step.effects if isinstance(effect, WriteCell)]
        self._engine.session(self.session_id)  # it may have been deleted meanwhile
        await self._session.refresh()
        changes = keeping_changes(self._session.document, step.plan, writes)
        await self._session.apply(changes, told_as=("notebook.plan.changed", _progress(step.plan)))
        self.plan = step.plan
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _carry_out(self, effects: Sequence[Effect]) -> Event:
        """Do all of it; what the last of it led to."""
        event: Event = _machine.Interrupted("It was stopped")
        for effect in effects:
            if self._stopping.is_set():
                return event
            # Whether a step that was run has done what it should is still found out.
            if (by := self._taken_by()) is not None and not isinstance(effect, CheckResults):
                return _machine.Interrupted(f"{by} took the session over")
            match effect:
                case RunCell():
                    event = await self._run_cell(effect)
                case CheckResults(todo_id):
                    event = await self._check(self.plan.step(todo_id))
                case Propose(todo_id):
                    event = await self._propose(self.plan.step(todo_id))
                case WriteCell():
                    pass  # kept with the plan
        return event

    def _taken_by(self) -> str | None:
        """The person who took the session over since this began, unless it was given back."""
        hold = self._session.record.hold
        return hold.by if hold is not None and hold != self._hold else None

    async def _pause(self, why: str) -> None:
        paused = advance(self.plan, _machine.Interrupted(why))
        paused = Next(_noticed(paused.plan, why))
        try:
            await self._keep(paused)
        except CellwrightError as error:  # the journal has what was before
            _log.warning("plan_not_kept session=%s %s", self.session_id, error)
        except Exception:  # noqa: BLE001  # boundary: as in ``run``, in which this is the last word
            _log.exception("plan_not_kept session=%s", self.session_id)

    async def _save(self) -> None:
        """Write the notebook at once: whoever is told of the halt may look at the file next."""
        try:
            await self._session.save()
        except CellwrightError as error:  # the journal has it, and it is tried again
            _log.warning("plan_not_saved session=%s %s", self.session_id, error)

    # One cell ----------------------------------------------------------------------------------------------------

    async def _run_cell(self, effect: RunCell) -> Event:
        todo = self.plan.step(effect.todo_id)
        await self._restore(todo)
        notes = await self._prepared(todo, effect)
        if self._stopping.is_set():
            return _machine.Interrupted("It was stopped")
        execution = await self._trial.run(todo)
        self.executions.append(execution)
        return self._event(await self._trial.outcome(todo, execution, self.plan), notes)

    async def _prepared(self, todo: Todo, effect: RunCell) -> list[str]:
        """Go back, wait and install, unless somebody stops it; what is to be known of it."""
        if self._stopping.is_set():
            return []
        notes = [note] if (note := await self._trial.undo(todo)) else []
        if effect.delay:
            await self._wait(self._engine.settings.plan_backoff_s * 2 ** (effect.delay - 1))
        if effect.packages and not self._stopping.is_set():
            notes += [why] if (why := await install_for(self._session, effect.packages)) else []
        return notes

    async def _wait(self, seconds: float) -> None:
        """A pause that an interrupt ends; there is no cell that it could stop."""
        with anyio.move_on_after(seconds):
            await self._stopping.wait()

    async def _restore(self, todo: Todo) -> None:
        """Have the state that the steps before have made, also where the kernel that held it is gone."""
        lost = await self._lost(todo)
        if not lost:
            return
        numbers = ", ".join(str(self.plan.number(other.id)) for other in lost)
        steps = f"step{'s' if len(lost) > 1 else ''} {numbers}"
        if not await self._session.state_history():
            await self._session.replay()
            if self._stopping.is_set():
                return
            lost = await self._lost(todo)
        for other in lost:
            again = await self._trial.run(other)
            if self._stopping.is_set():
                return
            if not again.ok:
                error = again.error or {}
                why = f"{error.get('ename') or again.state}: {error.get('evalue') or again.reason or ''}"
                raise CellwrightError(
                    f"The state could not be made again: step {self.plan.number(other.id)} ended with {why}"
                )
        notice = f"The kernel that held the state was gone: what {steps} did was run again first"
        await self._keep(Next(_noticed(self.plan, notice)))

    async def _lost(self, todo: Todo, *, also: bool = False) -> list[Todo]:
        """Steps before this one, and ``also`` itself, that ran well, and are no part of the state that there is."""
        before = self.plan.steps[: self.plan.number(todo.id) - 1]
        done = [other for other in before if other.status == "done" and other.id in self._session.document]
        done += [todo] if also else []
        if not done:
            return []
        await self._session.resume()
        held = {record.cell_id for record in await self._session.state_history() if record.state == "ok"}
        return [other for other in done if other.cell_id not in held]

    def _event(self, outcome: Outcome, notes: Sequence[str] = ()) -> Event:
        if outcome.interrupted or (self._stopping.is_set() and not outcome.ok):
            return _machine.Interrupted(outcome.attempt.note)
        said = [*notes, *([outcome.attempt.note] if outcome.attempt.note else [])]
        attempt = replace(outcome.attempt, note="; ".join(said) or None)
        if outcome.ok:
            return _machine.Ran(attempt, outcome.files)
        return _machine.Failed(
            attempt, outcome.kind, outcome.suggestion, count=self._session.runs.count, at=time.time()
        )

    async def _check(self, todo: Todo) -> Event:
        outcome = await self._trial.check(todo, self.plan)
        if outcome is not None:
            return self._event(outcome)
        gone = missing_cells(self._session, self.plan)
        return _machine.Passed(time.time(), self._session.runs.count, gone)

    async def _propose(self, todo: Todo) -> Event:
        failure = await self._trial.failure(todo, self.plan)
        try_out = partial(self._try_out, todo) if todo.checks else None
        found = await self._fixers.propose(failure, try_out) if failure is not None else None
        at, count = time.time(), self._session.runs.count
        if found is None or failure is None:
            return _machine.Proposed(at, count)
        several = bool(found.alternatives)
        diff = diff_of(failure.source, found.source) if found.source is not None and not several else None
        if not found.applies or (not diff and not found.packages):
            told = f"{found.reason}\n{diff}" if diff else found.reason
            return _machine.Proposed(at, count, fixer=found.fixer, reason=told)
        return _machine.Proposed(
            at,
            count,
            fixer=found.fixer,
            reason=found.reason,
            source=found.source,
            packages=found.packages,
            diff=diff,
        )

    async def _try_out(self, todo: Todo, failure: Failure, proposals: Sequence[Proposal]) -> Proposal | None:
        """Try what the fixers only suggest, from before the step; nothing is left of it."""
        ran = todo.attempts[-1].execution_id
        if not proposals or ran is None or len(todo.attempts) >= self._engine.settings.max_plan_attempts:
            return None
        if not failure.surroundings.has_checkpoint or failure.state != "error":
            return None
        checkpoint = self._engine.execution(ran).record.checkpoint
        found: Proposal | None = None
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await self._stopping.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            with suppress(CellwrightError):  # no branch could be had
                found = await choose(self._engine, self._session, checkpoint, todo, proposals)
            tasks.cancel_scope.cancel()
        return found

    async def _take_up(self) -> Next:
        """Where to go on with a plan that says it is running: what it was at is completed, or done again."""
        plan, todo = self.plan, self.plan.current
        if todo is None:
            return Next(plan)
        await self._session.resume()
        if plan.stage == "checking" and not await self._lost(todo, also=True):
            return Next(plan, (CheckResults(todo.id),))
        if plan.stage == "fixing":
            return Next(plan, (Propose(todo.id),))
        ran = await self._trial.ran_since(todo, plan.since)
        if ran is None:
            return Next(replace(plan, stage="running"), (RunCell(todo.id),))
        self.executions.append(ran)
        event = self._event(await self._trial.outcome(todo, ran, plan))
        return self._advanced(event)

    def _advanced(self, event: Event) -> Next:
        return advance(self.plan, event, max_attempts=self._engine.settings.max_plan_attempts)

    def __repr__(self) -> str:
        return f"<PlanRun {self.id} {self.plan.phase}>"


def missing_cells(session: Session, plan: Plan) -> frozenset[str]:
    """Steps whose cells somebody deleted."""
    return frozenset(
        todo.id for todo in plan.steps if todo.cell_id is not None and todo.id not in session.document
    )


def diff_of(before: str, after: str) -> str:
    """How one source becomes another, without the lines that name files."""
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    told = "\n".join(line for line in lines if not line.startswith(("---", "+++")))
    # It is kept with every attempt, and journalled with every step of the plan.
    return (
        told if len(told) <= _MAX_DIFF else f"{told[:_MAX_DIFF]}\n… {len(told) - _MAX_DIFF:,} more characters"
    )


def _noticed(plan: Plan, notice: str) -> Plan:
    return replace(plan, notices=(*plan.notices, notice)[-MAX_NOTICES:])


def _progress(plan: Plan) -> dict[str, object]:
    current = plan.current
    return {
        "phase": plan.phase,
        "stage": plan.stage,
        "todo": plan.number(current.id) if current is not None else None,
        "cell_id": current.cell_id if current is not None else None,
        "statuses": [todo.status for todo in plan.steps],
        "attempts": len(current.attempts) if current is not None else 0,
    }


# One attempt at a step: its cell undone, run and checked, and what came of it put into the words of the
# machine.

# Nobody waits for one step alone, and which files it left a plan learns now or never.
_FILES_WAIT_S = 60.0

_MOST_FILES = 20

_MAX_MESSAGE = 2_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt."""

    attempt: Attempt
    ok: bool = False
    interrupted: bool = False
    kind: FailureKind = "recoverable"
    suggestion: str = ""
    files: tuple[str, ...] = ()


class Trial:
    """Tries steps of one session's plan."""

    def __init__(self, engine: Engine, session: Session, stopping: anyio.Event) -> None:
        """``stopping`` is set once somebody has stopped the plan."""
        self._engine = engine
        self._session = session
        self._stopping = stopping
        self._failure: Failure | None = None

    async def run(self, todo: Todo) -> Execution:
        """Run a step's cell as it stands in the notebook, with a checkpoint before it, and wait for its end."""
        cell_id = todo.cell_id or todo.id
        await self._session.watch_inputs()
        execution = await self._session.execute(cell_id, timeout_s=todo.timeout_s, checkpoint=True)
        return await self._settled(await self._end_of(execution))

    async def _end_of(self, execution: Execution) -> Execution:
        if self._stopping.is_set():  # whoever stopped the plan did so before there was this to be stopped
            await self._session.cancel(execution.id)
        return await execution.wait()

    async def _settled(self, execution: Execution) -> Execution:
        """The same, once it is known what it left and what it read."""
        await execution.wait_for_files(_FILES_WAIT_S)
        if execution.ok:
            await self._note_inputs(execution)
        return execution

    async def _note_inputs(self, execution: Execution) -> None:
        """Keep with the cell which files it read, for whoever verifies the notebook later."""
        # Nobody knows where the kernel is gone, or busy with somebody else's code.
        with suppress(CellwrightError):
            inputs = await self._session.inputs(execution.record.source)
            cell_id = execution.cell_id or ""
            if cell_id in self._session.document:
                metadata = with_inputs(self._session.cell(cell_id).metadata, inputs)
                await self._session.apply([CellMetadataSet(cell_id, metadata)])

    async def undo(self, todo: Todo) -> str | None:
        """Go back to before a step's cell, if it ran and is what ran last; where that cannot be done, why not."""
        return await go_back(self._session, todo.id)

    async def ran_since(self, todo: Todo, since: int) -> Execution | None:
        """What ran of a step's cell after an execution's number, waited for where it still runs."""
        found = None
        for execution in await self._engine.history(self._session.id):
            record = execution.record
            if record.cell_id == todo.id and record.number > since and not record.undone:
                found = execution
        if found is None:
            return None
        live = self._session.runs.find(found.id)
        if live is not None and not live.done:
            return await self._settled(await live.wait())
        if contains(self._session.record.lineage, found.record):
            return await self._settled(found)
        # One that went well in a state that is gone is not there to go on from.
        return found if not found.ok else None

    # What came of it ---------------------------------------------------------------------------------------------

    async def outcome(self, todo: Todo, execution: Execution, plan: Plan) -> Outcome:
        """How a step's cell ended, diagnosed where it failed."""
        record = execution.record
        attempt = Attempt(
            execution_id=record.id,
            state=record.state,
            seconds=round(record.seconds or 0.0, 3),
            note=record.note,
        )
        files = tuple(file.path for file in execution.files[:_MOST_FILES])
        if record.state == "ok":
            return Outcome(attempt, ok=True, files=files)
        # What the memory's guard stopped was nobody's wish.
        if record.state == "interrupted" and "max_memory_fraction" not in (record.reason or ""):
            return Outcome(attempt, interrupted=True)
        failure = await self._diagnosed(todo, execution, plan)
        return self._failed(attempt, failure)

    async def check(self, todo: Todo, plan: Plan) -> Outcome | None:
        """What does not hold that must hold after a step; None where all does."""
        for check in todo.checks:
            failed = await self._check_one(todo, check, plan)
            if failed is not None:
                return failed
        return None

    async def _check_one(self, todo: Todo, check: Check, plan: Plan) -> Outcome | None:
        before = todo.attempts[-1]
        if check.kind == "output":
            cell = self._session.cell(todo.cell_id or todo.id)
            if output_appears(check, cell.outputs):
                return None
            message = f"It is not so that {told(check)}"
            failure = self._failure_of(todo, plan, state="rejected", ename="AcceptanceError", evalue=message)
        else:
            source = check_source(check, self._session.language)
            execution = await self._end_of(await self._session.execute_code(source, numbered=False))
            if execution.ok:
                return None
            if execution.state == "interrupted":
                return Outcome(Attempt(before.execution_id, "interrupted"), interrupted=True)
            failure = await self._diagnosed(todo, execution, plan, check=check)
        attempt = Attempt(before.execution_id, "rejected", before.seconds, note=before.note)
        return self._failed(attempt, failure)

    def _failed(self, attempt: Attempt, failure: Failure) -> Outcome:
        self._failure = failure
        verdict = classify(failure)
        kind: FailureKind = verdict.kind
        if failure.state == "died" and verdict.kind == "recoverable":
            kind = "died"
        error = failure.message[:_MAX_MESSAGE]
        told_as = replace(attempt, error_type=failure.error_type, error=error, verdict=verdict.name)
        return Outcome(told_as, kind=kind, suggestion=verdict.suggestion)

    # What the fixers look at -------------------------------------------------------------------------------------

    async def failure(self, todo: Todo, plan: Plan) -> Failure | None:
        """What a step failed with last, looked up again where it was another run's."""
        if self._failure is not None and self._failure.source == self._source(todo):
            return self._failure
        last = todo.attempts[-1]
        if last.execution_id is None:
            return None
        execution = self._engine.execution(last.execution_id)
        if last.state == "rejected":
            return self._failure_of(
                todo, plan, state="rejected", ename=last.error_type or "", evalue=last.error or ""
            )
        return await self._diagnosed(todo, execution, plan)

    async def _diagnosed(
        self, todo: Todo, execution: Execution, plan: Plan, *, check: Check | None = None
    ) -> Failure:
        record = execution.record
        error = record.error or {}
        rejected = check is not None and record.state == "error"
        failure = self._failure_of(
            todo,
            plan,
            state="rejected" if rejected else record.state,
            ename=str(error.get("ename") or record.state),
            evalue=str(error.get("evalue") or record.reason or ""),
            check=check,
            ran=record.id if check is None else None,
        )
        return dataclasses.replace(
            failure, reason=record.reason, diagnosis=await diagnosed(self._session, execution)
        )

    def _failure_of(
        self,
        todo: Todo,
        plan: Plan,
        *,
        state: str,
        ename: str,
        evalue: str,
        check: Check | None = None,
        ran: str | None = None,
    ) -> Failure:
        """``ran`` is the execution of the step's cell; where a check failed after it, the attempt knows it."""
        ran = ran or todo.attempts[-1].execution_id
        checkpoint = self._engine.execution(ran).record.checkpoint if ran is not None else None
        elsewhere = _elsewhere(plan, todo, self._session.document)
        return Failure(
            source=self._source(todo),
            state=state,
            error_type=ename,
            message=evalue,
            check=told(check) if check is not None else None,
            language=todo.language or self._session.language,
            surroundings=surroundings_of(self._engine, self._session, checkpoint, elsewhere),
        )

    def _source(self, todo: Todo) -> str:
        cell_id = todo.cell_id or todo.id
        return self._session.cell(cell_id).source if cell_id in self._session.document else ""


def _elsewhere(plan: Plan, todo: Todo, document: Document) -> dict[str, Elsewhere]:
    """Names that steps define which did not run before this one."""
    found: dict[str, Elsewhere] = {}
    for other in plan.steps:
        if other.id == todo.id or other.status == "done":
            continue
        source = document.cell(other.id).source if other.id in document else other.code or ""
        about = Elsewhere(plan.number(other.id), other.description, other.status)
        defines = cell_names(source, other.language or "python").defines
        found |= dict.fromkeys(sorted(defines - found.keys()), about)
    return found
