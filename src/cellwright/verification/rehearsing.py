"""Runs a copy of a notebook from the top in a clean session, cell by cell, and compares. What is made of it: ``verifying``."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from cellwright.engine import Execution, Inputs, Session
from cellwright.engine.records import ExecutionRecord
from cellwright.errors import NotebookError
from cellwright.notebook import Cell, Comparison, Difference, compare_outputs
from cellwright.verification.masking import mask_outputs
from cellwright.verification.rules import Applied

__all__ = ["CheckedCell", "rehearse", "time_for", "was_state"]

_MOST_FACTOR = 3.0
_MOST_S = 6 * 3_600.0


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """One cell that ran again."""

    cell: Cell
    """As the notebook has it."""
    now: ExecutionRecord
    comparison: Comparison
    read: Inputs = field(default_factory=Inputs)
    expected_state: str = "ok"

    @property
    def inputs(self) -> dict[str, str]:
        """The files that it read, each with what tells whether it is still the same."""
        return {file.path: file.digest for file in self.read.files}

    @property
    def same(self) -> bool:
        return self.comparison.same

    @property
    def goes_on(self) -> bool:
        """Whether what comes after it may run: it ended well, or failed as it did before."""
        return self.now.state == "ok" or (
            self.now.state in ("error", "timeout") and self.expected_state != "ok"
        )


async def rehearse(
    session: Session,
    cells: Sequence[Cell],
    how: Mapping[str, Applied],
    *,
    timeout_s: float | None,
) -> AsyncGenerator[CheckedCell, None]:
    """Run cells in a rehearsal, in order, and yield each as it ends; the last may be one that ended badly.

    Raises:
        NotebookError: a mask cannot be used.
        KernelError: the kernel is gone.
    """
    await session.watch_inputs()
    for cell in cells:
        limit_s = timeout_s if timeout_s is not None else time_for(cell, session.time_limit(None))
        execution = await session.execute(cell.id, timeout_s=limit_s)
        await execution.wait()
        inputs = await _inputs(session, cell, execution)
        comparison = await _compared(cell, execution, how[cell.id])
        checked = CheckedCell(
            cell,
            execution.record,
            comparison,
            inputs,
            was_state(cell),
        )
        yield checked
        if not checked.goes_on:
            return


def was_state(cell: Cell) -> str:
    """How a cell's last run ended, by what it shows."""
    if cell.may_raise:
        return "error"
    failed = any(output.get("output_type") == "error" for output in cell.outputs)
    return "error" if failed else "ok"


def time_for(cell: Cell, usual_s: float) -> float:
    """The usual time, or more where the cell is known to have needed more; what a file says of that is bounded."""
    ours = cell.metadata.get("cellwright")
    took_s = ours.get("seconds") if isinstance(ours, Mapping) else None
    if not isinstance(took_s, int | float) or not 0 < took_s < math.inf:
        return usual_s
    return max(usual_s, min(took_s * _MOST_FACTOR, _MOST_S))


async def _inputs(session: Session, cell: Cell, execution: Execution) -> Inputs:
    if execution.state == "died":
        return Inputs()
    return await session.inputs(cell.source)


async def _compared(cell: Cell, execution: Execution, how: Applied) -> Comparison:
    before, now = list(cell.outputs), execution.outputs
    if how.patterns:
        try:
            before = await mask_outputs(before, how.patterns)
            now = await mask_outputs(now, how.patterns)
        except NotebookError as refusal:
            return Comparison((Difference("masks", "", "", refusal.message),))
    # Outputs may be megabytes, and nobody else should wait for them.
    found = await anyio.to_thread.run_sync(compare_outputs, before, now, how.rules)
    expected = was_state(cell)
    if (execution.state == "ok") == (expected == "ok") or (cell.may_raise and execution.state == "ok"):
        return found
    error = execution.error
    why = f"ended as {execution.state}" + (f" ({error['ename']}: {error['evalue']})" if error else "")
    why += f": {execution.reason}" if execution.reason else ""
    return Comparison((Difference("state", expected, execution.state, why), *found.differences), found.more)
