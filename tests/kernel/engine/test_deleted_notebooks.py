"""A notebook that is removed with its session stays removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.engine.conftest import end_host, open_at

pytestmark = pytest.mark.anyio


async def test_a_save_that_was_due_does_not_bring_a_removed_notebook_back(tmp_path: Path) -> None:
    async with open_at(tmp_path) as engine:
        session = await engine.create("gone", mode="private")
        await session.add_cell("1 + 1")
        await engine.delete(session.id, remove_file=True)
        # As the task that saves all sessions does with one that it has just begun with.
        await session.save()
        assert not session.path.exists()
    end_host(tmp_path / "state")
