"""Engines for tests of languages, as ``tests/kernel/engine`` has them, with time for a cell and for its interrupt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from cellwright import Engine
from tests.kernel.engine.conftest import OpenEngine, end_host, open_at
from tests.waiting import UNHURRIED


@pytest.fixture
def open_here(tmp_path: Path) -> Iterator[OpenEngine]:
    """Open engines, one after another, on one storage directory; its host is ended with the test."""
    yield partial(open_at, tmp_path, **UNHURRIED)
    end_host(tmp_path / "state")


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """One engine for all tests of a module that leave it usable."""
    root = tmp_path_factory.mktemp("engine")
    async with open_at(root, max_sessions=100, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")
