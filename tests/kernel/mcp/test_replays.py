from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest
from mcp import Client

from cellwright import Engine, Event
from cellwright.mcp import McpServer
from tests.kernel.mcp.conftest import (
    PACE,
    Connect,
    ask,
    connected,
    new_session,
    read,
    refused,
    running,
    text_of,
)
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

WAITS = "import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"


async def run(client: Client, session: str, content: str) -> str:
    done = await ask(client, "cell_add_and_run", session_id=session, content=content, response_format="json")
    return str(done["cell_id"])


async def waiting_session(client: Client, engine: Engine) -> Any:
    """A session whose replay waits in its second step until somebody makes the file ``go``."""
    session = engine.session(await new_session(client))
    (session.cwd / "go").touch()
    for content in ("a = 1", WAITS, "a += 1"):
        await run(client, session.id, content)
    (session.cwd / "go").unlink()
    return session


async def in_second_step(engine: Engine, session_id: str) -> None:
    with fail_after(), engine.subscribe(session_id) as events:
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.output":
                return


async def test_a_replay_says_what_is_the_same_and_what_differs_and_how(client: Client) -> None:
    session = await new_session(client)
    cells = [
        await run(client, session, code) for code in ("x = 20", "import random; random.random()", "x + 1")
    ]
    await client.call_tool("session_suspend", {"session_id": session})
    text = await read(client, "notebook_replay", session_id=session)
    first, *rest = text.splitlines()
    assert first.startswith(f"session {session} | replay r-")
    assert first.endswith("| completed | generation 2 | 3 of 3 steps | 1 different")
    assert f"same: {cells[0]}, {cells[2]}" in rest
    assert f"different: {cells[1]}, execution x-" in text
    assert "  result text/plain: 0." in text
    assert "\n-0." in text
    assert "\n+0." in text
    again = await read(client, "scratch_run", session_id=session, code="print('x is', x)")
    assert "x is 20" in again
    assert "earlier names are gone" not in again


async def test_the_json_form_has_every_step(client: Client) -> None:
    session = await new_session(client)
    cell = await run(client, session, "y = 1; y")
    await ask(client, "scratch_run", session_id=session, code="y = 2", response_format="json")
    await ask(client, "cell_update", session_id=session, cell_id=cell, content="y = 3")
    found = await ask(client, "notebook_replay", session_id=session, response_format="json")
    assert (found["status"], found["same"], found["done"], found["total"]) == ("completed", True, 2, 2)
    assert (found["session_id"], found["generation"], found["edited"]) == (session, 2, [cell])
    assert [(step["cell_id"], step["status"], step["same"]) for step in found["steps"]] == [
        (cell, "ok", True),
        (None, "ok", True),
    ]
    listed = await ask(client, "execution_list", session_id=session)
    assert [each.get("replays") for each in listed["executions"]] == [
        *(step["replays"] for step in reversed(found["steps"])),
        None,
        None,
    ]


async def test_a_step_that_fails_now_is_told_with_what_was_not_run(client: Client) -> None:
    session = await new_session(client)
    codes = ("open('once', 'x').close()", "z = 1")
    cells = [await run(client, session, code) for code in codes]
    text = await read(client, "notebook_replay", session_id=session)
    assert "| stopped | generation 2 | 1 of 2 steps | 1 different" in text
    assert f"Step 1, cell {cells[0]}, ended as error (FileExistsError" in text
    assert f"not run: {cells[1]}" in text


async def test_many_differences_keep_to_the_budget(client: Client) -> None:
    session = await new_session(client)
    code = "import random\nfor i in range(300): print(random.random(), 'x' * 100)"
    for _ in range(12):
        await run(client, session, code)
    text = await read(client, "notebook_replay", session_id=session, max_tokens=300)
    assert "12 different" in text
    assert len(text) < 300 * 4 + 12 * 400


async def test_a_session_in_which_nothing_ran_has_nothing_to_replay(client: Client) -> None:
    session = await new_session(client)
    assert "Nothing had run" in await read(client, "notebook_replay", session_id=session)


async def test_a_replay_that_takes_long_is_handed_back_and_can_be_waited_for(
    client: Client, engine: Engine
) -> None:
    async with (
        running(McpServer(engine, pace=replace(PACE, wait_s=0.2))) as face,
        connected(face) as hasty,
    ):
        session = await waiting_session(client, engine)

        async def progress(progress: float, total: float | None, message: str | None) -> None:  # the SDK's
            if "of 3 steps" in (message or ""):
                (session.cwd / "go").touch()

        text = await read(hasty, "notebook_replay", session_id=session.id)
        assert "| running |" in text
        replay = text.partition("replay_id='")[2].partition("'")[0]
        assert replay in await refused(client, "notebook_replay", session_id=session.id)
        waits = {"session_id": session.id, "replay_id": replay}
        done = text_of(await client.call_tool("notebook_replay", waits, progress_callback=progress))
        assert "| completed | generation 2 | 3 of 3 steps | all the same" in done
        assert "has no replay 'r-other'" in await refused(
            client, "notebook_replay", session_id=session.id, replay_id="r-other"
        )
        (session.cwd / "go").unlink()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_cancelling_the_call_stops_the_replay_and_it_can_begin_again(
    connect: Connect, engine: Engine, mode: str
) -> None:
    async with connect(mode) as client:
        session = await waiting_session(client, engine)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "notebook_replay", {"session_id": session.id})
            await in_second_step(engine, session.id)
            tasks.cancel_scope.cancel()
        with fail_after():
            await session.last_replay.wait()
        assert session.last_replay.state == "stopped"
        (session.cwd / "go").touch()
        assert "3 of 3 steps" in await read(client, "notebook_replay", session_id=session.id)
        (session.cwd / "go").unlink()


async def test_interrupting_the_kernel_stops_a_replay(client: Client, engine: Engine) -> None:
    session = await waiting_session(client, engine)
    begun = await ask(client, "notebook_replay", session_id=session.id, wait=0, response_format="json")
    await ask(client, "kernel_interrupt", session_id=session.id)
    with fail_after():
        done = await ask(
            client,
            "notebook_replay",
            session_id=session.id,
            replay_id=begun["replay_id"],
            response_format="json",
        )
    assert (done["status"], done["same"]) == ("stopped", False)
    assert None not in done["not_run"]
