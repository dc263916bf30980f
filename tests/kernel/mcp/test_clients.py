from __future__ import annotations

import json
from pathlib import Path

import anyio
import nbformat
import pytest
from mcp import Client
from mcp.types import LATEST_PROTOCOL_VERSION

from cellwright import Engine
from cellwright.mcp import McpServer
from tests.kernel.mcp.conftest import Connect, ask, new_session, read, refused, socket_pair
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def test_a_call_without_a_session_means_the_clients_own_and_names_it(client: Client) -> None:
    session = await new_session(client)
    text = await read(client, "cell_add_and_run", content="1 + 1")
    assert text.startswith(f"ok | session {session} | cell ")
    assert (await ask(client, "cell_add", content="2"))["session_id"] == session


async def test_of_two_sessions_the_last_used_is_meant_but_by_calls_that_lose_something(
    client: Client,
) -> None:
    one, two = await new_session(client, "one"), await new_session(client, "two")
    assert (await ask(client, "cell_add", content="x"))["session_id"] == two
    await ask(client, "cell_add", session_id=one, content="x")
    assert (await read(client, "scratch_run", code="1")).startswith(f"ok | session {one}\n")
    said = await refused(client, "kernel_restart")
    assert "several could be meant" in said
    assert one in said
    assert two in said
    await ask(client, "session_suspend", session_id=one)
    assert (await ask(client, "kernel_restart"))["session_id"] == two


async def test_a_new_client_writes_into_nobody_elses_notebook(connect: Connect, engine: Engine) -> None:
    async with connect() as first, connect() as second:
        session = await new_session(first, "mine alone")
        said = await refused(second, "cell_add", content="intruding")
        assert "this client has not worked with a session yet" in said
        assert len(engine.session(session).cells) == 1
        await ask(second, "cell_add", session_id=session, content="invited")
        assert (await ask(second, "cell_add", content="again"))["session_id"] == session


async def test_a_name_without_its_time_is_enough_when_it_is_certain(client: Client) -> None:
    session = await new_session(client, "Weather in Kraków")
    for name in ("Weather in Kraków", "weather_in_kraków", "weather_in_kraków.ipynb"):
        added = await ask(client, "cell_add", session_id=name, content="1")
        assert added["session_id"] == session
        assert f"is session {session}" in added["notes"][0]
    text = await read(client, "notebook_read", session_id="weather_in_kraków")
    assert text.startswith(f"note: 'weather_in_kraków' is session {session}")


async def test_a_path_means_the_notebook_that_lies_there_and_no_other_of_its_name(
    client: Client, engine: Engine
) -> None:
    session = await new_session(client, "mist")
    path = engine.session(session).path
    relative = path.relative_to(engine.settings.root)
    for there in (str(path), f"./{relative}"):
        assert (await ask(client, "cell_add", session_id=there, content="1"))["session_id"] == session
    for elsewhere in ("/no/such/mist.ipynb", f"/no/such/{path.name}", "other/mist.ipynb", "mist_2", "mis"):
        said = await refused(client, "cell_add", session_id=elsewhere, content="x")
        assert said.startswith(f"There is no session {elsewhere!r}. Perhaps: ")
        assert session in said
    assert len(engine.session(session).cells) == 3


async def test_a_name_that_two_notebooks_have_is_answered_with_both(client: Client) -> None:
    one, two = await new_session(client, "twins"), await new_session(client, "twins")
    said = await refused(client, "cell_add", session_id="twins", content="1")
    assert "could be 2 sessions" in said
    assert one in said
    assert two in said


async def test_a_wrong_id_is_answered_with_the_likely_ones_and_nothing_is_written(
    client: Client, engine: Engine
) -> None:
    session = await new_session(client, "budget_2026")
    wrong = session[:-1] + ("2" if session[-1] != "2" else "3")
    assert session in await refused(client, "cell_add", session_id=wrong, content="1")
    assert session in await refused(client, "cell_add", session_id="budget_2025", content="1")
    assert len(engine.session(session).cells) == 1


async def test_two_clients_on_one_session_see_each_others_work(connect: Connect) -> None:
    async with connect() as first, connect("2026-07-28") as second:
        session = await new_session(first)
        await read(first, "cell_add_and_run", session_id=session, content="shared = 41")
        code = "print('one more is', shared + 1)"
        assert "one more is 42" in await read(second, "scratch_run", session_id=session, code=code)
        cell = (await ask(first, "cell_add", session_id=session, content="a = 1"))["cell_id"]
        await ask(second, "cell_update", session_id=session, cell_id=cell, content="a = 2", version=1)
        stale = await refused(
            first, "cell_update", session_id=session, cell_id=cell, content="a = 3", version=1
        )
        assert "-a = 2" in stale


async def test_clients_at_once_on_their_own_sessions_do_not_mix(connect: Connect) -> None:
    found: dict[int, list[str]] = {}

    async def work(number: int) -> None:
        async with connect("legacy" if number % 2 else "2026-07-28") as client:
            await new_session(client, f"worker {number}")
            await read(client, "scratch_run", code=f"mine = {number}")
            found[number] = [
                (await ask(client, "scratch_run", code="mine", response_format="json"))["result"]
                for _ in range(5)
            ]

    with fail_after():
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(work, number)
    assert found == {number: [str(number)] * 5 for number in range(4)}


async def test_cells_of_two_clients_on_one_session_run_one_after_the_other(connect: Connect) -> None:
    async with connect() as first, connect() as second:
        session = await new_session(first)
        await read(first, "scratch_run", session_id=session, code="order = []")

        async def add(client: Client, name: str) -> None:
            for _ in range(5):
                await read(client, "scratch_run", session_id=session, code=f"order.append('{name}')")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add, first, "a")
            tasks.start_soon(add, second, "b")
        text = await read(first, "scratch_run", session_id=session, code="sorted(order)")
        assert str(["a"] * 5 + ["b"] * 5) in text


async def test_a_line_that_is_no_message_is_answered_and_the_next_is_served(face: McpServer) -> None:
    ours, theirs = socket_pair()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(face.serve, theirs, theirs)
        await ours.send(b"this is no JSON\n")
        assert json.loads(await ours.receive())["error"]["code"] == -32700
        client_info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": LATEST_PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client_info}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        await ours.send(json.dumps(request).encode() + b"\n")
        with fail_after():
            assert json.loads(await ours.receive())["result"]["serverInfo"]["name"] == "cellwright"
        await ours.aclose()
    await theirs.aclose()


async def test_each_client_works_where_it_was_started(
    connect: Connect, engine: Engine, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for directory in (here, there):
        directory.mkdir()
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(directory.name)])
        nbformat.write(notebook, directory / "mine.ipynb")
    async with connect(directory=here) as one, connect(directory=there) as two:
        for client, directory in ((one, here), (two, there)):
            session = engine.session(await new_session(client))
            assert session.path.parent == directory / "notebooks"
            opened = await ask(client, "notebook_open", path="mine.ipynb")
            assert opened["path"] == str(directory / "mine.ipynb")
        assert "roots" in await refused(one, "notebook_open", path=str(there / "mine.ipynb"))
