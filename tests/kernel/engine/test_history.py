from __future__ import annotations

import anyio
import pytest

from cellwright import Engine
from tests.waiting import fail_after

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
