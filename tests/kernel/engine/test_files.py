"""The notebook's file while others use it too."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import nbformat
import pytest

from cellwright import Engine, Event, Session
from cellwright.engine import _notebook_file
from cellwright.errors import NotebookFormatError
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after, look_again, until

pytestmark = pytest.mark.anyio
# What somebody else writes is met by the save that a test asks for, not by one that comes by itself.
ENGINE_SETTINGS = {"save_quiet_s": 60}


async def saved(session: Session) -> nbformat.NotebookNode:
    await session.save()
    notebook = nbformat.read(session.path, as_version=4)
    nbformat.validate(notebook)
    return notebook


async def test_a_notebook_is_written_by_itself_once_it_is_quiet(open_here: OpenEngine) -> None:
    async with open_here(save_quiet_s=0.01) as engine:
        session = await engine.create("quiet")
        await session.add_cell("written_by_itself = 1")
        await until(lambda: "written_by_itself" in session.path.read_text())


async def test_outputs_of_a_long_cell_are_written_while_it_runs(
    open_here: OpenEngine,
) -> None:
    async with open_here(save_quiet_s=0.01) as engine:
        session = await engine.create("long")
        gate = session.path.parent / "gate"
        code = f"import os, time\nprint('so far', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(.01)"
        cell = await session.add_cell(code)
        execution = await session.execute(cell.id)
        with fail_after():
            while "so far\\n" not in session.path.read_text():
                await look_again()
            gate.touch()
            assert (await execution.wait()).ok


async def test_an_edit_by_somebody_else_is_taken_in_before_ours_is_written(engine: Engine) -> None:
    session = await engine.create("others")
    cell = await session.add_cell("ours = 1")
    notebook = await saved(session)
    notebook.cells[0].source = "# Theirs"
    nbformat.write(notebook, session.path)
    await session.edit_cell(cell.id, "ours = 2")
    merged = await saved(session)
    assert [cell.source for cell in merged.cells] == ["# Theirs", "ours = 2"]


async def test_a_conflict_keeps_both_versions_and_is_reported(engine: Engine) -> None:
    session = await engine.create("conflict")
    cell = await session.add_cell("x = 'base'")
    notebook = await saved(session)
    await session.edit_cell(cell.id, "x = 'ours'")
    notebook.cells[1].source = "x = 'theirs'"
    nbformat.write(notebook, session.path)
    with engine.subscribe(session.id) as events, fail_after():
        merged = await saved(session)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.error":
                break
    assert [cell.source for cell in merged.cells[1:]] == ["x = 'ours'", "x = 'theirs'"]
    assert event.data["code"] == "merge_conflict"
    assert event.data["cell_id"] == cell.id
    assert event.data["copy_id"] == merged.cells[2].id


async def test_a_file_that_vanished_is_written_again(engine: Engine) -> None:
    session = await engine.create("vanished")
    await session.add_cell("kept = 1")
    session.path.unlink()
    merged = await saved(session)
    assert merged.cells[1].source == "kept = 1"


async def test_what_somebody_wrote_that_is_no_notebook_is_set_aside(engine: Engine) -> None:
    session = await engine.create("broken")
    await session.add_cell("kept = 1")
    await session.save()
    session.path.write_text("{ this is not")
    os.utime(session.path, (0, 0))
    merged = await saved(session)
    assert merged.cells[1].source == "kept = 1"
    aside = list(session.path.parent.glob(f"{session.path.stem}.unreadable-*"))
    assert [path.read_text() for path in aside] == ["{ this is not"]


async def test_a_file_that_somebody_is_writing_is_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_notebook_file, "_WRITING_S", 600)
    session = await engine.create("halfway")
    first = await session.add_cell("kept = 1")
    await session.save()
    whole = session.path.read_text().replace("kept = 1", "kept = 2")
    session.path.write_text("")  # as Jupyter's server does before it writes
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.add_cell, "ours = 1")
        await anyio.wait_all_tasks_blocked()
        assert not list(session.path.parent.glob(f"{session.path.stem}.unreadable-*"))
        session.path.write_text(whole)
    assert session.cell(first.id).source == "kept = 2"
    assert [cell.source for cell in (await saved(session)).cells][-1] == "ours = 1"
    assert not list(session.path.parent.glob(f"{session.path.stem}.unreadable-*"))


async def test_a_directory_that_cannot_be_written_is_told_and_nothing_is_lost(open_here: OpenEngine) -> None:
    async with open_here(save_quiet_s=0.01) as engine:
        session = await engine.create("blocked")
        await session.save()  # so that nothing is being written while the file is taken away
        with engine.subscribe(session.id) as events, fail_after():
            session.path.unlink()
            session.path.mkdir()  # nothing can be renamed over a directory, whoever runs this test
            await session.add_cell("precious = 1")
            async for event in events:
                if isinstance(event, Event) and event.kind == "notebook.error":
                    break
        assert event.data["code"] == "save_failed"
        session.path.rmdir()
        await session.save()
        assert "precious = 1" in session.path.read_text()


async def test_nbformat_3_is_refused_with_the_command_that_converts_it(
    engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "old.ipynb"
    path.write_text('{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}')
    with pytest.raises(NotebookFormatError, match="jupyter nbconvert --to notebook"):
        await engine.open(path)


async def test_an_older_minor_is_upgraded_and_gets_ids(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "four.ipynb"
    cell = '{"cell_type": "code", "metadata": {}, "source": ["1"], "outputs": [], "execution_count": null}'
    path.write_text(f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 2}}')
    session = await engine.open(path)
    notebook = await saved(session)
    assert (notebook.nbformat_minor, notebook.cells[0].id) == (5, session.cells[0].id)


async def test_a_link_in_place_of_git_neither_stops_a_session_nor_is_followed(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("told nobody")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / ".git").symlink_to(tmp_path / "secret")
    session = await engine.create("link", directory=folder)
    look = await session.execute_code("import os; print(os.path.islink('.git'), os.path.exists('.git/key'))")
    assert (await look.wait()).text == "True False\n"
