"""Room for one more question where no more sessions may be active."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cellwright import Engine
from cellwright.agent.conversations import Conversations
from cellwright.agent.models.requests import Delta
from cellwright.agent.trace.steps import Step
from tests.kernel.engine.conftest import end_host, open_at
from tests.support.agent.scripting import Script, run
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("room")
    async with open_at(root, max_sessions=2, standby_kernels=1, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


def script(value: int) -> Script:
    return Script({"main/act": [run(f"print({value})"), f"It is {value}."]})


async def test_questions_take_kernels_from_earlier_ones_and_never_from_people(
    ask: Any, engine: Engine
) -> None:
    own = await engine.create("Mine")
    await (await own.execute_code("x = 1")).wait()
    first = await ask("First", script(5))
    second = await ask("Second", script(6))
    assert second.ok, second.report
    states = [engine.session(one).state for one in (own.id, first.session_id, second.session_id)]
    assert states == ["active", "suspended", "active"]
    assert "max_sessions" in (engine.session(first.session_id).record.reason or "")

    again = await ask("Again", script(7), conversation_id=first.conversation_id)
    assert (again.ok, again.session_id) == (True, first.session_id)
    assert engine.session(second.session_id).state == "suspended"
    assert own.state == "active"

    await ask("In mine", script(8), session_id=own.id)
    third = await ask("Third", script(9))
    assert third.ok
    assert own.state == "active", "it was worked with, not made"


async def test_a_conversation_knows_its_notebook_and_model_before_the_run_is_over(
    ask: Any, engine: Engine
) -> None:
    kept = Conversations(engine.settings.storage / "conversations")
    seen: list[tuple[str | None, str | None]] = []
    idle: list[bool] = []

    class Watcher:
        def began(self, step: Step) -> None:
            """Nothing is looked at."""

        def heard(self, step: Step, delta: Delta) -> None:
            """As above."""

        async def ended(self, step: Step) -> None:
            if step.kind == "call":
                newest = (await kept.list())[0]
                idle.append(engine.session(step.session_id or "").is_idle)
                seen.append((newest.notebook.session_id if newest.notebook else None, newest.model))

    outcome = await ask("What is kept?", script(4), watchers=[Watcher()])
    assert seen == [(outcome.session_id, "test:scripted")], "also where the daemon is killed in a cell"
    idle.append(engine.session(outcome.session_id).is_idle)
    assert idle == [False, True], "nobody takes its kernel while the model thinks, and anybody may after that"
