"""Sessions on notebooks that people have open: what either does reaches the other, through cuts and restarts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from cellwright import Engine, Session
from cellwright.errors import HostUnreachable, NotebookError
from cellwright.jupyter import mirrors
from cellwright.jupyter._document_merge import Sheet, SheetCell
from cellwright.jupyter._shared_document import SharedDocument
from tests.kernel.engine.conftest import OpenEngine, end_host, open_at
from tests.support.livedocs.visiting import (
    code_cell,
    new_notebook,
    sources_on,
    until_says,
    visitor,
    write_notebook,
)
from tests.support.servers.server import Server
from tests.waiting import until

pytestmark = pytest.mark.anyio

Told = Callable[[Server], dict[str, Any]]


@pytest.fixture(scope="module")
async def engine(
    tmp_path_factory: pytest.TempPathFactory, collaboration_server: Server
) -> AsyncIterator[Engine]:
    """One engine with sessions on that server, for all tests that need no other."""
    root = tmp_path_factory.mktemp("engine")
    settings = {"jupyter_url": collaboration_server.url, "jupyter_token": collaboration_server.token}
    async with open_at(root, max_sessions=100, **settings) as engine:
        yield engine
    end_host(root / "state")


async def until_has(session: Session, *sources: str) -> None:
    await until(lambda: [cell.source for cell in session.cells] == list(sources))


async def until_live(session: Session) -> None:
    await until(lambda: (session.sharing or "").startswith(("live", "by its file")))


def rewrite(room: SharedDocument, cell_id: str, source: str) -> None:
    sheet = room.notebook.read()
    cells = (replace(one, source=source) if one.id == cell_id else one for one in sheet.cells)
    room.notebook.become(Sheet(tuple(cells), sheet.metadata))


async def test_what_the_agent_does_appears_and_what_a_person_does_reaches_it(
    engine: Engine, collaboration_server: Server
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    async with visitor(collaboration_server, path) as ada:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        cell = await session.add_cell("y = 2")
        await until_says(ada, "x = 1", "y = 2")
        await until(lambda: ada.people == ["Cellwright"])
        rewrite(ada, cell.id, "y = 20")
        await until_has(session, "x = 1", "y = 20")
        sheet = ada.notebook.read()
        new = SheetCell("theirs", "markdown", "# Ada was here", {}, {}, [], None)
        ada.notebook.become(Sheet((new, sheet.cells[1]), sheet.metadata))
        await until_has(session, "# Ada was here", "y = 20")
        await until(lambda: _by_people(engine, session) >= {"source_changed", "cell_added", "cell_deleted"})


def _by_people(engine: Engine, session: Session) -> set[str]:
    """The kinds of changes that are told as people's."""
    events = engine.events(since=0, session_id=session.id)
    return {event.data["change"]["change"] for event in events if event.data.get("by") == "person"}


async def test_output_appears_while_a_cell_runs(engine: Engine, collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "")
    async with visitor(collaboration_server, path) as ada:
        session = await engine.open_there(path, host="jupyter")
        cell = await session.add_cell(
            "import pathlib, time\nprint('first')\n"
            "while not pathlib.Path('go').exists(): time.sleep(0.05)\nprint('last')"
        )
        execution = await session.execute(cell.id)
        await _until_shown(ada, cell.id, "first\n")
        # Told after the outputs that there are when it begins.
        await until(lambda: _state(ada, cell.id) == "running")
        assert not execution.done
        (collaboration_server.root / "go").touch()
        await execution.wait()
        await _until_shown(ada, cell.id, "first\nlast\n")
        await until(lambda: _state(ada, cell.id) == "idle")
        await until(lambda: ada.notebook.read().by_id[cell.id].execution_count == 1)


async def test_both_edit_one_cell_and_nothing_is_lost(engine: Engine, collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "x = 1\n")
    async with visitor(collaboration_server, path) as ada:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        rewrite(ada, "cell-0", "x = 1\n# Ada's\n")
        await session.edit_cell("cell-0", "# the agent's\nx = 1\n")
        both = "# the agent's\nx = 1\n# Ada's\n"
        await until_has(session, both)
        await until_says(ada, both)


async def test_what_both_did_during_a_cut_is_there_afterwards(
    open_here: OpenEngine, collaboration_server: Server, wire_to: Any
) -> None:
    path = new_notebook(collaboration_server, "a = 1\nb = 2\n")
    wire = await wire_to(collaboration_server.port)
    settings = {"jupyter_url": f"http://127.0.0.1:{wire.port}", "jupyter_token": collaboration_server.token}
    async with open_here(**settings) as engine, visitor(collaboration_server, path) as ada:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        await wire.cut(closed=True)
        await until(lambda: "out of step" in (session.sharing or ""))
        await session.edit_cell("cell-0", "a = 10\nb = 2\n")
        await session.add_cell("mine = True")
        rewrite(ada, "cell-0", "a = 1\nb = 20\n")
        await ada.settled()
        wire.open()
        await until_has(session, "a = 10\nb = 20\n", "mine = True")
        await until_says(ada, "a = 10\nb = 20\n", "mine = True")
        errors = [
            event.data["code"]
            for event in engine.events(since=0, session_id=session.id)
            if event.kind == "notebook.error"
        ]
        # Once for the end of the connection, and once more where it was tried again in vain.
        assert set(errors) == {"host_unreachable"}


async def test_what_was_said_into_a_dead_connection_is_not_taken_for_deleted(
    open_here: OpenEngine, collaboration_server: Server, relay_to: Any
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    relay = await relay_to(collaboration_server.port)
    settings = {"jupyter_url": f"http://127.0.0.1:{relay.port}", "jupyter_token": collaboration_server.token}
    async with open_here(**settings) as engine, visitor(collaboration_server, path) as ada:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        relay.swallow()
        await session.add_cell("unheard = 1")
        await until(lambda: "unheard = 1" in _written(engine, session))
        await relay.cut()
        await until_says(ada, "x = 1", "unheard = 1")
        assert [cell.source for cell in session.cells] == ["x = 1", "unheard = 1"]


def _written(engine: Engine, session: Session) -> list[str]:
    """What the mirror has written into its own end of the document."""
    mirror, _ = engine._remote._mirror._mirrors[session.id]
    return [cell.source for cell in mirror._common.cells]


async def test_a_restarted_server_is_caught_up_with(
    open_here: OpenEngine, told: Told, server_home: Any, served: Any
) -> None:
    from tests.support.servers import kinds

    server = served(kinds.collaboration_server(server_home("restarted")))
    path = new_notebook(server, "x = 1")
    async with open_here(**told(server)) as engine:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        await session.add_cell("before = 1")
        await until(lambda: sources_on(server, path) == ["x = 1", "before = 1"])
        server.kill()
        await until(lambda: "out of step" in (session.sharing or ""))
        await session.add_cell("meanwhile = 2")
        server.start()
        await until_live(session)
        await until(lambda: sources_on(server, path) == ["x = 1", "before = 1", "meanwhile = 2"])
        assert [cell.source for cell in session.cells] == ["x = 1", "before = 1", "meanwhile = 2"]


async def test_a_file_that_is_changed_behind_the_server_reaches_the_agent(
    engine: Engine, collaboration_server: Server
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    session = await engine.open_there(path, host="jupyter")
    await until_live(session)
    write_notebook(
        collaboration_server, path, [code_cell("cell-0", "x = 2"), code_cell("other", "from_git = 1")]
    )
    await until_has(session, "x = 2", "from_git = 1")


async def test_a_notebook_that_is_moved_there_is_followed(
    engine: Engine, collaboration_server: Server
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    session = await engine.open_there(path, host="jupyter")
    await until_live(session)
    collaboration_server.request("PATCH", f"/api/contents/{path}", {"path": f"moved-{path}"})
    await until(lambda: session.record.there == ("", f"moved-{path}"))
    await session.edit_cell("cell-0", "x = 3")
    await until(lambda: sources_on(collaboration_server, f"moved-{path}") == ["x = 3"])


async def test_what_people_did_while_no_engine_ran_is_not_undone(
    open_here: OpenEngine, collaboration_server: Server, told: Told
) -> None:
    path = new_notebook(collaboration_server, "x = 1", "y = 2")
    settings = told(collaboration_server)
    async with open_here(**settings) as engine:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        await session.edit_cell("cell-0", "x = 10")
    async with visitor(collaboration_server, path) as ada:
        await until_says(ada, "x = 10", "y = 2")
        sheet = ada.notebook.read()
        ada.notebook.become(Sheet((replace(sheet.cells[0], source="x = 100"),), sheet.metadata))
        await ada.settled()
        async with open_here(**settings) as engine:
            (session,) = engine.sessions()
            await until_has(session, "x = 100")
            assert session.record.there == ("", path)


async def test_what_never_reached_the_server_does_so_with_the_next_engine(
    open_here: OpenEngine, collaboration_server: Server, wire_to: Any
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    wire = await wire_to(collaboration_server.port)
    settings = {"jupyter_url": f"http://127.0.0.1:{wire.port}", "jupyter_token": collaboration_server.token}
    async with open_here(**settings) as engine:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        await wire.cut(closed=True)
        await session.add_cell("ours = 1")
    async with visitor(collaboration_server, path) as ada:
        rewrite(ada, "cell-0", "x = 'theirs'")
        await ada.settled()
        wire.open()
        async with open_here(**settings) as engine:
            (session,) = engine.sessions()
            await until_has(session, "x = 'theirs'", "ours = 1")
            await until_says(ada, "x = 'theirs'", "ours = 1")


async def test_a_session_that_ends_leaves_nothing_behind_that_the_server_lacks(
    engine: Engine, collaboration_server: Server
) -> None:
    path = new_notebook(collaboration_server, "x = 1")
    async with visitor(collaboration_server, path) as ada:
        session = await engine.open_there(path, host="jupyter")
        await until_live(session)
        for number in range(2, 9):
            await session.edit_cell("cell-0", f"x = {number}")
        await engine.delete(session.id)
        await until_says(ada, "x = 8")


async def test_a_new_notebook_is_made_on_the_server(engine: Engine, collaboration_server: Server) -> None:
    session = await engine.create("Sales by month", host="jupyter")
    assert session.record.there is not None
    path = session.record.there[1]
    assert path.endswith("_sales_by_month.ipynb")
    # The server may just be writing it again.
    await until(lambda: sources_on(collaboration_server, path) == ["# Sales by month"])
    cell = await session.add_cell("1 + 1")
    await session.run(cell.id)
    await engine.delete(session.id)
    assert not session.path.exists()
    # A server writes what its rooms hold when it finds the time.
    await until(lambda: sources_on(collaboration_server, path) == ["# Sales by month", "1 + 1"])


async def test_a_session_is_not_deleted_while_its_server_lacks_what_was_done(
    open_here: OpenEngine, jupyter_server: Server, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_here(**told(jupyter_server)) as engine:
        session = await engine.create("Kept", host="jupyter")
        jupyter_server.kill()
        try:
            await session.add_cell("unsaved = 1")
            monkeypatch.setattr(mirrors, "_FLUSH_S", 1.0)
            with pytest.raises(HostUnreachable):
                await engine.delete(session.id)
            monkeypatch.setattr(mirrors, "_FLUSH_S", 60.0)
            assert "unsaved = 1" in [cell.source for cell in engine.session(session.id).document.cells]
        finally:
            jupyter_server.start()
        assert session.record.there is not None
        path = session.record.there[1]
        await until(lambda: sources_on(jupyter_server, path)[-1:] == ["unsaved = 1"])
        await engine.delete(session.id)


async def test_removing_a_notebook_removes_it_there(engine: Engine, collaboration_server: Server) -> None:
    session = await engine.create("Gone soon", host="jupyter")
    assert session.record.there is not None
    await engine.delete(session.id, remove_file=True)
    assert not (collaboration_server.root / session.record.there[1]).exists()


async def test_people_who_open_the_notebook_find_the_agents_kernel(
    engine: Engine, collaboration_server: Server
) -> None:
    session = await engine.create("Together", host="jupyter")
    sessions = collaboration_server.request("GET", "/api/sessions")
    assert session.record.there is not None
    assert [one["kernel"]["id"] for one in sessions if one["path"] == session.record.there[1]] == [
        (session.record.remote or ("",))[0]
    ]


async def test_a_gateway_without_files_leaves_the_notebook_here(
    open_here: OpenEngine, kernel_gateway: Server, told: Told
) -> None:
    async with open_here(**told(kernel_gateway)) as engine:
        session = await engine.create("Here", host="jupyter")
        assert session.record.there is None
        assert session.sharing is None
        assert session.path.is_relative_to(engine.settings.root / "notebooks")


async def test_a_path_that_is_none_on_a_server_is_refused(engine: Engine) -> None:
    with pytest.raises(NotebookError, match="is no path on a server"):
        await engine.open_there("../secret.ipynb", host="jupyter")
    with pytest.raises(NotebookError, match="has no such file"):
        await engine.open_there("nowhere.ipynb", host="jupyter")


async def test_without_shared_documents_both_sides_changes_are_merged_when_saved(
    open_here: OpenEngine, jupyter_server: Server, told: Told
) -> None:
    path = new_notebook(jupyter_server, "x = 1", "y = 2")
    async with open_here(**told(jupyter_server)) as engine:
        session = await engine.open_there(path, host="jupyter")
        await until(lambda: (session.sharing or "").startswith("by its file"))
        await session.edit_cell("cell-0", "x = 10")
        await until(lambda: sources_on(jupyter_server, path) == ["x = 10", "y = 2"])
        told_now = json.loads((jupyter_server.root / path).read_text())
        told_now["cells"][1]["source"] = ["y = 20"]
        (jupyter_server.root / path).write_text(json.dumps(told_now))
        await until_has(session, "x = 10", "y = 20")
        cell = await session.add_cell("print(x)")
        await session.run(cell.id)
        await until(lambda: sources_on(jupyter_server, path) == ["x = 10", "y = 20", "print(x)"])


async def test_without_shared_documents_a_conflict_keeps_both_and_is_told(
    open_here: OpenEngine, jupyter_server: Server, wire_to: Any
) -> None:
    path = new_notebook(jupyter_server, "x = 1")
    wire = await wire_to(jupyter_server.port)
    settings = {"jupyter_url": f"http://127.0.0.1:{wire.port}", "jupyter_token": jupyter_server.token}
    async with open_here(**settings) as engine:
        session = await engine.open_there(path, host="jupyter")
        await until(lambda: (session.sharing or "").startswith("by its file"))
        await wire.cut(closed=True)
        await until(lambda: "out of step" in (session.sharing or ""))
        await session.edit_cell("cell-0", "x = 'ours'")
        write_notebook(jupyter_server, path, [code_cell("cell-0", "x = 'theirs'")])
        wire.open()
        await until_has(session, "x = 'ours'", "x = 'theirs'")
        await until(lambda: sources_on(jupyter_server, path) == ["x = 'ours'", "x = 'theirs'"])
        codes = [
            event.data["code"]
            for event in engine.events(since=0, session_id=session.id)
            if event.kind == "notebook.error"
        ]
        assert "merge_conflict" in codes


async def _until_shown(room: SharedDocument, cell_id: str, text: str) -> None:
    def shown() -> bool:
        cell = room.notebook.read().by_id.get(cell_id)
        return cell is not None and "".join(one.get("text", "") for one in cell.outputs) == text

    await until(shown)


def _state(room: SharedDocument, cell_id: str) -> str:
    (state,) = (one["execution_state"] for one in room.notebook._cells if one["id"] == cell_id)
    return str(state)
