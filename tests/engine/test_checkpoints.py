"""Checkpoints and rollback of real sessions: state and files come back, what cannot is named, nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine import Engine, Session
from cellwright.errors import CheckpointRefused, UnknownCheckpoint

pytestmark = pytest.mark.anyio
MODES = ["direct", "private", "overlay"]


async def run(session: Session, code: str, **options: Any) -> str:
    cell = await session.add_cell(code)
    execution = await session.run(cell.id, **options)
    assert execution.ok or options.get("on_error"), execution.text
    return execution.text


@pytest.mark.parametrize("mode", MODES)
async def test_a_rollback_brings_state_and_files_back(engine: Engine, tmp_path: Path, mode: Any) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("go back", directory=tmp_path, mode=mode)
    await run(session, "x = [1]\nopen('a.txt', 'w').write('first')")
    kept = await session.checkpoint("before")
    await run(session, "x.append(2)\nopen('a.txt', 'w').write('second')\nopen('b.txt', 'w').write('new')")
    generation = session.generation
    done = await session.roll_back("before")
    assert (done.checkpoint.id, session.generation) == (kept.id, generation + 1)
    assert await run(session, "import os; print(x, open('a.txt').read(), os.path.exists('b.txt'))") == "[1] first False\n"
    await run(session, "open('a.txt', 'w').write('third')")
    assert await run(session, "print(open('a.txt').read())") == "third\n"


@pytest.mark.parametrize("failure", ["1 / 0", "import time; time.sleep(60)", "import os; os.kill(os.getpid(), 9)"])
async def test_a_cell_that_fails_leaves_no_trace(engine: Engine, tmp_path: Path, failure: str) -> None:
    session = await engine.create("atomic", directory=tmp_path)
    await run(session, "x = [1]")
    cell = await session.add_cell(f"x.append(2)\nopen('half.txt', 'w').write('half')\n{failure}")
    execution = await session.run(cell.id, on_error="rollback", timeout_s=2)
    assert execution.state in ("error", "timeout", "died")
    assert execution.record.rolled_back
    assert execution.record.checkpoint is not None
    assert await run(session, "import os; print(x, os.path.exists('half.txt'))") == "[1] False\n"
    assert session.cell(cell.id).metadata["cellwright"]["stale"]


async def test_after_the_kernel_was_killed_the_next_call_goes_on_from_the_last_checkpoint(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("survive", directory=tmp_path)
    await run(session, "x = [1]")
    await session.checkpoint()
    generation = session.generation
    cell = await session.add_cell("import os, time; x.append(2); os.kill(os.getpid(), 9)")
    died = await session.run(cell.id)
    assert died.state == "died"
    probe = await session.add_cell("print(x)")
    execution = await session.run(probe.id)
    assert (execution.text, execution.generation) == ("[1]\n", generation + 1)
    assert f"Lost: cell {cell.id}" in str(execution.record.note)


async def test_what_makes_a_fork_unsafe_is_refused_with_the_reason_and_the_session_goes_on(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("refuse", directory=tmp_path)
    await run(session, "import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait, name='worker'); t.start()")
    with pytest.raises(CheckpointRefused, match="1 thread is still running: worker"):
        await session.checkpoint()
    cell = await session.add_cell("y = 1 / 0")
    execution = await session.run(cell.id, on_error="rollback")
    assert "worker" in str(execution.record.no_checkpoint)
    assert not execution.record.rolled_back
    await run(session, "stop.set(); t.join()")
    await session.checkpoint()
