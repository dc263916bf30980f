"""What code leaves behind is listed after each execution, in every mode, and an overlay's files are applied on request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellwright import Engine, Execution, Session, Settings, open_engine
from cellwright.errors import KernelStartError
from tests.conftest import Require
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.sandbox.conftest import let_others_in
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("files")
    project = root / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "notebooks").mkdir()
    (project / "notebooks" / "old.txt").write_text("old\n")
    async with open_at(project, storage=root / "state", max_sessions=20, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


async def run(session: Session, code: str) -> Execution:
    execution = await (await session.execute_code(code)).wait()
    assert execution.ok, execution.text
    await execution.wait_for_files(60)
    return execution


@pytest.mark.parametrize("mode", ["overlay", "private", "direct"])
async def test_an_execution_lists_what_it_left_and_the_next_one_only_its_own(
    engine: Engine, mode: str
) -> None:
    session = await engine.create("files", mode=mode)
    name = f"made_{mode}.txt"
    first = await run(session, f"open({name!r}, 'w').write('twelve bytes')")
    assert [(file.path.rpartition("/")[2], file.type, file.size) for file in first.files] == [
        (name, "file", 12)
    ]
    assert first.record.files_directory is not None
    real = Path(first.record.files_directory, first.files[0].path)
    assert real.read_text() == "twelve bytes", "the listed path is where others find it"
    assert (await run(session, "1 + 1")).files == ()
    again = await run(session, f"open({name!r}, 'a').write('!')")
    assert [file.size for file in again.files] == [13]


async def test_what_was_left_is_in_the_history_and_told_as_an_event(engine: Engine) -> None:
    session = await engine.create("files", mode="private")
    execution = await run(session, "open('kept.csv', 'w').close()")
    (past,) = await engine.history(session.id)
    assert [file.path for file in past.files] == ["kept.csv"]
    kinds = {event.kind: event for event in engine.events(since=0, session_id=session.id)}
    assert kinds["notebook.cell.files"].execution_id == execution.id
    assert [file.path for file in (await session.files()).files] == ["kept.csv"]


async def test_a_thousand_files_are_counted_and_fifty_told(engine: Engine) -> None:
    session = await engine.create("files", mode="private")
    execution = await run(session, "for n in range(1000): open(f'{n}.txt', 'w').close()")
    assert (len(execution.files), execution.record.more_files) == (50, 950)


async def test_a_planted_link_is_told_as_a_link(engine: Engine) -> None:
    session = await engine.create("files", mode="private")
    execution = await run(session, "import os; os.symlink('/etc/shadow', 'planted')")
    assert [(file.path, file.type) for file in execution.files] == [("planted", "link")]


async def test_an_overlay_shows_its_difference_and_is_applied_on_request(engine: Engine) -> None:
    session = await engine.create("files", mode="overlay")
    project = engine.settings.root
    execution = await run(
        session, "open('old.txt', 'w').write('new\\n'); open('fresh.txt', 'w').write('fresh\\n')"
    )
    assert {file.path for file in execution.files} == {"notebooks/old.txt", "notebooks/fresh.txt"}
    assert (project / "notebooks" / "old.txt").read_text() == "old\n", "the original is never touched"
    assert "-old\n+new\n" in await session.file_diff()
    await session.apply_files(["notebooks/old.txt"])
    assert (project / "notebooks" / "old.txt").read_text() == "new\n"
    assert not (project / "notebooks" / "fresh.txt").exists()


async def test_without_namespaces_nobody_works_where_cellwrights_own_files_would_be_seen(
    open_root: Path,
) -> None:
    project = open_root / "project"
    (project / "below").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    storage = project / "state"
    storage.mkdir(mode=0o711)
    async with open_at(project, sandbox_namespaces=False) as engine:
        for mode, directory in (("direct", project), ("overlay", project), ("direct", project / "below")):
            with pytest.raises(KernelStartError, match="which is Cellwright's own") as refused:
                await engine.create("near", directory=directory, mode=mode)
            assert "CELLWRIGHT_STORAGE" in (refused.value.hint or "")
        await engine.close(stop_host=True)


async def test_without_namespaces_an_engine_of_one_run_has_kernels_in_private_and_direct_folders(
    open_root: Path, require: Require
) -> None:
    notebook = open_root / "work" / "notebook.ipynb"
    notebook.parent.mkdir(mode=0o755)
    let_others_in(notebook.parent, require)
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    settings = Settings(root=open_root, sandbox_namespaces=False, standby_kernels=0, **UNHURRIED)
    for mode in ("private", "direct"):
        async with open_engine(settings, ephemeral=True) as engine:
            session = await engine.open(notebook, mode=mode)
            execution = await (await session.execute_code("1 + 1")).wait()
            assert (execution.text.strip(), session.tier, session.mode) == ("2", "C", mode)
