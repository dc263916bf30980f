"""How a cell stands: never run, waiting, running, or how its last run ended and in which kernel."""

from __future__ import annotations

from cellwright.engine import Session
from cellwright.notebook import Cell

__all__ = ["cell_states"]


def cell_states(session: Session, cells: tuple[Cell, ...]) -> dict[str, str]:
    """Every cell's state by its id. A state from an earlier kernel says so, for its variables are gone."""
    live = {execution.cell_id: execution.state for execution in session.runs.live}
    return {cell.id: live.get(cell.id) or _settled(cell, session.generation) for cell in cells}


def _settled(cell: Cell, generation: int) -> str:
    if cell.kind != "code":
        return cell.kind
    ours = cell.metadata.get("cellwright")
    if not isinstance(ours, dict) or "state" not in ours:
        return "not run here" if cell.outputs else "not run"
    then = ours.get("generation")
    return str(ours["state"]) if then == generation else f"{ours['state']} (generation {then})"
