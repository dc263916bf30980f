"""What becomes of a plan that runs while somebody stops it, or takes its session away."""

from __future__ import annotations

import pytest

from cellwright import Engine, Event
from cellwright.errors import UnknownSession
from tests.kernel.plans.test_running import outline, planned, run, statuses
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

FOR_EVER = "import time\ntime.sleep(1000)"


async def test_a_session_that_is_deleted_under_its_plan_gets_no_other_kernel(engine: Engine) -> None:
    planner, session = await planned(engine, outline(FOR_EVER, "b = 1"))
    with engine.subscribe(session.id) as events, fail_after():
        running = await planner.start(session)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.executing":
                break
        await engine.delete(session.id)
        await running.wait()
    assert (session.state, session.storage.exists()) == ("suspended", False)
    with pytest.raises(UnknownSession):
        await session.resume()


async def test_a_plan_that_is_stopped_before_its_cell_is_queued_does_not_run_it(engine: Engine) -> None:
    planner, session = await planned(engine, outline(FOR_EVER))
    await session.suspend()
    with engine.subscribe(session.id) as events, fail_after():
        running = await planner.start(session)
        async for event in events:
            if isinstance(event, Event) and event.data.get("session") == "active":
                break
        await running.cancel()
    assert (running.plan.phase, statuses(running.plan)) == ("paused", ["pending"])


async def test_a_plan_that_is_stopped_while_its_state_is_made_again_makes_no_more_of_it(
    engine: Engine,
) -> None:
    waits_again = "import os, time\nwhile os.path.exists('again'): time.sleep(0.01)"
    planner, session = await planned(engine, outline(waits_again, waits_again, None))
    await run(planner, session)
    await (await session.execute_code("open('again', 'w').close()")).wait()
    await session.suspend()
    with engine.subscribe(session.id) as events, fail_after():
        running = await planner.fix(session, "c = 3")
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.executing":
                break
        await running.cancel()
    assert (running.plan.phase, running.plan.notices) == ("paused", ())
    assert statuses(running.plan) == ["done", "done", "pending"]


async def test_a_plan_whose_session_is_taken_over_ends_its_step_and_goes_no_further(engine: Engine) -> None:
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    planner, session = await planned(engine, outline(waits, "b = 1"))
    with engine.subscribe(session.id) as events, fail_after():
        running = await planner.start(session)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.executing":
                break
        await session.take_over("ann")
        (session.cwd / "go").touch()
        await running.wait()
    assert (running.plan.phase, statuses(running.plan)) == ("paused", ["done", "pending"])
    assert running.plan.todos[1].earlier[-1].note == "ann took the session over"
    assert len(running.executions) == 1
    with fail_after():
        # Whoever has it may go on with it.
        done = await run(planner, session)
    assert statuses(done) == ["done", "done"]
