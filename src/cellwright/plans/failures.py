"""A failed cell as data: its code, its error, what the kernel knows about it. Collects that, and goes back to before the cell.

For plans, and for cells outside of any. What a failure means stands in ``error_classes``, what can be done about it in ``fixers``;
how often anything is tried is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cellwright.engine import Diagnosis, Engine, Execution, Session
from cellwright.engine.lineage import contains
from cellwright.errors import (
    CellwrightError,
    HostError,
    KernelError,
    NotApproved,
    PackageFailed,
    PackageRefused,
    SandboxError,
)
from cellwright.notebook import Document
from cellwright.notebook.python_names import cell_names

__all__ = [
    "Adviser",
    "Elsewhere",
    "Failure",
    "Proposal",
    "Surroundings",
    "code_number",
    "diagnosed",
    "failure_of",
    "go_back",
    "install_for",
    "is_last",
    "surroundings_of",
    "unrun_names",
]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A name that another step of the plan defines, or another cell where there is no plan."""

    number: int
    description: str
    status: str
    what: Literal["step", "cell"] = "step"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What lies around the failed cell."""

    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    """Names that skipped or later steps define, by the code they have."""
    approved: frozenset[str] = frozenset()
    """Distributions that may be installed, normalised."""
    has_checkpoint: bool = True
    """Whether the session can go back to before the cell."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed."""

    source: str
    """What ran: the cell's source, also where a check failed after it."""
    state: str
    """The execution's: ``error``, ``timeout``, ``died``; ``rejected`` where a check failed."""
    error_type: str
    message: str
    reason: str | None = None
    """Why it did not end by itself: the limit and its setting, in the engine's words."""
    diagnosis: Diagnosis | None = None
    """None where the kernel is gone, or gives no diagnosis."""
    check: str | None = None
    """The check that failed, where one did."""
    language: str = "python"
    surroundings: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a fixer proposes. Only a certain one with something to do is applied; else it is the suggestion."""

    fixer: str
    reason: str
    """One sentence, in words that also fit a report's suggestion."""
    source: str | None = None
    """The cell's new source; None where only a person or a model can write it."""
    packages: tuple[str, ...] = ()
    """Approved distributions to install first."""
    certain: bool = False
    alternatives: tuple[str, ...] = ()
    """Other sources that are as likely as ``source``: a plan tries each in a branch, against the step's checks."""

    @property
    def applies(self) -> bool:
        return self.certain and (self.source is not None or bool(self.packages))


Adviser: TypeAlias = Callable[[Failure], Awaitable[Proposal | None]]
"""Somebody to ask where no fixer is certain, such as a model: it may take its time, and is held to the same attempts."""


# Collects the facts about a failed cell, and goes back to before it: for plans, and for cells outside of
# any.


def failure_of(
    engine: Engine,
    session: Session,
    execution: Execution,
    elsewhere: Mapping[str, Elsewhere],
    diagnosis: Diagnosis | None,
) -> Failure:
    """A cell's failed execution, with the kernel's diagnosis where there is one."""
    record = execution.record
    error = record.error or {}
    return Failure(
        source=record.source,
        state=record.state,
        error_type=str(error.get("ename") or record.state),
        message=str(error.get("evalue") or record.reason or ""),
        reason=record.reason,
        diagnosis=diagnosis,
        language=record.language or session.language,
        surroundings=surroundings_of(engine, session, record.checkpoint, elsewhere),
    )


async def diagnosed(session: Session, execution: Execution) -> Diagnosis | None:
    """The kernel's diagnosis of an execution's error; None where that was not its last one, or it cannot answer."""
    if execution.record.state == "error" and is_last(session, execution):
        with suppress(CellwrightError):  # it is gone or busy; what it said is known all the same
            return await session.diagnose()
    return None


def is_last(session: Session, execution: Execution) -> bool:
    """Whether nothing ran in the session after an execution, so that its kernel still knows of it."""
    record = execution.record
    return record.number == session.runs.count and contains(session.record.lineage, record)


def surroundings_of(
    engine: Engine, session: Session, checkpoint: str | None, elsewhere: Mapping[str, Elsewhere]
) -> Surroundings:
    """What lies around a cell before which this checkpoint was taken."""
    return Surroundings(
        elsewhere=elsewhere,
        approved=engine.options.packages.approved.packages,
        has_checkpoint=any(one.id == checkpoint for one in session.checkpoints),
    )


async def unrun_names(session: Session, cell_id: str | None) -> dict[str, Elsewhere]:
    """Names that other cells of a notebook define which are no part of its state."""
    held = {record.cell_id for record in await session.state_history() if record.state == "ok"}
    found: dict[str, Elsewhere] = {}
    for cell in session.document.cells:
        if cell.kind != "code" or cell.id in held or cell.id == cell_id:
            continue
        about = Elsewhere(code_number(session.document, cell.id), cell.id, "not run", what="cell")
        defines = cell_names(cell.source, cell.language or session.language).defines
        found |= dict.fromkeys(sorted(defines - found.keys()), about)
    return found


def code_number(document: Document, cell_id: str) -> int:
    """Which of a notebook's code cells it is, from 1."""
    return [cell.id for cell in document.cells if cell.kind == "code"].index(cell_id) + 1


async def go_back(session: Session, cell_id: str) -> str | None:
    """Go back to before a cell, if it ran and is what ran last; where that cannot be done, why not."""
    standing = [record for record in await session.state_history() if record.numbered]
    if not any(record.cell_id == cell_id for record in standing):
        return None
    last = standing[-1]
    if last.cell_id != cell_id:
        return "What the attempt before did was not undone: other code ran after it"
    kept = {checkpoint.id for checkpoint in session.checkpoints}
    if last.checkpoint not in kept:
        why = last.no_checkpoint or "the checkpoint before the cell is not kept any more"
        return f"What the attempt before did was not undone: {why}"
    try:
        await session.roll_back(last.checkpoint)
    except (KernelError, SandboxError, HostError) as error:
        return f"What the attempt before did was not undone: {error.message}"
    return None


async def install_for(session: Session, packages: tuple[str, ...]) -> str | None:
    """Install what a fixer proposed; where that cannot be done, why not."""
    try:
        await session.install(packages)
    except (NotApproved, PackageRefused, PackageFailed) as error:
        return error.message
    return None
