"""A question on its way, as whoever waits for it sees it. No daemon, no model."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from cellwright.daemon._agents import AgentRun
from cellwright.errors import NoModel
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

LONG_S = 3_600.0


async def test_whoever_waits_is_told_of_the_end_though_nothing_else_happens() -> None:
    run, go = AgentRun("a-1", None), anyio.Event()

    async def answered() -> Any:
        await go.wait()
        raise NoModel("There is none")

    async def conversation_of(_: str) -> str | None:
        return None

    async def wait() -> None:
        await run.changed(0, LONG_S)
        assert run.done

    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.run, answered, conversation_of)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            go.set()
    assert isinstance(run.failure, NoModel)
