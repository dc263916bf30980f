"""A person takes a session over and gives it back."""

from __future__ import annotations

import pytest

from cellwright import Engine, Event
from cellwright.engine._ownership import changed_meanwhile
from cellwright.errors import SessionTaken
from tests.kernel.engine.conftest import OpenEngine

pytestmark = pytest.mark.anyio


def event(seq: int, kind: str, cell_id: str | None, **data: object) -> Event:
    return Event(seq, 0.0, kind, "s-1", 1, cell_id, None, data)  # type: ignore[arg-type]  # a kind by its text


def changed(seq: int, what: str, cell_id: str) -> Event:
    return event(seq, "notebook.state.changed", cell_id, change={"change": what, "cell_id": cell_id})


def test_what_came_and_went_meanwhile_is_not_told() -> None:
    past = [
        changed(1, "cell_added", "new"),
        changed(2, "source_changed", "new"),
        changed(3, "source_changed", "old"),
        changed(4, "cell_added", "brief"),
        changed(5, "cell_deleted", "brief"),
        changed(6, "cell_deleted", "gone"),
        event(7, "notebook.cell.executing", "old", state="queued"),
        event(8, "notebook.cell.executing", "agents", state="running"),
        event(9, "notebook.cell.executing", None, state="queued"),
        changed(10, "outputs_set", "old"),
    ]
    assert changed_meanwhile(past).as_data() == {
        "added": ["new"],
        "edited": ["old"],
        "deleted": ["gone"],
        "ran": ["old"],
    }


async def test_a_session_that_was_taken_over_stays_so_when_the_engine_ends(open_here: OpenEngine) -> None:
    async with open_here() as engine:
        session = await engine.create("held")
        cell = await session.add_cell("x = 1")
        await session.take_over("ann")
        await session.edit_cell(cell.id, "x = 2")
    async with open_here() as engine:
        session = engine.sessions()[0]
        assert session.held_by == "ann"
        with pytest.raises(SessionTaken, match="ann took this session over"):
            session.refuse_if_taken()
        assert (await session.run(cell.id)).ok, "whoever has it works through the very same calls"
        handback = await session.give_back("ann", "x is 2 now")
        assert handback is not None
        assert handback.meanwhile.as_data() == {"edited": [cell.id], "ran": [cell.id]}
        session.refuse_if_taken()
    async with open_here() as engine:
        session = engine.sessions()[0]
        assert (session.held_by, session.record.handback) == (None, handback)


async def test_taking_over_and_giving_back_are_told_once_each(engine: Engine) -> None:
    session = await engine.create("told")
    since = engine.last_event
    assert await session.give_back("ann") is None, "nobody has it"
    await session.take_over("ann")
    await session.take_over("ann")
    cell = await session.add_cell("1")
    await session.take_over("bob")
    await session.give_back("bob", "mine")
    told = [
        (one.kind, dict(one.data)) for one in engine.events(since=since) if "session." in one.kind.lower()
    ]
    assert told == [
        ("notebook.session.taken", {"by": "ann"}),
        ("notebook.session.taken", {"by": "bob", "instead_of": "ann"}),
        ("notebook.session.given_back", {"by": "bob", "note": "mine", "added": [cell.id]}),
    ]


async def test_a_branch_of_a_session_that_somebody_has_is_anybodys(engine: Engine) -> None:
    session = await engine.create("branched")
    await session.take_over("ann")
    (branch,) = await engine.branch(session.id)
    assert (session.held_by, branch.session.held_by) == ("ann", None)
