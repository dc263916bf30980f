"""Cells for an app: how they stand, and their sources and outputs as HTML that a page may hold. Asks no kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cellwright.engine import Session
from cellwright.engine.cell_states import cell_states
from cellwright.engine.shown_tables import shown_table
from cellwright.engine.timeline import places_of
from cellwright.formats.display_data import Exhibit, cut_text, exhibits_of, sound
from cellwright.formats.exhibits import ExhibitWriter
from cellwright.formats.highlight import code_html
from cellwright.formats.prose import ProseWriter
from cellwright.notebook import Cell
from cellwright.notebook.cells import run_times
from cellwright.notebook.widgets import with_widgets_as_text

__all__ = ["cells_shown"]

_CHARACTERS = 20_000
_LINES = 300
_MOST_HTML = 4_000_000
"""Characters of all outputs together: a host sends them through two windows."""


def cells_shown(session: Session, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Cells in order, each with its outputs as far as there is room."""
    states, places = cell_states(session, session.cells), places_of(session.cells)
    running = {one.cell_id for one in session.runs.live}
    metadata, left = session.document.metadata, _MOST_HTML
    shown = []
    for cell in cells:
        outputs = []
        for number, output in enumerate(with_widgets_as_text(cell.outputs, metadata)):
            for one in _outputs(output, f"Cell {places[cell.id]}"):
                left -= len(one["html"])
                has_grid = cell.id not in running and shown_table(session, cell, number) is not None
                outputs.append({**one, "number": number, "grid": has_grid} if left > 0 else _TOO_MUCH)
        state = states[cell.id]
        shown.append(
            {
                "id": cell.id,
                "place": places[cell.id],
                "kind": cell.kind,
                "language": cell.language or session.language,
                "state": state,
                "tone": state.partition(" ")[0],
                "seconds": _seconds(cell),
                "source": _source(cell, session.language),
                "outputs": outputs,
            }
        )
    return shown


def _seconds(cell: Cell) -> float | None:
    times = run_times(cell.metadata)
    return times.ended - times.began if times.began is not None and times.ended is not None else None


_TOO_MUCH = {
    "kind": "display",
    "html": '<p class="note">Too large to be shown here.</p>',
    "number": -1,
    "grid": False,
}


def _source(cell: Cell, language: str) -> str:
    if cell.kind == "markdown":
        return ProseWriter(code_html, prefix=f"{cell.id}-", styles="none").html(sound(cell.source), {})
    return code_html(sound(cell.source), cell.language or language)


def _outputs(output: Mapping[str, Any], called: str) -> list[dict[str, Any]]:
    writer = ExhibitWriter(ProseWriter(code_html, styles="none"))
    return [
        {"kind": one.kind, "html": html}
        for one in exhibits_of([output])
        if (html := writer.html(_cut(one), cell=called))
    ]


def _cut(exhibit: Exhibit) -> Exhibit:
    """The same with as much text as somebody reads in a chat."""
    parts = cut_text(exhibit.text, characters=_CHARACTERS, lines=_LINES)
    return replace(exhibit, text="\n".join(filter(None, parts)))
