"""What a directory holds that code left, told apart by when it came."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine import Engine
from cellwright.engine.records import Artifacts, artifacts_of, entries_in
from tests.waiting import until


def test_what_came_after_the_end_is_left_for_the_next_look(tmp_path: Path) -> None:
    began = time.time()
    write_after(tmp_path / "both", began)
    write_after(tmp_path / "own", began)
    ended = time.time()
    write_after(tmp_path / "both", ended)
    write_after(tmp_path / "later", ended)

    own = look(tmp_path, since=began, until=ended)
    assert [file.path for file in own.files] == ["own"]
    later = look(tmp_path, since=ended, before=own.seen)
    assert sorted(file.path for file in later.files) == ["both", "later"]


def test_what_another_changed_meanwhile_is_still_known_as_it_was(tmp_path: Path) -> None:
    write_after(tmp_path / "kept", 0)
    first = look(tmp_path)
    ended = time.time()
    write_after(tmp_path / "kept", ended)
    second = look(tmp_path, until=ended, before=first.seen)
    assert second.seen == first.seen
    (tmp_path / "kept").unlink()
    assert look(tmp_path, until=ended, before=first.seen).seen == {}


@pytest.mark.anyio
async def test_what_began_while_somebody_looked_is_its_own(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("looks", directory=tmp_path)
    await session.execute_code(
        "for i in range(3_000): open(f'many{i}', 'w').close()"
    )  # so that a look takes a while
    idle = await session.add_cell("1")
    writing = await session.add_cell("open('left', 'w').write('x')")
    for _ in range(5):
        before = await session.run(idle.id)
        writes = await session.run(writing.id)
        await session.files_known()
        await writes.wait_for_files(60)  # where the look itself takes long
        assert [file.path for file in before.record.files] == []
        assert [file.path for file in writes.record.files] == ["left"]


@pytest.mark.anyio
async def test_another_sessions_notebook_is_nothing_that_a_cell_left(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("works", directory=tmp_path, mode="direct")
    other = await engine.create("beside it", directory=tmp_path, mode="direct")
    code = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
    cell = await session.add_cell(code)
    execution = await session.execute(cell.id)
    await until(lambda: execution.record.started_at is not None)
    await other.add_cell("1")
    await other.save()
    (tmp_path / "go").touch()
    await execution.wait()
    await execution.wait_for_files(60)
    assert [file.path for file in execution.record.files] == ["go"]


def look(directory: Path, **how: Any) -> Artifacts:
    return artifacts_of(str(directory), entries_in(str(directory)), **how)


def write_after(path: Path, moment: float) -> None:
    """Write a file until its own time, which is told in ticks, is after a moment."""
    path.write_text("x")
    while path.stat().st_ctime_ns <= int(moment * 1e9):
        path.write_text("x")
