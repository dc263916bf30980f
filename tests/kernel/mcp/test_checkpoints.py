"""Checkpoints, rollback and atomic cells as an agent meets them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from cellwright import Engine, Event
from cellwright.engine import Subscription
from cellwright.mcp import McpServer
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import (
    PACE,
    Connect,
    ask,
    connected,
    data_of,
    new_session,
    read,
    refused,
    running,
)
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def run(client: Client, session: str, content: str, **options: Any) -> dict[str, Any]:
    found = await ask(
        client, "cell_add_and_run", session_id=session, content=content, response_format="json", **options
    )
    assert isinstance(found, dict)
    return found


async def let_go(events: Subscription, wanted: int) -> None:
    """Return when so many checkpoints have made way, which they do after the cell."""
    gone: list[str] = []
    with fail_after():
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.checkpoint.dropped":
                gone += event.data["checkpoints"]
            if len(gone) >= wanted:
                return


async def value(client: Client, session: str, code: str) -> Any:
    done = await ask(client, "scratch_run", session_id=session, code=code, response_format="json")
    return done["result"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_rollback_brings_names_back_and_says_what_is_stale_undone_and_lost(
    connect: Connect, mode: str
) -> None:
    async with connect(mode) as client:
        session = await new_session(client)
        before = await run(client, session, "x = 1")
        kept = await ask(client, "checkpoint_create", session_id=session, name="clean")
        assert (kept["session_id"], kept["generation"], kept["name"]) == (session, 1, "clean")
        after = await run(client, session, "x = 2; y = 3; open('made.txt', 'w').close()")
        done = await ask(client, "session_rollback", session_id=session, checkpoint="clean")
        assert (done["checkpoint"], done["generation"], done["by"]) == (kept["checkpoint"], 2, "checkpoint")
        assert done["stale"] == [after["cell_id"]]
        assert done["undone"] == [after["execution_id"]]
        assert any("outside the working directory" in each for each in done["not_restored"])
        told = await read(
            client, "scratch_run", session_id=session, code="import os; x, os.path.exists('made.txt')"
        )
        assert "(1, False)" in told
        assert "generation 1 is now" not in told, "the reply of the rollback said so"
        context = await ask(client, "session_context", session_id=session)
        assert f"{before['cell_id']}: ok" in context["cells"]
        assert f"{after['cell_id']}: stale (ok)" in context["cells"]
        assert context["checkpoints"] == ["clean"]
        await ask(
            client, "cell_execute", session_id=session, cell_id=after["cell_id"], response_format="json"
        )
        context = await ask(client, "session_context", session_id=session)
        assert f"{after['cell_id']}: ok" in context["cells"]


async def test_a_failing_cell_leaves_no_trace_and_its_reply_says_so_once(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "x = 1")
    made = await ask(
        client, "cell_add", session_id=session, content="x = 2\nopen('half', 'w')\nundefined_name"
    )
    told = await read(
        client, "cell_execute", session_id=session, cell_id=made["cell_id"], on_error="rollback"
    )
    first, second, *rest = told.splitlines()
    assert first.startswith("error | rolled back | ")
    assert " | checkpoint: c-" in first
    assert second == "The session is as it was before this cell (generation 2)"
    assert "NameError" in "\n".join(rest)
    assert "earlier state" not in told
    assert await value(client, session, "import os; (x, os.path.exists('half'))") == "(1, False)"
    done = await run(client, session, "x = 3\nundefined_name", on_error="rollback")
    assert done["status"] == "error"
    assert done["rolled_back"]
    assert done["checkpoint"].startswith("c-")
    listed = await ask(client, "checkpoint_list", session_id=session)
    assert [each["before_cell"] for each in listed["checkpoints"]] == [done["cell_id"], made["cell_id"]]
    history = (await ask(client, "execution_list", session_id=session))["executions"]
    assert history[0]["undone"]


async def test_of_all_cells_the_failing_one_is_undone_and_those_before_it_stay(client: Client) -> None:
    session = await new_session(client)
    for content in ("kept = 1", "kept = 2\n1 / 0", "kept = 3"):
        await ask(client, "cell_add", session_id=session, content=content)
    done = await ask(
        client,
        "cell_execute",
        session_id=session,
        cell_id="all",
        on_error="rollback",
        response_format="json",
    )
    assert [each.get("rolled_back") for each in done["cells"]] == [False, True, False]
    assert done["rolled_back"]
    assert await value(client, session, "kept") == "1"


async def test_where_none_can_be_taken_the_result_says_why_and_the_cell_runs(client: Client) -> None:
    session = await new_session(client)
    await run(
        client,
        session,
        "import threading\nend = threading.Event()\nthread = threading.Thread(target=end.wait)\nthread.start()",
    )
    said = await refused(client, "checkpoint_create", session_id=session)
    assert said.startswith("checkpoint: none (")
    assert "thread" in said
    done = await run(client, session, "y = 1\n1 / 0", on_error="rollback")
    assert done["checkpoint"].startswith("none (")
    assert not done["rolled_back"]
    assert done["note"].startswith("It was not rolled back: ")
    assert await value(client, session, "end.set(); y") == "1"


async def test_neither_and_both_are_refused_with_what_is_kept(client: Client) -> None:
    session = await new_session(client)
    assert "keeps no checkpoint yet" in await refused(client, "session_rollback", session_id=session)
    cell = (await run(client, session, "1", on_error="rollback"))["cell_id"]
    await ask(client, "checkpoint_create", session_id=session, name="here")
    both = await refused(client, "session_rollback", session_id=session, checkpoint="here", cell_id=cell)
    assert "one of the two" in both
    assert "keeps: here, c-" in both
    assert f"(before cell {cell})" in both
    assert "keeps no checkpoint 'elsewhere'" in await refused(
        client, "session_rollback", session_id=session, checkpoint="elsewhere"
    )
    done = await ask(client, "session_rollback", session_id=session, cell_id=cell)
    assert done["stale"] == [cell]
    dropped = await ask(client, "checkpoint_drop", session_id=session, checkpoint="here")
    assert dropped["checkpoints"] == 1


async def test_before_a_cell_without_a_checkpoint_the_earlier_ones_run_again_with_progress(
    client: Client, engine: Engine
) -> None:
    session = await new_session(client)
    go = engine.session(session).cwd / "go"
    go.touch()
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nx = 1"
    await run(client, session, wait)
    last = await run(client, session, "x = 2")
    go.unlink()
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:  # the SDK's
        told.append(message or "")
        go.touch()

    result = await client.call_tool(
        "session_rollback", {"session_id": session, "cell_id": last["cell_id"]}, progress_callback=progress
    )
    assert not result.is_error, result
    done = data_of(result)
    assert (done["by"], done["checkpoint"], done["stale"]) == ("replay", None, [last["cell_id"]])
    assert any("files" in each for each in done["not_restored"])
    assert "running for" in told[0]
    assert await value(client, session, "x") == "1"


async def test_cancelling_the_call_stops_what_runs_again(client: Client, engine: Engine) -> None:
    held = engine.session(await new_session(client))
    go = held.cwd / "go"
    go.touch()
    await run(
        client, held.id, "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
    )
    last = await run(client, held.id, "1")
    go.unlink()
    waiting = anyio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:  # the SDK's
        if held.last_replay is not None:
            waiting.set()

    async def roll_back() -> None:
        arguments = {"session_id": held.id, "cell_id": last["cell_id"]}
        await client.call_tool("session_rollback", arguments, progress_callback=progress)

    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roll_back)
            await waiting.wait()
            tasks.cancel_scope.cancel()
        assert held.last_replay is not None
        await held.last_replay.wait()
    assert held.last_replay.state == "stopped"


async def test_as_many_are_kept_as_the_setting_says_and_named_ones_longest(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path, max_checkpoints=2) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        session = await new_session(client)
        await ask(client, "checkpoint_create", session_id=session, name="named")
        with engine.subscribe(session) as events:
            for content in ("1", "2", "3"):
                done = await run(client, session, content, on_error="rollback")
            await let_go(events, 2)
        listed = await ask(client, "checkpoint_list", session_id=session)
        newest, oldest = listed["checkpoints"]
        assert newest["checkpoint"] == done["checkpoint"]
        assert oldest["name"] == "named"
    end_host(tmp_path / "state")


async def test_after_the_kernels_death_the_next_reply_names_what_took_over_and_what_was_lost(
    client: Client, engine: Engine
) -> None:
    session = await new_session(client)
    await run(client, session, "import os; kept = 5")
    await ask(client, "checkpoint_create", session_id=session, name="safe")
    lost = await run(client, session, f"kept = 6; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    assert lost["status"] == "died"
    told = await read(client, "scratch_run", session_id=session, code="kept")
    assert "Checkpoint safe took over, generation 2" in told
    assert f"Lost: cell {lost['cell_id']}" in told
    assert told.rstrip().endswith("5")
    assert engine.session(session).generation == 2
