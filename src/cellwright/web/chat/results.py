"""What came of a run that is over, from its trace: steps, outputs of its cells, files, cost. Asks, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from cellwright.engine import Engine, Session
from cellwright.errors import UnknownSession
from cellwright.notebook import Cell
from cellwright.web.notebook.cellviews import cell_view

__all__ = ["Exhibit", "Results", "results_of"]


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A cell whose outputs are more than lines of text."""

    cell_id: str
    place: int
    outputs: Markup


@dataclass(frozen=True, slots=True)
class Results:
    """What the page shows below an answer."""

    outcome: Mapping[str, Any] | None
    """None where the run did not come to its end."""
    session: Session | None
    exhibits: Sequence[Exhibit]
    seconds: float
    total: Mapping[str, Any]
    complete: bool
    """Whether the run came to an end of any kind, or its daemon died with it."""


def results_of(engine: Engine, trace: Mapping[str, Any]) -> Results:
    """What came of a run."""
    session = _session(engine, trace)
    return Results(
        outcome=trace["outcome"],
        session=session,
        exhibits=list(_exhibits(session, trace)) if session is not None else [],
        seconds=trace["summary"]["seconds"],
        total=trace["summary"]["total"],
        complete=trace["summary"]["complete"],
    )


def _session(engine: Engine, trace: Mapping[str, Any]) -> Session | None:
    """The notebook that it worked with: the outcome's, else the last on the main branch."""
    named = (trace["outcome"] or {}).get("session_id")
    worked_with = [
        step["session_id"] for step in trace["steps"] if step["branch"] == "main" and step["session_id"]
    ]
    session_id = named or next(reversed(worked_with), None)
    if session_id is None:
        return None
    try:
        return engine.session(session_id)
    except UnknownSession:
        return None


def _exhibits(session: Session, trace: Mapping[str, Any]) -> Iterator[Exhibit]:
    ran = {run["cell_id"] for step in trace["steps"] for run in step["runs"]}
    for cell in session.cells:
        if cell.id in ran and _is_shown(cell) and (view := cell_view(session, cell.id)) is not None:
            yield Exhibit(cell.id, view.place, view.outputs)


def _is_shown(cell: Cell) -> bool:
    """Whether it has a table, a chart or the like: what was printed stands with the step that printed it."""
    return any(set(output.get("data") or ()) - {"text/plain"} for output in cell.outputs)
