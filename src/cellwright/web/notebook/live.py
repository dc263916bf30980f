"""What a notebook's page shows, as far as it changes: follows the session and makes its parts, once for all who look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from weakref import WeakValueDictionary

from cellwright.engine import Engine, Event, Missed, Session
from cellwright.web.live import Change, Parts
from cellwright.web.notebook.cell_views import cell_view
from cellwright.web.notebook.panels import PANELS
from cellwright.web.templates import render

__all__ = ["CELLS", "cell_part", "follow", "touched_by"]
_PAGE = 1_000

_followed: WeakValueDictionary[tuple[int, str], Following] = WeakValueDictionary()


def follow(engine: Engine, session: Session) -> Following:
    """What shows this session, shared by all pages that are open on it."""
    key = id(engine), session.id
    found = _followed.get(key)
    if found is None:
        found = _followed[key] = Following(engine, session)
    return found


class Following:
    """One session's page."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine
        self._session = session
        self._parts = Parts(self._make)

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        # Listening begins before the past is read, so that nothing falls between the two.
        with self._engine.subscribe(self._session.id) as events:
            if since is not None:
                yield self._missed(since)
            async for event in events:
                if isinstance(event, Missed):
                    yield self._missed(event.first_seq - 1)
                else:
                    yield Change(event.seq, self._each(touched_by(event)))

    async def render(self, part: str, upto: int) -> str | None:
        return await self._parts.get(part, upto)

    def _missed(self, since: int) -> Change:
        """What changed meanwhile: of little each part, of much everything."""
        past = self._engine.events(since=since, session_id=self._session.id, limit=_PAGE)
        if len(past) < _PAGE:
            parts: frozenset[str] = frozenset().union(*(touched_by(event) for event in past))
            return Change(past[-1].seq if past else since, self._each(parts))
        return Change(self._engine.last_event, frozenset(self._everything()))

    def _each(self, parts: frozenset[str]) -> frozenset[str]:
        if EVERY_CELL not in parts:
            return parts
        return parts - {EVERY_CELL} | {cell_part(cell.id) for cell in self._session.cells}

    def _everything(self) -> Iterator[str]:
        yield from (STATUS, CELLS)
        yield from (f"@{panel.name}" for panel in PANELS)
        yield from (cell_part(cell.id) for cell in self._session.cells)

    async def _make(self, part: str) -> str | None:
        session = self._session
        if part == STATUS:
            is_there = any(one is session for one in self._engine.sessions())
            return render("notebook_status.html" if is_there else "notebook_gone.html", session=session)
        if part == CELLS:
            return render("notebook_order.html", cells=session.cells)
        if part.startswith("@"):
            return ""
        for name, template in ((cell_part, "cell.html"), (outputs_part, "cell_outputs.html")):
            prefix = name("")
            if part.startswith(prefix):
                view = cell_view(session, part.removeprefix(prefix))
                return render(template, session=session, cell=view) if view is not None else None
        return None


# Which parts of a notebook's page an event makes untrue. Pure.

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
