"""Which outputs show a table that the live kernel still has, and what it finds them by. Asks no kernel (see grids)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.engine.cell_states import ran_in_kernel
from cellwright.engine.grids import ShownTable
from cellwright.engine.session import Session
from cellwright.notebook import Cell

__all__ = ["digest_of", "may_have_grid", "shown_table"]


def may_have_grid(session: Session, cell: Cell, number: int) -> bool:
    """Whether the live kernel has the table of an output, or will tell once the cell that displays it has ended."""
    is_running = any(one.cell_id == cell.id for one in session.runs.live)
    waits = is_running and session.runs_python and digest_of(_output(cell, number)) is not None
    return waits or shown_table(session, cell, number) is not None


def shown_table(session: Session, cell: Cell, number: int) -> ShownTable | None:
    """What the live kernel finds the table of an output by; None where it has none."""
    output, count = _output(cell, number), cell.execution_count
    if count is None or not session.runs_python or not ran_in_kernel(session, cell):
        return None
    if output.get("output_type") == "execute_result":
        return ShownTable(count) if output.get("execution_count") == count else None
    digest = digest_of(output)
    return ShownTable(count, digest) if digest is not None else None


def _output(cell: Cell, number: int) -> Mapping[str, Any]:
    return cell.outputs[number] if number < len(cell.outputs) else {}


def digest_of(output: Mapping[str, Any]) -> str | None:
    """What the kernel told of the table beside its HTML."""
    metadata = output.get("metadata")
    ours = metadata.get("cellwright") if isinstance(metadata, Mapping) else None
    digest = ours.get("digest") if isinstance(ours, Mapping) else None
    return digest if isinstance(digest, str) else None
