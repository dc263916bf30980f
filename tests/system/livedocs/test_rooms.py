"""Rooms of shared documents on a real server, with two clients in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from pycrdt import Doc, create_sync_message, create_update_message, handle_sync_message
from websockets.asyncio.server import ServerConnection, serve

from cellwright.errors import HostCannot, HostUnreachable, NotebookError
from cellwright.jupyter import _shared_document
from cellwright.jupyter._contents import ServerAddress, client_for
from cellwright.jupyter._document_merge import Sheet, SheetCell
from cellwright.jupyter._shared_document import (
    SharedDocument,
    SharedNotebook,
    Ticket,
    find_shared_document,
    open_shared_document,
)
from tests.matrix import first_of
from tests.support.livedocs.visiting import address_of, code_cell, identity, new_notebook, until_says, visitor
from tests.support.servers.server import Server
from tests.waiting import until

pytestmark = pytest.mark.anyio


def write(room: SharedDocument, **sources: str) -> None:
    """Set the text of cells that are there."""
    sheet = room.notebook.read()
    cells = tuple(
        replace(cell, source=sources.get(cell.id.replace("-", "_"), cell.source)) for cell in sheet.cells
    )
    room.notebook.become(Sheet(cells, sheet.metadata))


async def test_what_one_writes_the_other_reads(collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "x = 1", "y = 2")
    async with visitor(collaboration_server, path) as ours, visitor(collaboration_server, path) as theirs:
        assert [cell.source for cell in ours.notebook.read().cells] == ["x = 1", "y = 2"]
        write(ours, cell_0="x = 10")
        await until_says(theirs, "x = 10", "y = 2")
        write(theirs, cell_1="y = 20")
        await until_says(ours, "x = 10", "y = 20")


async def test_what_two_write_into_one_cell_at_once_is_all_there(collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "x = 1\n")
    async with visitor(collaboration_server, path) as ours, visitor(collaboration_server, path) as theirs:
        write(ours, cell_0="# first\nx = 1\n")
        write(theirs, cell_0="x = 1\n# last\n")
        await until_says(ours, "# first\nx = 1\n# last\n")
        await until_says(theirs, "# first\nx = 1\n# last\n")


async def test_what_is_settled_is_there_for_whoever_comes_next(collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "")
    async with visitor(collaboration_server, path) as ours:
        write(ours, cell_0="z" * 100_000)
        await ours.settled()
        async with visitor(collaboration_server, path) as theirs:
            assert theirs.notebook.read().cells[0].source == "z" * 100_000


async def test_people_see_each_other_by_name(collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "")
    async with visitor(collaboration_server, path, "Ada") as ada:
        async with visitor(collaboration_server, path, "Æsop Øre") as other:
            for room in (ada, other):
                # Neither says again by itself that it is there, nor takes the other for gone.
                room._presence._outdated_timeout = 3_600_000
            await until(lambda: (ada.people, other.people) == (["Æsop Øre"], ["Ada"]))
        await until(lambda: not ada.people)


async def test_a_server_without_shared_documents_has_no_room(jupyter_server: Server) -> None:
    path = new_notebook(jupyter_server, "")
    address = address_of(jupyter_server)
    async with client_for(address) as client:
        assert await find_shared_document(address, client, path) is None


async def test_a_notebook_that_is_not_there_is_told(collaboration_server: Server) -> None:
    address = address_of(collaboration_server)
    async with client_for(address) as client:
        with pytest.raises(NotebookError, match="lab has no such file"):
            await find_shared_document(address, client, "nowhere.ipynb")


async def test_a_wrong_token_is_told_and_not_shown(collaboration_server: Server) -> None:
    address = ServerAddress("lab", collaboration_server.url, "wrong-secret")
    async with client_for(address) as client:
        with pytest.raises(HostCannot) as refused:
            await find_shared_document(address, client, new_notebook(collaboration_server, ""))
    assert "wrong-secret" not in f"{refused.value} {address!r}"


async def test_the_end_of_a_connection_is_told(collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "")

    async def be_cut() -> None:
        async with visitor(collaboration_server, path) as room:
            await room._socket.close()
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as ended:
        await be_cut()
    assert isinstance(ended.value.exceptions[0], HostUnreachable)


async def test_a_question_of_the_servers_is_not_its_answer(collaboration_server: Server) -> None:
    path = new_notebook(collaboration_server, "")
    async with visitor(collaboration_server, path) as room:
        answered = room._answered
        room._take(create_sync_message(Doc()))
        assert room._answered == answered


@pytest.mark.parametrize(("grows", "was_empty"), first_of([(True, False), (True, True), (False, False)], 1))
async def test_a_document_that_is_not_there_whole_in_time_is_not_entered(
    monkeypatch: pytest.MonkeyPatch,
    grows: bool,
    was_empty: bool,
) -> None:
    monkeypatch.setattr(_shared_document, "_LOAD_S", 1.0)
    async with slow_server(grows=grows) as address, anyio.create_task_group() as tasks:
        with pytest.raises(HostUnreachable, match="not told all of the notebook"):
            async with open_shared_document(
                address, Ticket("r"), identity("Ada"), tasks, was_empty=was_empty
            ):
                pytest.fail("what is missing would be taken for deleted")


async def test_a_document_that_had_no_cell_is_entered_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared_document, "_LOAD_S", 1.0)
    async with slow_server(grows=False) as address, anyio.create_task_group() as tasks:
        async with open_shared_document(address, Ticket("r"), identity("Ada"), tasks, was_empty=True) as room:
            assert len(room.notebook) == 0
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def slow_server(*, grows: bool) -> AsyncIterator[ServerAddress]:
    """Somebody whose document has no cell, and where it ``grows`` one more each time that it is asked for."""

    async def converse(socket: ServerConnection) -> None:
        doc: Doc[Any] = Doc()
        notebook = SharedNotebook(doc)
        async for message in socket:
            assert isinstance(message, bytes)
            reply = handle_sync_message(message[1:], doc) if message[0] == 0 else None
            if reply is None:
                continue
            await socket.send(reply)
            if grows:
                before = doc.get_state()
                cells = [SheetCell.of(code_cell(f"c{number}", "")) for number in range(len(notebook) + 1)]
                notebook.become(Sheet(tuple(cells)))
                await socket.send(create_update_message(doc.get_update(before)))

    async with serve(converse, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield ServerAddress("lab", f"http://127.0.0.1:{port}", "")
