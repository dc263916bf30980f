"""A cell as the page shows it: its source in colours, how it stands, and its outputs. Asks the session, changes nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from cellwright.engine import Execution, Session
from cellwright.engine.cell_states import cell_states
from cellwright.formats.highlight import code_html
from cellwright.formats.prose import ProseWriter
from cellwright.notebook import Cell
from cellwright.notebook.cells import CellRecord
from cellwright.notebook.edits import Comment, comments_of
from cellwright.web.outputs import Outputs
from cellwright.web.panels.output_texts import Shown, shown_outputs

__all__ = ["CellView", "cell_view", "cell_views"]

_OUTPUTS = Outputs()
"""Shared by all who look: an output is the same for everybody."""
_KERNEL_GONE = "gone"


@dataclass(frozen=True, slots=True)
class CellView:
    """What the template of a cell gets."""

    id: str
    kind: str
    place: int
    language: str
    source: str
    code: Markup
    """The source as it is read: code in colours, a text as it is meant."""
    version: int
    state: str
    """``not run``, ``queued``, ``running``, ``ok``, ``error``, ``stale``, …: the same words as agents read."""
    tone: str
    """What the state means for whoever looks: its first word, ``gone`` where the kernel that had it is no more."""
    started_at: float | None
    """Of a cell that runs."""
    seconds: float | None
    execution_id: str | None
    """Of the run that goes on or waits."""
    outputs: Markup
    late: tuple[Shown, ...] = ()
    """What was said in its name after its last run had ended."""
    comments: tuple[Comment, ...] = ()

    @property
    def lines(self) -> int:
        """How many lines an editor should have."""
        return min(max(self.source.count("\n") + 2, 3), 40)


def cell_views(session: Session) -> list[CellView]:
    """Every cell, in order."""
    return list(_views(session))


def cell_view(session: Session, cell_id: str) -> CellView | None:
    """One cell; None where it is gone."""
    return next(_views(session, only=cell_id), None)


def _views(session: Session, only: str | None = None) -> Iterator[CellView]:
    document = session.document
    cells = document.cells
    states = cell_states(session, cells)
    live = {execution.cell_id: execution for execution in session.runs.live}
    for place, (cell, record) in enumerate(zip(cells, document.records, strict=True), 1):
        if only is None or cell.id == only:
            yield _view(session, cell, record, place, states[cell.id], live.get(cell.id))


def _view(
    session: Session, cell: Cell, record: CellRecord, place: int, state: str, live: Execution | None
) -> CellView:
    language = cell.language or session.language
    ours = cell.metadata.get("cellwright")
    held = ours if isinstance(ours, Mapping) else {}
    at = f"/sessions/{session.id}/cells/{cell.id}"
    return CellView(
        id=cell.id,
        kind=cell.kind,
        place=place,
        language=language,
        source=cell.source,
        code=_prose(at, cell.source, _attached(at, record))
        if cell.kind == "markdown"
        else _code(cell.source, language),
        version=cell.version,
        state=state,
        tone=_KERNEL_GONE if "(generation" in state else state.split(maxsplit=1)[0],
        started_at=live.record.started_at if live is not None else None,
        seconds=None if live is not None else held.get("seconds"),
        execution_id=live.id if live is not None else None,
        outputs=_OUTPUTS.html(at, cell.outputs, growing=live is not None),
        late=tuple(shown_outputs(session.runs.late_outputs(cell.id))),
        comments=comments_of(cell),
    )


def _attached(at: str, record: CellRecord) -> tuple[tuple[str, str], ...]:
    attachments = record.fields.get("attachments")
    names = [str(name) for name in attachments] if isinstance(attachments, Mapping) else []
    return tuple((name, f"{at}/attachments/{quote(name, safe='')}") for name in names)


@functools.lru_cache(maxsize=1024)
def _code(source: str, language: str) -> Markup:
    return Markup(code_html(source, language))  # noqa: S704  # pygments escapes


@functools.lru_cache(maxsize=1024)
def _prose(at: str, source: str, pictures: tuple[tuple[str, str], ...]) -> Markup:
    writer = ProseWriter(code_html, prefix=f"{at.rpartition('/')[2]}-", styles="none")
    return Markup(writer.html(source, dict(pictures)))  # noqa: S704  # it cleans what it writes
