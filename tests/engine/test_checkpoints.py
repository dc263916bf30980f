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
