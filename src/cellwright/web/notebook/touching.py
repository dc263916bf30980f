"""Which parts of a notebook's page an event makes untrue. Pure.

A part is a piece of HTML that is sent again, by its element's id; a name that begins with ``@`` is a panel, which the page loads
again if somebody has it open.
"""

from __future__ import annotations

from cellwright.engine import Event

__all__ = ["CELLS", "EVERY_CELL", "STATUS", "cell_part", "outputs_part", "touched_by"]

STATUS = "status"
CELLS = "cells"
"""Which cells there are, and in what order."""
EVERY_CELL = "*"

_PANELS: dict[str, tuple[str, ...]] = {
    "notebook.cell.executing": ("@variables", "@history"),
    "notebook.cell.completed": ("@variables", "@files", "@history", "@checkpoints"),
    "notebook.cell.files": ("@files",),
    "notebook.types.checked": (),
    "notebook.state.changed": (
        "@variables",
        "@files",
        "@checkpoints",
        "@branches",
        "@environment",
        "@plan",
    ),
    "notebook.host.changed": ("@environment",),
    "notebook.plan.changed": ("@plan",),
    "notebook.verification.progress": ("@plan",),
    "notebook.verification.completed": ("@plan",),
    "notebook.network.request": ("@network",),
    "notebook.checkpoint.created": ("@checkpoints",),
    "notebook.checkpoint.dropped": ("@checkpoints",),
    "notebook.cell.undone": ("@variables", "@files", "@history"),
    "notebook.session.rolled_back": ("@variables", "@files", "@history", "@checkpoints"),
    "notebook.session.branched": ("@branches",),
    "notebook.session.adopted": (
        "@variables",
        "@files",
        "@history",
        "@checkpoints",
        "@branches",
        "@environment",
    ),
}
_OUTPUT = ("notebook.cell.output", "notebook.cell.late_output")
# After these any cell may stand differently than before: its kernel or its state is another.
_ALL = frozenset(
    {
        "notebook.cell.undone",
        "notebook.session.rolled_back",
        "notebook.session.adopted",
    }
)

# An edit of the notebook leaves the kernel and its files as they are; these say which cell something was of.
_OF_EDITS = ("@plan",)
_NAMING_CELLS = ("@history", "@checkpoints")
_WITHIN_A_CELL = frozenset({"source_changed", "outputs_set", "cell_metadata_set", "notebook_metadata_set"})


def cell_part(cell_id: str) -> str:
    return f"cell-{cell_id}"


def outputs_part(cell_id: str) -> str:
    return f"out-{cell_id}"


def touched_by(event: Event) -> frozenset[str]:
    """The parts that are no longer what they were."""
    parts = set(_OF_EDITS if "change" in event.data else _PANELS.get(event.kind, ()))
    if event.kind in _OUTPUT and event.cell_id is not None:
        parts.add(outputs_part(event.cell_id))
    elif event.cell_id is not None:
        parts |= {cell_part(event.cell_id), STATUS}
    else:
        parts.add(STATUS)
    if event.kind in _ALL or _moves_cells(event):
        # A cell says its place, so that those below one that came or went are other ones too.
        parts |= {CELLS, EVERY_CELL, *_NAMING_CELLS}
    if event.kind in _ALL or (event.kind == "notebook.state.changed" and "change" not in event.data):
        parts.add(EVERY_CELL)
    return frozenset(parts)


def _moves_cells(event: Event) -> bool:
    """Whether there are other cells than before, or in another order."""
    change = event.data.get("change")
    return isinstance(change, dict) and change.get("change") not in _WITHIN_A_CELL
