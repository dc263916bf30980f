"""One attempt at a step: its cell undone, run and checked, and what came of it put into the words of the machine.

Knows the session and its kernel; decides nothing about what is next (see ``machine``).
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass

import anyio
from msgspec.structs import replace

from cellwright.engine import Engine, Execution, Session
from cellwright.engine.introspection import with_inputs
from cellwright.engine.lineage import contains
from cellwright.errors import CellwrightError
from cellwright.notebook import CellMetadataSet, Document
from cellwright.notebook.python_names import cell_names
from cellwright.plans.checks import check_source, output_appears, told
from cellwright.plans.classes import classify
from cellwright.plans.events import FailureKind
from cellwright.plans.failures import Elsewhere, Failure
from cellwright.plans.findings import diagnosed, go_back, surroundings_of
from cellwright.plans.model import Attempt, Check, Plan, Todo

__all__ = ["Outcome", "Trial"]

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
