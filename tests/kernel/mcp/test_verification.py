from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client

from cellwright import Engine, Event
from tests.kernel.mcp.conftest import Connect, ask, new_session, read
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

ENDLESS = "print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.01)"


async def run(client: Client, session: str, content: str) -> str:
    done = await ask(client, "cell_add_and_run", session_id=session, content=content, response_format="json")
    return str(done["cell_id"])


async def begun(events: Any) -> None:
    with fail_after():
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.output":
                return


async def test_findings_come_first_then_what_differs_then_the_certificate(client: Client) -> None:
    session = await new_session(client)
    cells = [
        await run(client, session, code) for code in ("x = 1", "x + 1", "import random\nrandom.random()")
    ]
    await client.call_tool("cell_delete", {"session_id": session, "cell_id": cells[0]})
    await client.call_tool(
        "cell_update", {"session_id": session, "cell_id": cells[1], "content": "x = 1\nx + 1"}
    )
    text = await read(client, "plan_verify", session_id=session)
    first, *rest = text.splitlines()
    assert first == f"session {session} | not verified | 2 of 2 cells | 1 different"
    assert rest[0] == f"stale: cell {cells[1]} was edited after it ran last"
    assert rest[1] == f"random: cell {cells[2]} draws random numbers without a seed (`random.random`)"
    assert f"different: cell {cells[2]} (ok)" in rest
    assert rest[-1].startswith("certificate in the notebook: ")


async def test_a_notebook_that_holds_is_verified_and_the_json_form_has_every_cell(client: Client) -> None:
    session = await new_session(client)
    cells = [await run(client, session, code) for code in ("import time\nprint(time.time_ns(), 's')", "2")]
    plain = await ask(client, "plan_verify", session_id=session, response_format="json")
    assert [cell["same"] for cell in plain["cells"]] == [False, True]
    masked = await ask(client, "plan_verify", session_id=session, mask=["times"], response_format="json")
    assert (masked["verified"], masked["findings"], masked["total"]) == (True, [], 2)
    assert [cell["cell_id"] for cell in masked["cells"]] == cells
    listed = await ask(client, "notebook_list", filter="all")
    assert not [one for one in listed["sessions"] if one["notebook"] == "rehearsal"]


async def test_past_its_wait_it_goes_on_and_the_next_call_has_its_end(client: Client, engine: Engine) -> None:
    session = engine.session(await new_session(client))
    await run(client, session.id, "1 + 1")
    with engine.subscribe(session.id) as events, fail_after():
        first = await ask(client, "plan_verify", session_id=session.id, wait=0, response_format="json")
        assert (first["status"], first["done"], first["verified"]) == ("running", 0, False)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.verification.completed":
                assert event.data["verification_id"] == first["verification_id"]
                break
    told = await ask(client, "plan_verify", session_id=session.id, response_format="json")
    assert (told["verified"], told["verification_id"]) == (True, first["verification_id"])
    again = await ask(client, "plan_verify", session_id=session.id, response_format="json")
    assert again["verification_id"] != told["verification_id"]


async def test_a_cancelled_call_stops_it_and_leaves_nothing(connect: Connect, engine: Engine) -> None:
    async with connect() as client:
        session = engine.session(await new_session(client))
        await session.add_cell(ENDLESS)
        with engine.subscribe() as events:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_verify, client, session.id)
                await begun(events)
                text = await read(client, "plan_verify", session_id=session.id, wait=0)
                assert f"Still running: plan_verify(session_id='{session.id}') goes on waiting" in text
                tasks.cancel_scope.cancel()
        with fail_after():
            text = await read(client, "plan_verify", session_id=session.id, cancel=True)
        assert "It was cancelled after 0 of 1 cells" in text
    assert "certificate" not in session.document.metadata.get("cellwright", {})
    assert not [one for one in engine._sessions.values() if one.record.rehearses == session.id]


async def test_progress_is_told_while_it_runs(connect: Connect, engine: Engine) -> None:
    said: list[tuple[float, float | None, str]] = []
    told = anyio.Event()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        said.append((progress, total, message or ""))
        if len(said) == 3:
            told.set()

    async def verify() -> None:
        await client.call_tool("plan_verify", {"session_id": session.id}, progress_callback=tell)

    async with connect() as client:
        session = engine.session(await new_session(client))
        await session.add_cell(ENDLESS)
        with fail_after():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(verify)
                await told.wait()
                tasks.cancel_scope.cancel()
    shares, totals, texts = zip(*said[:3], strict=True)
    assert (totals, texts[0].partition(",")[0]) == ((1, 1, 1), "0 of 1 cells")
    assert 0 <= shares[0] < shares[1] < shares[2] < 1, "each report is of more than the last"


async def _verify(client: Client, session_id: str) -> None:
    await client.call_tool("plan_verify", {"session_id": session_id, "timeout": 600_000})
