"""Sessions are deleted so that they can be had back, renamed with their files, and copied."""

from __future__ import annotations

import pytest

from cellwright.errors import NotebookError, UnknownSession
from cellwright.notebook import Document
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def test_a_deleted_session_is_out_of_sight_until_it_is_restored_with_its_variables(
    open_here: OpenEngine,
) -> None:
    async with open_here() as engine:
        session = await engine.create("apples")
        cell = await session.add_cell("x = 6 * 7")
        await session.run(cell.id)
        await engine.delete(session.id, later=True)
        assert (engine.sessions(), engine.deleted()) == ([], [session])
        with pytest.raises(UnknownSession):
            engine.session(session.id)
    async with open_here() as engine:  # the next engine knows it, too
        assert engine.sessions() == []
        restored = await engine.restore(session.id)
        assert engine.sessions() == [restored]
        again = await restored.run((await restored.add_cell("x")).id)
        assert "42" in again.text
        with pytest.raises(UnknownSession, match="bring back"):
            await engine.restore(session.id)
        # Its notebook is another way to it.
        await engine.delete(session.id, later=True)
        assert await engine.open(session.path) is restored
        await engine.delete(session.id, later=True)
    async with open_here(undelete_s=0.01) as engine:
        with engine.subscribe() as events, fail_after():
            while engine.deleted():
                await anext(aiter(events))
        with pytest.raises(UnknownSession):
            await engine.restore(session.id)
        assert session.path.exists()


async def test_a_session_is_renamed_with_its_heading_and_file_and_copied_beside_it(
    open_here: OpenEngine,
) -> None:
    async with open_here() as engine:
        session = await engine.create("Try the page", mode="private")
        ran = await session.run((await session.add_cell("kept = 1")).id)
        before = session.path
        await session.rename("Try it  again")
        assert (session.title, session.name, session.path.name) == (
            "Try it again",
            "try_it_again",
            "try_it_again.ipynb",
        )
        assert not before.exists()
        assert "# Try it again" in session.path.read_text()
        await session.edit_cell(ran.record.cell_id or "", "kept = 2")
        await session.save()
        assert "kept = 2" in session.path.read_text()
        copy = await engine.duplicate(session.id)
        assert (copy.title, copy.state, len(copy.cells)) == ("Try it again copy", "suspended", 2)
        # A name that another file has is not taken from it.
        await copy.rename("Try it again")
        assert (copy.name, copy.title) == ("try_it_again_2", "Try it again")
        with pytest.raises(NotebookError, match="1 to 200"):
            await session.rename("  ")
    async with open_here() as engine:
        found = engine.session(session.id)
        assert (found.name, found.path.exists()) == ("try_it_again", True)
        assert Document.from_bytes(found.path.read_bytes(), name="it").cells[1].source == "kept = 2"
