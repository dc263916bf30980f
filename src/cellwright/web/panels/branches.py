"""A session's branches: what it was grown from, what was grown beside and from it, and which of them to go on with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

import anyio
from starlette.responses import Response

from cellwright.engine import Branch, RolledBack, Session, SessionView
from cellwright.engine.timeline import cell_words, moments_of, places_of, relatives_of
from cellwright.errors import UnknownSession
from cellwright.notebook import Cell
from cellwright.notebook.comparison import compare_outputs
from cellwright.notebook.merge import merge_order
from cellwright.web.panels.history import Shown, shown_outputs
from cellwright.web.requests import PageRequest, action, page

__all__ = [
    "BRANCH_ROUTES",
    "CHECKPOINT_ROUTES",
    "COMPARISON_ROUTES",
    "branches",
    "checkpoints",
    "line_rows",
    "paired",
]


async def branches(request: PageRequest) -> dict[str, Any]:
    """The family."""
    return {"family": relatives_of(request.session(), request.engine.sessions())}


async def _grow(request: PageRequest) -> Response:
    [branch] = await request.engine.branch(request.session().id)
    return request.done(branched_words(branch))


async def _adopt(request: PageRequest) -> Response:
    """Take a branch back. The others are suspended, not ended: that is for an owner to say, of each."""
    branch = _branch(request)
    origin = branch.record.branch_of
    for one in request.engine.sessions():
        if origin in (one.id, one.record.branch_of):
            request.refuse_if_anothers(one)
    for one_id in (branch.id, origin):
        await request.site.planner.pause(one_id or "")
    adopted = await request.engine.adopt(branch.id, keep_others=True)
    return request.done(
        f"{adopted.session.name} goes on with the cells, files and kernel of {branch.id}",
        go=f"/sessions/{adopted.session.id}",
    )


async def _delete(request: PageRequest) -> Response:
    session, branch = request.session(), _branch(request)
    request.refuse_if_anothers(branch)
    await request.site.planner.pause(branch.id)
    await request.engine.delete(branch.id)
    told = f"{branch.name} ({branch.id}) is deleted; its notebook file stays"
    if branch is session:
        return request.done(told, go=f"/sessions/{branch.record.branch_of}")
    return request.done(told, parts={"@branches": ""})


def _branch(request: PageRequest) -> Session:
    branch = request.engine.session(request.http.path_params["branch_id"])
    if branch.record.branch_of is None:
        raise UnknownSession(
            f"Session {branch.id} is no branch", hint="It is deleted on the page of sessions"
        )
    return branch


_BRANCH = "/sessions/{session_id}/branches/{branch_id}"

BRANCH_ROUTES = (
    action("/sessions/{session_id}/branches", _grow),
    action(f"{_BRANCH}/adopt", _adopt),
    action(f"{_BRANCH}/delete", _delete, needs="own"),
)


# A session's checkpoints as a timeline: what would be lost by going back to each, and what a person may do
# with it.

_MOST_NAME = 200

_MOST_WORDS = 5


async def checkpoints(request: PageRequest) -> dict[str, Any]:
    """The timeline, the newest first."""
    session = request.session()
    made = await session.state_history() if session.checkpoints else []
    return {"moments": moments_of(session.checkpoints, made, places_of(session.cells))}


async def _take(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    kept = await session.checkpoint(form.get("name", "").strip()[:_MOST_NAME] or None)
    return request.done(f"Kept as {kept.name or kept.id}")


async def _roll_back(request: PageRequest) -> Response:
    session = request.session()
    await request.site.planner.pause(session.id)
    done = await session.roll_back(request.http.path_params["checkpoint"])
    return request.done(rolled_back_words(done, session))


async def _drop(request: PageRequest) -> Response:
    session = request.session()
    kept = session.find_checkpoint(request.http.path_params["checkpoint"])
    await session.drop_checkpoint(kept.id)
    return request.done(f"{kept.name or kept.id} is dropped")


async def _branch_from(request: PageRequest) -> Response:
    session = request.session()
    kept = session.find_checkpoint(request.http.path_params["checkpoint"])
    [branch] = await request.engine.branch(session.id, checkpoint=kept.id)
    return request.done(branched_words(branch))


def rolled_back_words(done: RolledBack, session: Session) -> str:
    """What going back did, for whoever asked for it."""
    where = (done.checkpoint.name or done.checkpoint.id) if done.checkpoint is not None else "before the cell"
    stale = cell_words(done.stale, places_of(session.cells))
    told = [f"Rolled back to {where}.", f"Stale now: {stale}." if stale else "No cell is stale."]
    return " ".join([*told, *_listed("Not restored", done.not_restored)])


def branched_words(branch: Branch) -> str:
    """How a branch was made."""
    how = "" if branch.by == "checkpoint" else f", by running its cells again ({branch.reason})"
    told = [f"{branch.session.name} ({branch.session.id}) is a branch now{how}."]
    return " ".join([*told, *_listed("Not carried over", branch.not_carried)])


def _listed(title: str, words: Iterable[str]) -> list[str]:
    named = list(words)
    more = [f"{len(named) - _MOST_WORDS} more"] if len(named) > _MOST_WORDS else []
    return [f"{title}: {'; '.join([*named[:_MOST_WORDS], *more])}."] if named else []


_CHECKPOINT = "/sessions/{session_id}/checkpoints/{checkpoint}"

CHECKPOINT_ROUTES = (
    action("/sessions/{session_id}/checkpoints", _take),
    action(f"{_CHECKPOINT}/rollback", _roll_back),
    action(f"{_CHECKPOINT}/drop", _drop),
    action(f"{_CHECKPOINT}/branch", _branch_from),
)


# Two sessions side by side: cells, outputs, variables and files, for whoever chooses between branches.


async def _compare(request: PageRequest) -> Response:
    left = request.session()
    family = relatives_of(left, request.engine.sessions())
    others = [one for one in family if one.session is not left]
    named = request.http.query_params.get("with") or (others[0].session.id if others else left.id)
    right = request.engine.session(named)
    pairs = await anyio.to_thread.run_sync(partial(paired, left.cells, right.cells))
    # Each tells what it has that the other has not.
    mine, theirs = await _against(request, right, left), await _against(request, left, right)
    return request.html(
        "compare.html",
        title=f"{left.name} and {right.name}",
        session=left,
        other=right,
        one=next((one for one in family if one.session is right), None),
        others=others,
        pairs=pairs,
        names=sorted({*mine.variables, *theirs.variables}),
        mine=mine,
        theirs=theirs,
    )


async def _against(request: PageRequest, first: Session, second: Session) -> SessionView:
    return (await request.engine.compare([first.id, second.id]))[1]


COMPARISON_ROUTES = (page("/sessions/{session_id}/compare", _compare),)

# Two notebooks beside each other: which cells belong together, and how their sources and outputs differ,
# line by line. Pure.

RowKind: TypeAlias = Literal["same", "changed", "gap"]

_CONTEXT = 3

# More lines than anybody compares by eye; finding their differences takes time by the square.
_MOST_LINES = 2_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one side, by its number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A line of either side that stand beside each other; a gap says how many were left out."""

    kind: RowKind
    left: Line | None = None
    right: Line | None = None
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell of either side, or of one where the other has none."""

    left_place: int | None
    right_place: int | None
    kind: str
    source: list[Row]
    outputs: list[Row]
    differences: tuple[str, ...]
    """How the outputs differ, in words; what no two runs have in common does not count."""
    left_pictures: list[Shown]
    right_pictures: list[Shown]
    is_changed: bool
    """Whether its source differs, or one side has no such cell."""

    @property
    def is_same(self) -> bool:
        return not self.is_changed and not self.differences

    @property
    def verdict(self) -> str:
        if self.left_place is None or self.right_place is None:
            return "only right" if self.left_place is None else "only left"
        told = ["source" if self.is_changed else "", "outputs" if self.differences else ""]
        return " and ".join(filter(None, told)) + (" differ" if self.differences else " differs")


def paired(left: Sequence[Cell], right: Sequence[Cell]) -> list[Pair]:
    """Cells of one id beside each other, in the right one's order; what only the left has stands where it was."""
    ours = {cell.id: (place, cell) for place, cell in enumerate(left, 1)}
    theirs = {cell.id: (place, cell) for place, cell in enumerate(right, 1)}
    order = merge_order((), list(theirs), list(ours), {*ours, *theirs})
    return [_pair(ours.get(cell_id), theirs.get(cell_id)) for cell_id in order]


def _pair(left: tuple[int, Cell] | None, right: tuple[int, Cell] | None) -> Pair:
    before, now = left[1] if left is not None else None, right[1] if right is not None else None
    one, other = before.source if before is not None else "", now.source if now is not None else ""
    found = compare_outputs(before.outputs if before else (), now.outputs if now else ())
    here, there = _shown(before), _shown(now)
    # Of a cell that one side does not have, all is different.
    is_changed = before is None or now is None or one != other
    differences = tuple(f"{each.output}: {each.why}" for each in found.differences)
    return Pair(
        left_place=left[0] if left is not None else None,
        right_place=right[0] if right is not None else None,
        kind=(now or before or _never()).kind,
        source=line_rows(one, other),
        outputs=line_rows(_text(here), _text(there)) if differences else [],
        differences=differences,
        left_pictures=[each for each in here if each.picture],
        right_pictures=[each for each in there if each.picture],
        is_changed=is_changed,
    )


def _never() -> Cell:
    raise AssertionError("A pair has a cell on one side at least")


def _shown(cell: Cell | None) -> list[Shown]:
    return shown_outputs(cell.outputs) if cell is not None else []


def _text(outputs: Sequence[Shown]) -> str:
    return "\n".join(each.text.rstrip("\n") for each in outputs if each.picture is None)


def line_rows(left: str, right: str) -> list[Row]:
    """Lines beside each other; long stretches that are the same are left out but for their ends."""
    one, other = left.splitlines()[:_MOST_LINES], right.splitlines()[:_MOST_LINES]
    rows: list[Row] = []
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    for number, (tag, start, end, there, there_end) in enumerate(blocks):
        made = list(_rows(tag, _lines(one, start, end), _lines(other, there, there_end)))
        if tag == "equal":
            made = _folded(made, is_first=number == 0, is_last=number == len(blocks) - 1)
        rows += made
    return rows


def _rows(tag: str, left: list[Line], right: list[Line]) -> Iterator[Row]:
    kind: RowKind = "same" if tag == "equal" else "changed"
    for one, other in zip_longest(left, right):
        yield Row(kind, one, other)


def _lines(texts: Sequence[str], start: int, end: int) -> list[Line]:
    return [Line(number + 1, texts[number]) for number in range(start, end)]


def _folded(rows: list[Row], *, is_first: bool, is_last: bool) -> list[Row]:
    head = 0 if is_first else _CONTEXT
    tail = 0 if is_last else _CONTEXT
    if is_first and is_last:
        return rows
    hidden = len(rows) - head - tail
    if hidden <= 1:
        return rows
    return [*rows[:head], Row("gap", hidden=hidden), *rows[len(rows) - tail :]]
