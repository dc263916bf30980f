"""A real engine with its face, for what the harness drives."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cellwright import Engine
from tests.kernel.engine.conftest import end_host, open_at


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("tasks")
    async with open_at(root, max_sessions=20, standby_kernels=1) as engine:
        yield engine
    end_host(root / "state")
