from __future__ import annotations

from itertools import groupby

import pytest

from cellwright import Engine, Event, Missed, Session
from cellwright.engine.journal import EventStream
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def collect(engine: Engine, session: Session, code: str) -> list[Event]:
    """Every event of one execution, from its queueing to its end."""
    with engine.subscribe(session.id) as events, fail_after():
        execution = await session.execute_code(code)
        seen: list[Event] = []
        async for event in events:
            assert isinstance(event, Event)
            seen.append(event)
            if event.kind == "notebook.cell.completed" and event.execution_id == execution.id:
                return seen
    raise AssertionError("the stream ended early")


async def test_an_execution_is_told_from_its_queueing_to_its_end(engine: Engine) -> None:
    session = await engine.create("events")
    events = await collect(engine, session, "print('one'); 2")
    told = [(event.kind, event.data.get("state") or event.data.get("type")) for event in events]
    # A line may come in pieces.
    assert [one for one, _ in groupby(told)] == [
        ("notebook.cell.executing", "queued"),
        ("notebook.cell.executing", "running"),
        ("notebook.cell.output", "stream"),
        ("notebook.cell.output", "execute_result"),
        ("notebook.cell.completed", "ok"),
    ]
    assert len({event.execution_id for event in events}) == 1
    assert all((event.session_id, event.generation) == (session.id, 1) for event in events)


async def test_numbers_rise_and_never_repeat_across_restarts(open_here: OpenEngine) -> None:
    numbers: list[int] = []
    for _ in range(2):
        async with open_here() as engine:
            session = (engine.sessions() or [await engine.create("numbers")])[0]
            numbers += [event.seq for event in await collect(engine, session, "1")]
    assert numbers == sorted(set(numbers))


async def test_edits_and_kernel_changes_are_told(engine: Engine) -> None:
    session = await engine.create("changes")
    with engine.subscribe(session.id) as events, fail_after():
        cell = await session.add_cell("1")
        await session.suspend()
        seen = []
        async for event in events:
            assert isinstance(event, Event)
            seen.append(event)
            if event.data.get("session") == "suspended":
                break
    assert {event.kind for event in seen} == {"notebook.state.changed"}
    assert seen[0].data["change"]["change"] == "cell_added"
    assert seen[0].cell_id == cell.id


async def test_a_dead_kernel_is_an_error_event_with_the_next_step(engine: Engine) -> None:
    session = await engine.create("death")
    with engine.subscribe(session.id) as events, fail_after():
        await session.execute_code("import os; os._exit(7)")
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.error":
                break
    assert event.data["code"] == "kernel_died"
    assert "code 7" in event.data["message"]
    assert event.data["hint"]


async def test_a_slow_subscriber_is_told_what_it_missed_and_can_read_it_later(open_here: OpenEngine) -> None:
    async with open_here(event_buffer=10) as engine:
        session = await engine.create("slow")
        with engine.subscribe(session.id) as events, fail_after():
            execution = await session.execute_code("for i in range(100): print(i, flush=True)")
            await execution.wait()
            seen = []
            async for event in events:
                seen.append(event)
                if isinstance(event, Missed):
                    break
        missed = seen[-1]
        assert isinstance(missed, Missed)
        assert len(seen) == 11
        later = engine.events(since=missed.first_seq - 1, session_id=session.id)
        assert [event.seq for event in later][: missed.count] == list(
            range(missed.first_seq, missed.last_seq + 1)
        )


async def test_a_subscriber_that_catches_up_goes_on_after_the_gap() -> None:
    stream = EventStream(buffer=2)
    with stream.subscribe() as events:
        for seq in range(1, 6):
            stream.publish(Event(seq, 0.0, "notebook.state.changed", "s", 1))
        iterator = aiter(events)
        first = [await anext(iterator) for _ in range(3)]
        stream.publish(Event(6, 0.0, "notebook.state.changed", "s", 1))
        assert [*first[2:], await anext(iterator)] == [
            Missed(3, 3, 5),
            Event(6, 0.0, "notebook.state.changed", "s", 1),
        ]
        await iterator.aclose()  # type: ignore[attr-defined]  # an async generator behind the interface
