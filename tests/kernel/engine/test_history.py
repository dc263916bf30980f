from __future__ import annotations

import anyio
import pytest

from cellwright import Engine
from cellwright.errors import UnknownExecution
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio


async def test_history_can_be_read_without_outputs(engine: Engine) -> None:
    session = await engine.create("history")
    await (await session.execute_code("print('long')")).wait()
    bare = await engine.history(session.id, outputs=False)
    assert [(past.record.source, past.outputs) for past in bare] == [("print('long')", [])]


async def test_one_that_is_asked_for_while_its_end_is_being_journalled_is_the_one_that_ends(
    engine: Engine,
) -> None:
    session = await engine.create("ends")
    for _ in range(20):
        execution = await session.execute_code("1")
        with fail_after():
            while session.runs.live:
                await anyio.lowlevel.checkpoint()
            found = engine.execution(execution.id)
            assert (await found.wait()).state == "ok"


async def test_what_is_too_old_to_be_kept_is_told_when_it_is_wanted(open_here: OpenEngine) -> None:
    async with open_here() as engine:
        session = await engine.create("old")
        for source in ("x = 1", "x += 1"):
            await session.run((await session.add_cell(source)).id)
    async with open_here(history_days=0) as engine:
        session = engine.sessions()[0]
        await until(lambda: session.record.let_go == 1)
        assert [past.record.source for past in await engine.history(session.id)] == ["x += 1"]
        assert [cell.source for cell in session.cells][1:] == ["x = 1", "x += 1"]
        with pytest.raises(UnknownExecution, match="no longer kept"):
            await session.replay()
