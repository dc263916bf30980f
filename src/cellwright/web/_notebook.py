"""A notebook's page, and the stream that keeps it true."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from cellwright.audit import actor
from cellwright.engine import Author, CellAuthors, Engine, Event, Execution, Missed, Session
from cellwright.engine.cell_states import cell_states
from cellwright.engine.questions import Question
from cellwright.errors import CellwrightError
from cellwright.formats.highlight import code_html
from cellwright.formats.prose import ProseWriter
from cellwright.notebook import Cell
from cellwright.notebook.cell_edits import is_folded
from cellwright.notebook.cells import CellRecord, RunTimes, run_times
from cellwright.notebook.document import Comment, comments_of
from cellwright.people import may
from cellwright.plans.hints import Hint, hints_of
from cellwright.plans.reports import plan_in
from cellwright.tools.code_format import FORMATTED_LANGUAGES
from cellwright.web import _outputs, _presence
from cellwright.web._live import Change, LiveResponse, Parts
from cellwright.web._outputs import Outputs
from cellwright.web._presence import PRESENCE, presence_html, presence_of, visits
from cellwright.web._templates import render
from cellwright.web._toolbar import export_choices
from cellwright.web._widgets import WIDGETS, is_widget_part, widget_changes, widget_part
from cellwright.web.panels import branches, environment, files, history, plans
from cellwright.web.panels.contents import contents
from cellwright.web.panels.environment import variables
from cellwright.web.panels.history import Shown, shown_outputs
from cellwright.web.panels.plans import plan_values
from cellwright.web.requests import PageRequest, action, page

__all__ = ["CELLS", "cell_view", "shown_cells", "touched_by"]


# What a notebook's page shows, as far as it changes: follows the session and makes its parts, once for all
# who look.

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
        if part == PRESENCE:  # it changes without events, too
            return presence_html(self._engine, self._session)
        if is_widget_part(part):
            return widget_part(self._session, part)
        return await self._parts.get(part, upto)

    def _missed(self, since: int) -> Change:
        """What changed meanwhile: of little each part, of much everything."""
        past = self._engine.events(since=since, session_id=self._session.id, limit=_PAGE)
        if len(past) < _PAGE:
            parts: frozenset[str] = frozenset().union(*(touched_by(event) for event in past))
            return Change(past[-1].seq if past else since, self._each(parts))
        return Change(self._engine.last_event, frozenset(self._everything()))

    def _each(self, parts: frozenset[str]) -> frozenset[str]:
        cells = self._session.cells
        if EVERY_CELL in parts:
            return parts - {EVERY_CELL} | {cell_part(cell.id) for cell in cells}
        if CELLS in parts:
            # A traceback names cells by their numbers.
            failed = (one for one in cells if any(out.get("output_type") == "error" for out in one.outputs))
            return parts | {cell_part(cell.id) for cell in failed}
        return parts

    def _everything(self) -> Iterator[str]:
        yield from (TITLE, STATUS, STOP, PRESENCE, WIDGETS, CELLS)
        yield from (f"@{panel.name}" for panel in PANELS)
        yield from (cell_part(cell.id) for cell in self._session.cells)

    async def _make(self, part: str) -> str | None:
        session = self._session
        if part == STATUS:
            is_there = any(one is session for one in self._engine.sessions())
            return render("notebook_status.html" if is_there else "notebook_gone.html", session=session)
        if part in _SIMPLE_PARTS:
            return render(_SIMPLE_PARTS[part], session=session)
        if part == CELLS:
            return render("notebook_order.html", cells=session.cells)
        return "" if part.startswith("@") else await self._make_of_cell(part)

    async def _make_of_cell(self, part: str) -> str | None:
        session = self._session
        for name in (cell_part, outputs_part):
            prefix = name("")
            if part.startswith(prefix):
                cell_id = part.removeprefix(prefix)
                if (view := cell_view(session, cell_id)) is None:
                    return None
                view = replace(view, hint=await _hint(self._engine, session, cell_id))
                if name is cell_part:
                    return _cell_html(session, view)
                return render("cell_outputs.html", session=session, cell=view)
        return None


# Which parts of a notebook's page an event makes untrue. Pure.

TITLE = "title"

STATUS = "status"

STOP = "stop"
"""Whether anything runs that could be stopped."""

_SIMPLE_PARTS = {TITLE: "notebook_title.html", STOP: "notebook_stop.html"}

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
_OF_EDITS = ("@plan", "@contents")

_NAMING_CELLS = ("@history", "@checkpoints")

KEY_SHEET = (
    (
        "On a cell",
        (
            ("Enter", "edit it"),
            ("↑ ↓ j k", "go to the cell above or below"),
            ("a b", "add a cell above or below"),
            ("d d", "delete"),
            ("z Z", "undo, redo"),
            ("x c v", "cut, copy, paste below (V: above)"),
            ("m y", "make it text or code"),
            ("o h", "fold outputs, fold the source"),
            ("M", "merge the chosen cells"),
            ("Ctrl-Shift-↑ Ctrl-Shift-↓", "move up or down"),
            ("Shift-↑ Shift-↓", "choose several (Ctrl-A: all)"),
            ("f", "find and replace"),
            ("i i", "stop what runs"),
            ("0 0", "restart the kernel"),
        ),
    ),
    (
        "On a cell and in its editor",
        (
            ("Shift-Enter", "run, and go to the next cell"),
            ("Ctrl-Enter", "run"),
            ("Alt-Enter", "run, and add a cell below"),
            ("Ctrl-S", "save"),
        ),
    ),
    (
        "In the editor",
        (
            ("Esc", "save, and leave it"),
            ("Tab Ctrl-Space", "complete; Tab indents where there is no word"),
            ("Shift-Tab", "documentation; indents less at the beginning of a line"),
            ("Ctrl-Shift-Minus", "split at the caret"),
            ("Ctrl-F", "find in the cell"),
            ("Alt-Click", "another caret"),
            ("Ctrl-/", "comment out"),
        ),
    ),
)
"""What the script's keys mean, as the page tells it."""

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
        parts |= {cell_part(event.cell_id), STATUS, STOP}
    else:
        parts |= {STATUS, STOP}
    if STATUS in parts:
        # The kernel may be another one, and its widgets with it.
        parts |= {PRESENCE, WIDGETS}
    if "change" in event.data or "renamed" in event.data:
        parts.add(TITLE)
    if event.kind in _ALL or _moves_cells(event):
        # The page numbers its cells by the order; only what else names cells by their number is made anew.
        parts |= {CELLS, *_NAMING_CELLS}
    if (
        event.kind in _ALL
        or _replaces_all(event)
        or (event.kind == "notebook.state.changed" and "change" not in event.data)
    ):
        parts.add(EVERY_CELL)
    return frozenset(parts)


def _replaces_all(event: Event) -> bool:
    """Whether any cell may have another source or other outputs than before."""
    change = event.data.get("change")
    return isinstance(change, dict) and change.get("change") == "document_replaced"


def _moves_cells(event: Event) -> bool:
    """Whether there are other cells than before, or in another order."""
    change = event.data.get("change")
    return isinstance(change, dict) and change.get("change") not in _WITHIN_A_CELL


# A cell as the page shows it: its source in colours, how it stands, and its outputs. Asks the session,
# changes nothing.

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
    times: RunTimes
    """Of its last run, whoever ran it."""
    execution_id: str | None
    """Of the run that goes on or waits."""
    outputs: Markup
    late: tuple[Shown, ...] = ()
    """What was said in its name after its last run had ended."""
    dropped_bytes: int = 0
    """Of its last run's output: what was beyond the limit."""
    comments: tuple[Comment, ...] = ()
    question: Question | None = None
    """What its code waits to be answered."""
    authors: CellAuthors = field(default_factory=CellAuthors)
    source_folded: bool = False
    outputs_folded: bool = False
    hint: Hint | None = None
    """What the fixers say of its last run, where that failed."""

    @property
    def revision(self) -> str | None:
        """Another one after every edit and every run, for a browser that keeps what it has shown; None while it runs."""
        if self.execution_id is not None:
            return None
        return f"{self.version}.{(self.times.ended or 0) * 1000:.0f}"

    @property
    def changed(self) -> Author | None:
        """Who edited or ran it last; None where nobody is known."""
        known = [one for one in (self.authors.edited, self.authors.ran) if one is not None]
        return max(known, key=lambda one: one.seq, default=None)


async def _shown_cells(engine: Engine, session: Session) -> list[Markup]:
    """Every cell, in order, with the hints for those that failed."""
    views = [replace(view, hint=await _hint(engine, session, view.id)) for view in list(_views(session))]
    return [_cell_html(session, view) for view in views]


def cell_view(session: Session, cell_id: str) -> CellView | None:
    """One cell; None where it is gone."""
    return next(_views(session, only=cell_id), None)


async def _hint(engine: Engine, session: Session, cell_id: str) -> Hint | None:
    """What the fixers say of a cell that has failed; they look at it while its kernel still knows why."""
    newest = session.runs.newest(cell_id)
    return await hints_of(engine).of(session, newest) if newest is not None else None


@dataclass(frozen=True, slots=True)
class _Notebook:
    """What a cell's template knows of the session around it."""

    id: str
    language: str


def _cell_html(session: Session, view: CellView) -> Markup:
    notebook = _Notebook(session.id, session.language)
    # Large ones are few, and would be most of what is kept.
    if len(view.code) + len(view.outputs) > _KEPT_CHARACTERS:
        return Markup(render("cell.html", session=notebook, cell=view))  # noqa: S704  # the template escapes
    # Times are told without a date on their own day.
    return _made_cell(notebook, view, time.localtime()[:3])


_KEPT_CHARACTERS = 10_000


@functools.lru_cache(maxsize=1024)
def _made_cell(session: _Notebook, view: CellView, today: tuple[int, ...]) -> Markup:
    """A cell that is as it was need not be made again when somebody opens its notebook once more."""
    del today
    return Markup(render("cell.html", session=session, cell=view))  # noqa: S704  # the template escapes


def _views(session: Session, only: str | None = None) -> Iterator[CellView]:
    document = session.document
    cells = document.cells
    states = cell_states(session, cells)
    live = {execution.cell_id: execution for execution in session.runs.live}
    # An earlier kernel counted anew: its numbers are those of other cells now.
    places = {
        cell.execution_count: place
        for place, cell in enumerate(cells, 1)
        if cell.execution_count and not _is_of_earlier_kernel(states[cell.id])
    }
    for place, (cell, record) in enumerate(zip(cells, document.records, strict=True), 1):
        if only is None or cell.id == only:
            state = states[cell.id]
            known = {} if _is_of_earlier_kernel(state) else places
            yield _view(session, cell, record, place, state, live.get(cell.id), known)


def _is_of_earlier_kernel(state: str) -> bool:
    return "(generation" in state


def _view(
    session: Session,
    cell: Cell,
    record: CellRecord,
    place: int,
    state: str,
    live: Execution | None,
    places: Mapping[int, int],
) -> CellView:
    language = cell.language or session.language
    ours = cell.metadata.get("cellwright")
    held = ours if isinstance(ours, Mapping) else {}
    at = f"/sessions/{session.id}/cells/{cell.id}"
    newest = session.runs.newest(cell.id)
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
        tone=_KERNEL_GONE if _is_of_earlier_kernel(state) else state.split(maxsplit=1)[0],
        started_at=live.record.started_at if live is not None else None,
        seconds=None if live is not None else held.get("seconds"),
        times=RunTimes() if live is not None else run_times(cell.metadata),
        execution_id=live.id if live is not None else None,
        outputs=_OUTPUTS.html(at, cell.outputs, growing=live is not None, places=places),
        late=tuple(shown_outputs(session.runs.late_outputs(cell.id))),
        dropped_bytes=newest.record.dropped_bytes if newest is not None and cell.outputs else 0,
        comments=comments_of(cell),
        question=session.questions.of(live.id) if live is not None else None,
        authors=session.authors_of(cell.id),
        source_folded=is_folded(cell, "source"),
        outputs_folded=is_folded(cell, "outputs"),
    )


def _attached(at: str, record: CellRecord) -> tuple[tuple[str, str], ...]:
    attachments = record.fields.get("attachments")
    names = [str(name) for name in attachments] if isinstance(attachments, Mapping) else []
    return tuple((name, f"{at}/attachments/{quote(name, safe='')}") for name in names)


_UNCOLOURED = re.compile(r'<span class="[nopw]">([^<]*)</span>')
"""Names, operators and the like, which the style sheet leaves as they are: half of what a browser would have to keep."""


@functools.lru_cache(maxsize=1024)
def _code(source: str, language: str) -> Markup:
    return Markup(_UNCOLOURED.sub(r"\1", code_html(source, language)))  # noqa: S704  # pygments escapes


@functools.lru_cache(maxsize=1024)
def _prose(at: str, source: str, pictures: tuple[tuple[str, str], ...]) -> Markup:
    writer = ProseWriter(code_html, prefix=f"{at.rpartition('/')[2]}-", styles="none")
    return Markup(writer.html(source, dict(pictures)))  # noqa: S704  # it cleans what it writes


# A person takes a session over from whoever works on it, and gives it back.

_MAX_NOTE = 2_000


async def _take(request: PageRequest) -> Response:
    """An owner may take it from anybody; others only where no other person has it."""
    session, person, form = request.session(), request.person, await request.form()
    if session.held_by != person.name and not may(person, "own"):
        session.refuse_if_taken()
    await session.take_over(person.name)
    if form.get("stop"):
        await request.site.planner.pause(session.id)
        await session.interrupt()
    return request.done("It is yours. Agents can only read it until you give it back")


async def _give_back(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    request.engine.presence.given_back(session.id)
    await session.give_back(request.person.name, form.get("note", "").strip()[:_MAX_NOTE])
    return request.done("Given back. Agents are told what you changed")


_OWNERSHIP_ACTIONS = [
    action("/sessions/{session_id}/take", _take, while_held=True),
    action("/sessions/{session_id}/give-back", _give_back),
]


async def shown_cells(
    request: PageRequest,
    session: Session,
    cell_ids: Sequence[str],
    *,
    say: str = "",
    go: str | None = None,
    moved: bool = False,
) -> Response:
    """What was done, with the cells as they are now: nobody waits for the stream to see their own action.

    ``go`` is the cell that gets the keyboard; ``moved`` says that there are other cells than before, or in another order.
    """
    following, upto = follow(request.engine, session), request.engine.last_event
    parts = [*([CELLS] if moved else []), *(cell_part(cell_id) for cell_id in cell_ids)]
    found = {part: await following.render(part, upto) for part in parts}
    return request.done(say, parts=found, upto=upto, go=f"#{cell_part(go)}" if go is not None else None)


# The panels beside a notebook. Each is loaded when somebody opens it, and again when an event touches it.


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: the values that ``panel_NAME.html`` shows."""

    name: str
    title: str
    values: Callable[[PageRequest], Awaitable[dict[str, Any]]]
    routes: Sequence[Route] = ()
    """What else there is to look at or to do in it."""
    is_open: Callable[[Session], bool] = lambda _session: False
    """Whether somebody who comes to the page wants to see it at once."""


def _has_plan(session: Session) -> bool:
    return plan_in(session.document.metadata) is not None


PANELS: tuple[Panel, ...] = (
    Panel("plan", "Plan", plan_values, is_open=_has_plan),
    Panel("contents", "Contents", contents),
    Panel("variables", "Variables", variables),
    Panel("files", "Files", files.files, files.ROUTES),
    Panel("checkpoints", "Checkpoints", branches.checkpoints, branches.CHECKPOINT_ROUTES),
    Panel("branches", "Branches", branches.branches, (*branches.BRANCH_ROUTES, *branches.COMPARISON_ROUTES)),
    Panel("history", "History", history.history, history.ROUTES),
    Panel("network", "Network", environment.network),
    Panel("environment", "Environment", environment.environment, environment.ROUTES),
)


def panel_routes() -> list[Route]:
    """An address for each, and what belongs to it."""
    own = [page(f"/sessions/{{session_id}}/panels/{panel.name}", _panel_page(panel)) for panel in PANELS]
    return [*own, *(route for panel in PANELS for route in panel.routes)]


def _panel_page(panel: Panel) -> Callable[[PageRequest], Awaitable[Response]]:
    async def view(request: PageRequest) -> Response:
        session = request.session()
        try:
            values = await panel.values(request)
        except CellwrightError as error:  # it stands in the panel, not on a page of its own
            return request.fragment("panel_problem.html", error=error)
        return request.fragment(f"panel_{panel.name}.html", session=session, **values)

    return view


async def _notebook(request: PageRequest) -> Response:
    session = request.session()
    seq = request.engine.last_event
    return request.html(
        "notebook.html",
        title=session.title,
        session=session,
        cells=await _shown_cells(request.engine, session),
        panels=PANELS,
        exports=export_choices(session.language),
        presence=presence_of(request.engine, session),
        key_sheet=KEY_SHEET,
        formatted=FORMATTED_LANGUAGES,
        seq=seq,
    )


async def _live(request: PageRequest) -> Response:
    session = request.session()
    return LiveResponse(
        request.http,
        follow(request.engine, session),
        also=[visits(request.engine.presence, session.id), widget_changes(session)],
        while_open=functools.partial(_being_there, request, session, actor()),
    )


@contextmanager
def _being_there(request: PageRequest, session: Session, who: str) -> Iterator[None]:
    """Somebody has the page open, and answers what cells ask; who may only look cannot."""
    with ExitStack() as stack:
        stack.enter_context(request.engine.presence.staying(session.id, who))
        if may(request.person, "run"):
            stack.enter_context(session.questions.attended())
        yield


_PAGES = [
    page("/sessions/{session_id}", _notebook),
    page("/sessions/{session_id}/live", _live),
    *panel_routes(),
]


# One session's notebook, live: its cells, what a person may do with them, and the panels beside them.

ROUTES = [
    *_PAGES,
    *_OWNERSHIP_ACTIONS,
    *_presence.ROUTES,
    *plans.ROUTES,
    *_outputs.ROUTES,
]
