"""Cells mended by rule, on real kernels."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cellwright import Engine, Execution, Session
from cellwright.agent._repair import repair, stop_report
from cellwright.engine.records import OnError
from cellwright.plans.model import MAX_RETRIES
from tests.kernel.engine.conftest import end_host, open_at
from tests.matrix import first_of
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("repairing")
    async with open_at(root, max_sessions=100, plan_backoff_s=0.01, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


async def failing(
    engine: Engine, *sources: str, on_error: OnError = "keep", checkpoint: bool = True
) -> tuple[Session, Execution]:
    """A notebook whose last cell failed."""
    session = await engine.create("a question")
    *before, last = sources
    for source in before:
        assert (await session.run((await session.add_cell(source)).id)).ok
    cell = await session.add_cell(last)
    execution = await session.run(cell.id, on_error=on_error, checkpoint=checkpoint)
    assert not execution.ok
    return session, execution


async def shown(session: Session, expression: str) -> str:
    return (await (await session.execute_code(f"print({expression})")).wait()).text.strip()


@pytest.mark.parametrize("on_error", first_of(["rollback", "keep"], 1))
async def test_a_cell_is_mended_and_runs_from_the_state_before_it(engine: Engine, on_error: OnError) -> None:
    session, execution = await failing(
        engine, "items = []", "items.append(1)\nprint(math.sqrt(len(items)))", on_error=on_error
    )
    mended = await repair(engine, session, execution, tries=3)
    assert mended.ok
    assert [fix.state for fix in mended.fixes] == ["ok"]
    assert "+import math" in mended.fixes[0].diff
    assert mended.execution.text == "1.0\n"
    assert session.cell(execution.cell_id or "").source.startswith("import math")
    assert await shown(session, "items") == "[1]"
    assert "Fixed by rule" in mended.text
    assert (mended.suggestion, mended.verdict, mended.notes) == ("", None, ())


async def test_one_mistake_after_another_is_mended_up_to_the_number_of_tries(engine: Engine) -> None:
    session, execution = await failing(engine, "for n in [4, 9]\n    print(math.sqrt(n))")
    first = await repair(engine, session, execution, tries=1)
    assert not first.ok
    assert [fix.state for fix in first.fixes] == ["error"]
    assert "+import math" in first.suggestion  # the next is known, and there is no try left for it
    second = await repair(engine, session, first.execution, tries=3)
    assert [fix.state for fix in second.fixes] == ["ok"]
    assert second.execution.text == "2.0\n3.0\n"


async def test_where_nothing_is_certain_the_cell_stays_as_it_is(engine: Engine) -> None:
    source = "total = sum([1, 2])\nassert total == 4, 'the total is wrong'"
    session, execution = await failing(engine, source)
    mended = await repair(engine, session, execution)
    assert mended.execution is execution
    assert mended.fixes == ()
    assert mended.suggestion
    assert mended.may_go_on
    assert session.cell(execution.cell_id or "").source == source


async def test_what_fails_to_the_end_is_rolled_back_where_it_was_to_be(engine: Engine) -> None:
    session, execution = await failing(
        engine, "n = 1", "n = 2\nprint(nn_missing_name)\nraise ValueError", on_error="rollback"
    )
    mended = await repair(engine, session, execution)
    assert not mended.ok
    assert mended.execution.error is not None  # it ran again to be looked into
    assert await shown(session, "n") == "1"


async def test_a_name_that_another_cell_defines_is_pointed_to(engine: Engine) -> None:
    session = await engine.create("order")
    later = await session.add_cell("frame_total = 5")
    cell = await session.add_cell("print(frame_total)")
    mended = await repair(engine, session, await session.run(cell.id, checkpoint=True))
    assert mended.suggestion == (
        f"`frame_total` is defined in cell 1 ({later.id}), which is not run: "
        "run that first, or define the name here."
    )


async def test_what_no_code_can_help_with_is_not_tried_again(engine: Engine) -> None:
    session, execution = await failing(engine, "raise PermissionError('not for you')")
    mended = await repair(engine, session, execution)
    assert mended.execution is execution
    assert not mended.may_go_on
    assert mended.verdict is not None


async def test_the_network_is_tried_again_as_often_as_in_a_plan(engine: Engine) -> None:
    session, execution = await failing(engine, "raise ConnectionResetError('reset by peer')")
    mended = await repair(engine, session, execution, tries=1)
    assert (mended.fixes, mended.execution.record.attempt) == ((), 1 + MAX_RETRIES)
    assert mended.verdict is not None
    assert mended.verdict.kind == "network"


async def test_a_cell_that_somebody_changed_is_left_alone(engine: Engine) -> None:
    session, execution = await failing(engine, "print(missing_thing)")
    await session.edit_cell(execution.cell_id or "", "print('mine')")
    mended = await repair(engine, session, execution)
    assert "not the one that failed" in mended.suggestion
    assert session.cell(execution.cell_id or "").source == "print('mine')"


async def test_code_in_no_cell_gets_a_suggestion(engine: Engine) -> None:
    session = await engine.create("loose code")
    execution = await (await session.execute_code("print(math.sqrt(4))")).wait()
    mended = await repair(engine, session, execution)
    assert mended.fixes == ()
    assert "+import math" in mended.suggestion


@pytest.mark.matrix  # `test_asking` stops with that report
async def test_the_report_is_a_plans_report(engine: Engine) -> None:
    session, execution = await failing(engine, "x = 1", "assert x == 2, 'x is off'")
    mended = await repair(engine, session, execution)
    report = stop_report(session, mended, task="check x", fixes=2, suggestion="Look at x")
    assert report.text == (
        "❌ Execution stopped at cell 2\n"
        "TODO: check x\n"
        "Error Type: AssertionError\n"
        "Error Message: x is off\n"
        "Attempted Fixes: 2\n"
        "Suggestion: Look at x"
    )
    assert report.recoverable
