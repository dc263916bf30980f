"""Cells that failed, fixed by rule before a model is asked: the fixers of plans, for a cell that belongs to none.

Only what a fixer is certain of is done; anything else is a suggestion, and a model's or a person's to take up. Classes,
fixers and the report are those of ``plans``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from cellwright.engine import Engine, Execution, Session
from cellwright.errors import StaleEdit
from cellwright.plans import Failure, Proposal, Report
from cellwright.plans.error_classes import Verdict, classify
from cellwright.plans.failures import code_number, diagnosed, failure_of, go_back, install_for, unrun_names
from cellwright.plans.model import MAX_RETRIES
from cellwright.plans.runner import Fixers, diff_of

__all__ = ["Fix", "Repaired", "repair", "stop_report"]

_MAX_MESSAGE = 2_000
_CHANGED = "The cell is not the one that failed any more: run it as it stands now"
_INTERRUPTED = "It was interrupted: run it again"


@dataclass(frozen=True, slots=True)
class Fix:
    """What a fixer did, and how the cell ended then."""

    fixer: str
    reason: str
    diff: str
    """How the source became the one that ran; empty where only packages were installed."""
    packages: tuple[str, ...]
    execution_id: str
    state: str

    @property
    def text(self) -> str:
        return "\n".join(filter(None, [f"Fixed by rule ({self.fixer}): {self.reason}", self.diff]))


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of a cell that failed."""

    execution: Execution
    """The last one."""
    fixes: tuple[Fix, ...] = ()
    suggestion: str = ""
    """Where it still fails: what could be done, of which nothing is certain."""
    verdict: Verdict | None = None
    """Of its last error; None where it went well, or was stopped by somebody."""
    notes: tuple[str, ...] = ()
    """What else to know: that nothing could be undone, say."""

    @property
    def ok(self) -> bool:
        return self.execution.ok

    @property
    def may_go_on(self) -> bool:
        """Whether other code can help: not where a limit or a missing permission stopped it."""
        return self.verdict is None or self.verdict.kind != "unrecoverable"

    @property
    def text(self) -> str:
        """What was done and what is left to do, in lines; empty where there was nothing to do."""
        left = [f"Suggestion: {self.suggestion}"] if self.suggestion and not self.ok else []
        return "\n".join([*(fix.text for fix in self.fixes), *self.notes, *left])


async def repair(
    engine: Engine,
    session: Session,
    execution: Execution,
    *,
    tries: int = 3,
    fixers: Fixers = Fixers(),  # noqa: B008  # frozen
    begun: set[str] | None = None,
) -> Repaired:
    """Fix a cell whose execution failed, as far as fixers are certain, and run it again, ``tries`` times at most.

    Every run begins in the state before the cell, as far as the session can go back to it. Where it fails to the end and
    was to be rolled back, it is. ``begun`` is given the ids of these runs.
    """
    own = begun if begun is not None else set()
    return await _Repairing(engine, session, execution, fixers, own).run(tries)


def stop_report(
    session: Session,
    repaired: Repaired,
    *,
    task: str,
    fixes: int | None = None,
    suggestion: str | None = None,
) -> Report:
    """Why work on a task stopped, as a plan tells it. ``fixes`` counts those of others as well."""
    record = repaired.execution.record
    error = record.error or {}
    cell_id = record.cell_id if record.cell_id is not None and record.cell_id in session.document else None
    return Report(
        cell=code_number(session.document, cell_id) if cell_id is not None else 0,
        todo=task,
        error_type=str(error.get("ename") or record.state),
        message=str(error.get("evalue") or record.reason or "")[:_MAX_MESSAGE],
        fixes=len(repaired.fixes) if fixes is None else fixes,
        suggestion=suggestion or repaired.suggestion or "Give other code for the cell",
        recoverable=repaired.may_go_on,
        todo_id=cell_id or record.id,
        cell_id=cell_id,
    )


@dataclass(slots=True)
class _Repairing:
    """One cell on its way, run by run."""

    engine: Engine
    session: Session
    last: Execution
    fixers: Fixers
    begun: set[str]
    cell_id: str = ""
    """Empty where the code was in no cell: nothing can be edited then, or run from where it began."""
    version: int = 0
    fixes: list[Fix] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    retries: int = 0
    rolls_back: bool = False
    looked: bool = False

    async def run(self, tries: int) -> Repaired:
        self.cell_id = self.last.cell_id or ""
        self.rolls_back = self.last.record.on_error == "rollback"
        verdict, suggestion = None, ""
        while not self.last.ok:
            if self._interrupted:
                suggestion = _INTERRUPTED
                break
            if await self._is_another():
                suggestion = _CHANGED
                break
            failure = await self._failure()
            verdict = classify(failure)
            if await self._went_on(failure, verdict):
                continue
            found = await self.fixers.propose(failure) if verdict.kind == "recoverable" else None
            if found is None or not found.applies or len(self.fixes) >= tries or not self.cell_id:
                suggestion = _worded(failure, found) if found is not None else verdict.suggestion
                break
            if not await self._apply(failure, found):
                suggestion = _CHANGED
                break
        return await self._ended(verdict, suggestion)

    async def _ended(self, verdict: Verdict | None, suggestion: str) -> Repaired:
        if self.last.ok:
            verdict = None
        elif self.rolls_back and self.cell_id and (why := await go_back(self.session, self.cell_id)):
            self.notes.append(why)
        notes = tuple(dict.fromkeys(self.notes))
        return Repaired(self.last, tuple(self.fixes), suggestion, verdict, notes)

    @property
    def _interrupted(self) -> bool:
        # What the memory's guard stopped was nobody's wish.
        record = self.last.record
        return record.state == "interrupted" and "max_memory_fraction" not in (record.reason or "")

    async def _is_another(self) -> bool:
        """Whether somebody has changed or deleted the cell since it ran."""
        await self.session.refresh()
        if self.last.cell_id is None:
            return False
        if self.cell_id not in self.session.document:
            return True
        cell = self.session.cell(self.cell_id)
        self.version = cell.version
        return cell.source != self.last.record.source

    async def _failure(self) -> Failure:
        elsewhere = await unrun_names(self.session, self.last.cell_id)
        diagnosis = await diagnosed(self.session, self.last)
        return failure_of(self.engine, self.session, self.last, elsewhere, diagnosis)

    async def _went_on(self, failure: Failure, verdict: Verdict) -> bool:
        """Run it again as it is, where that may help, or where the kernel that knows the error was rolled back."""
        if not self.cell_id:
            return False
        if verdict.kind == "network" and self.retries < MAX_RETRIES:
            self.retries += 1
            await anyio.sleep(self.engine.settings.plan_backoff_s * 2 ** (self.retries - 1))
            await self._run()
            return True
        record = self.last.record
        unknown = (
            record.state == "error" and failure.diagnosis is None and (record.undone or record.rolled_back)
        )
        if unknown and verdict.kind == "recoverable" and not self.looked:
            self.looked = True
            await self._run()
            return True
        return False

    async def _apply(self, failure: Failure, found: Proposal) -> bool:
        """Do what a fixer proposes and run the cell; False where somebody else changed it first."""
        diff = ""
        if found.source is not None:
            try:
                await self.session.edit_cell(self.cell_id, found.source, expected_version=self.version)
            except StaleEdit:
                return False
            diff = diff_of(failure.source, found.source)
        await self._run(found.packages)
        self.fixes.append(
            Fix(found.fixer, found.reason, diff, found.packages, self.last.id, self.last.record.state)
        )
        return True

    async def _run(self, packages: tuple[str, ...] = ()) -> None:
        """Run the cell from the state before it, and keep that state: the kernel is asked before it is undone."""
        if why := await go_back(self.session, self.cell_id):
            self.notes.append(why)
        if packages and (why := await install_for(self.session, packages)):
            self.notes.append(why)
        timeout_s = self.last.record.timeout_s
        execution = await self.session.execute(self.cell_id, timeout_s=timeout_s, checkpoint=True)
        self.begun.add(execution.id)
        self.last = await execution.wait()


def _worded(failure: Failure, found: Proposal) -> str:
    """What nobody is certain of, or what there are no tries left for."""
    diff = diff_of(failure.source, found.source) if found.source is not None else ""
    return f"{found.reason}\n{diff}" if diff else found.reason
