from __future__ import annotations

import pytest

from cellwright import Engine

pytestmark = pytest.mark.anyio


async def test_history_can_be_read_without_outputs(engine: Engine) -> None:
    session = await engine.create("history")
    await (await session.execute_code("print('long')")).wait()
    bare = await engine.history(session.id, outputs=False)
    assert [(past.record.source, past.outputs) for past in bare] == [("print('long')", [])]
