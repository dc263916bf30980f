"""A program that has the notebook open, saves over our file and may not know what we wrote meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.engine import Requester, Session
from cellwright.engine._notebook_file import came_from
from cellwright.notebook import CellAdded, CellDeleted, Document, OutputsSet, SourceChanged
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio
BY_HAND = Requester("window", "request")


def _book(**sources: str) -> Document:
    document = Document.new()
    for place, (cell_id, source) in enumerate(sources.items()):
        document.apply(CellAdded(cell_id, "code", source, place))
    return document


def _changed(document: Document, *changes: Any) -> Document:
    twin = document.copy()
    for change in changes:
        twin.apply(change)
    return twin


RAN = OutputsSet("a", [{"output_type": "stream", "name": "stdout", "text": "1\n"}], 7)
FIRST = _book(a="1", b="2")


@pytest.mark.parametrize(
    "change",
    [CellAdded("new", "code", "3", 2), SourceChanged("a", "other"), CellDeleted("a"), RAN],
    ids=["added", "edited", "deleted", "ran"],
)
def test_what_does_not_know_of_a_change_came_from_before_it(change: Any) -> None:
    ours = _changed(FIRST, change)
    theirs = _changed(FIRST, SourceChanged("b", "edited there"))
    assert came_from([FIRST, ours], theirs) is FIRST


@pytest.mark.parametrize(
    "change",
    [CellAdded("new", "code", "3", 2), SourceChanged("a", "other"), CellDeleted("a"), RAN],
    ids=["added", "edited", "deleted", "ran"],
)
def test_what_knows_of_a_change_came_from_after_it(change: Any) -> None:
    ours = _changed(FIRST, change)
    theirs = _changed(ours, SourceChanged("b", "edited there"))
    assert came_from([FIRST, ours], theirs) is ours


def test_what_ran_on_both_sides_proves_nothing() -> None:
    ours = _changed(FIRST, RAN, CellAdded("new", "code", "3", 2))
    assert came_from([FIRST, ours], _changed(FIRST, RAN)) is FIRST


async def _saved_elsewhere(
    session: Session, *, without: str | None = None, ran: str | None = None, **sources: str
) -> None:
    """Save over the file what somebody has in memory, one cell of which ran there, and let the session find it."""
    book = json.loads(session.path.read_text())
    book["cells"] = [cell for cell in book["cells"] if cell["id"] != without]
    for cell in book["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
        if cell["id"] == ran:
            cell["execution_count"] = 1
    session.path.write_text(json.dumps(book))
    await session.refresh()


def _ids(session: Session) -> list[str]:
    return [cell.id for cell in session.cells]


async def test_cell_that_a_guest_never_saw_survives_its_saving(engine: Engine) -> None:
    session = await engine.create("shared")
    known = await session.add_cell("1")
    await session.save()
    with session.shown_elsewhere():
        added = await session.add_cell("2")
        await (await session.execute(known.id)).wait()
        await session.save()
        await _saved_elsewhere(session, without=added.id, **{known.id: "1"})
        assert _ids(session)[-2:] == [known.id, added.id]
        assert session.cell(known.id).source == "1"


async def test_cell_that_is_deleted_where_nobody_else_has_the_file_open_is_deleted(
    engine: Engine,
) -> None:
    session = await engine.create("alone")
    await session.save()
    added = await session.add_cell("2")
    await session.save()
    await _saved_elsewhere(session, without=added.id)
    assert added.id not in _ids(session)


async def test_outputs_of_the_agent_survive_a_guest_that_saves_older_ones(engine: Engine) -> None:
    session = await engine.create("shared")
    ours, other = await session.add_cell("print('new')"), await session.add_cell("0")
    await session.save()
    before = session.path.read_text()
    with session.shown_elsewhere():
        await (await session.execute(ours.id)).wait()
        await session.save()
        session.path.write_text(before)
        await _saved_elsewhere(session, **{other.id: "edited there"})
        assert session.cell(ours.id).outputs[0]["text"] == "new\n"
        assert session.cell(other.id).source == "edited there"


async def test_file_is_left_to_the_guest_that_ran_the_cell_by_hand(open_here: OpenEngine) -> None:
    async with open_here(save_quiet_s=0.05) as engine:
        session = await engine.create("by hand")
        mine, theirs = await session.add_cell("1"), await session.add_cell("2")
        await session.save()
        before = session.path.stat().st_mtime_ns
        with session.shown_elsewhere():
            execution = await (await session.execute(mine.id, asker=BY_HAND)).wait()
            assert execution.ok
            assert session.context.file.dirty
            assert not session.context.file.is_due
            await _saved_elsewhere(session, ran=mine.id, **{theirs.id: "edited there"})
            assert not session.context.file.is_due, "its own saving comes back to it"
            assert session.cell(mine.id).outputs, "and nothing is lost by it"
            written = session.path.stat().st_mtime_ns
            assert written != before
            await _written_after(session.path, written, lambda: session.add_cell("the agent's"))
        await (await session.execute(mine.id, asker=BY_HAND)).wait()
        # Nobody else will write it.
        await until(lambda: _count_in_file(session, mine.id) == 2)


async def test_file_is_left_to_the_guest_that_saved_before_its_cell_had_ended(engine: Engine) -> None:
    session = await engine.create("by hand")
    mine, theirs = await session.add_cell("1"), await session.add_cell("2")
    await session.save()
    with session.shown_elsewhere():
        await (await session.execute(mine.id, asker=BY_HAND)).wait()
        await _saved_elsewhere(session, **{theirs.id: "edited there"})
        assert session.cell(mine.id).execution_count == 1
        assert not session.context.file.is_due
        await (await session.execute_code("mine = 3")).wait()
        assert not session.context.file.is_due, "code in no cell is not missing in the file"


def _count_in_file(session: Session, cell_id: str) -> Any:
    cells = json.loads(session.path.read_text())["cells"]
    return next(cell["execution_count"] for cell in cells if cell["id"] == cell_id)


async def _written_after(path: Path, before: int, change: Any) -> None:
    await change()
    with fail_after():
        while path.stat().st_mtime_ns == before:
            await anyio.sleep(0.01)


async def test_failure_by_hand_drops_only_what_that_hand_queued(engine: Engine) -> None:
    session = await engine.create("by hand")
    waits = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n1 / 0"
    failing = await session.execute_code(waits, asker=BY_HAND)
    behind = await session.execute_code("1", asker=BY_HAND)
    others = await session.execute_code("2")
    (session.cwd / "go").touch()
    assert [(await one.wait()).state for one in (failing, behind, others)] == ["error", "interrupted", "ok"]
