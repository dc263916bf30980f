"""How a cell stands: never run, waiting, running, or how its last run ended and whether that still holds."""

from __future__ import annotations

from cellwright.engine import Session
from cellwright.notebook import Cell

__all__ = ["cell_states", "ran_in_kernel"]


def cell_states(session: Session, cells: tuple[Cell, ...]) -> dict[str, str]:
    """Every cell's state by its id. A state that the kernel has nothing of any more says so: its variables are gone."""
    live = {execution.cell_id: execution.state for execution in session.runs.live}
    held = _generations(session)
    return {cell.id: live.get(cell.id) or _settled(cell, held) for cell in cells}


def ran_in_kernel(session: Session, cell: Cell) -> bool:
    """Whether a cell's last run was in the live kernel, or in one that this goes on from."""
    ours = cell.metadata.get("cellwright")
    then = ours.get("generation") if isinstance(ours, dict) else None
    return session.state == "active" and then in _generations(session)


def _generations(session: Session) -> set[int]:
    # What ran in the kernels that this one goes on from is in it too, but for what a rollback marked as stale.
    return {session.generation, *(span.generation for span in session.record.lineage)}


def _settled(cell: Cell, held: set[int]) -> str:
    if cell.kind != "code":
        return cell.kind
    ours = cell.metadata.get("cellwright")
    if not isinstance(ours, dict) or "state" not in ours:
        return "not run here" if cell.outputs else "not run"
    if ours.get("stale") or cell.was_edited:
        return f"stale ({ours['state']})"
    then = ours.get("generation")
    return str(ours["state"]) if then in held else f"{ours['state']} (generation {then})"
