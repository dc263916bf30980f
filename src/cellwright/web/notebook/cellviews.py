"""A cell as the page shows it: its source in colours, how it stands, and its outputs. Asks the session, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from cellwright.engine import Session
from cellwright.formats.codehtml import code_html
from cellwright.mcp.cellstates import cell_states
from cellwright.notebook import Cell
from cellwright.notebook.comments import Comment, comments_of
from cellwright.web.notebook.outputviews import outputs_html

__all__ = ["CellView", "cell_view", "cell_views"]


@dataclass(frozen=True, slots=True)
class CellView:
    """What the template of a cell gets."""

    id: str
    kind: str
    place: int
    language: str
    source: str
    code: Markup
    version: int
    state: str
    """``not run``, ``queued``, ``running``, ``ok``, ``error``, ``stale``, …: the same words as agents read."""
    started_at: float | None
    """Of a cell that runs."""
    seconds: float | None
    execution_id: str | None
    """Of the run that goes on or waits."""
    outputs: Markup
    comments: tuple[Comment, ...] = ()


def cell_views(session: Session) -> list[CellView]:
    """Every cell, in order."""
    return list(_views(session, session.cells))


def cell_view(session: Session, cell_id: str) -> CellView | None:
    """One cell; None where it is gone."""
    for view in _views(session, session.cells, only=cell_id):
        return view
    return None


def _views(session: Session, cells: tuple[Cell, ...], only: str | None = None) -> Iterator[CellView]:
    states = cell_states(session, cells)
    live = {execution.cell_id: execution.record for execution in session.runs.live}
    for place, cell in enumerate(cells, 1):
        if only is not None and cell.id != only:
            continue
        language = cell.language or session.language
        running = live.get(cell.id)
        ours = cell.metadata.get("cellwright")
        held = ours if isinstance(ours, dict) else {}
        yield CellView(
            id=cell.id,
            kind=cell.kind,
            place=place,
            language=language,
            source=cell.source,
            code=Markup(code_html(cell.source, language)),  # noqa: S704  # pygments escapes
            version=cell.version,
            state=states[cell.id],
            started_at=running.started_at if running is not None else None,
            seconds=None if running is not None else held.get("seconds"),
            execution_id=running.id if running is not None else None,
            outputs=outputs_html(session.id, cell),
            comments=comments_of(cell),
        )
