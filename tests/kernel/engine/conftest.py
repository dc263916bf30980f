"""Engines on real hosts and real kernels, each in a directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from cellwright import Engine, Settings, open_engine
from cellwright.hosts import HostPaths
from tests.kernel.sandbox.conftest import open_root
from tests.waiting import LIMIT_S, UNHURRIED

__all__ = ["OpenEngine", "end_host", "host_process", "open_at", "open_root"]

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture
def open_here(tmp_path: Path) -> Iterator[OpenEngine]:
    """Open engines, one after another, on one storage directory; its host is ended with the test."""
    yield partial(open_at, tmp_path)
    end_host(tmp_path / "state")


@pytest.fixture
async def own_engine(open_here: OpenEngine) -> AsyncIterator[Engine]:
    """An engine with a host of its own, for tests that kill things."""
    async with open_here() as engine:
        yield engine


@pytest.fixture(scope="module")
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Engine]:
    """One engine for all tests of a module that leave it usable.

    A module's ``PRELOAD`` is imported once for all its kernels: what most of them would import, each for itself.
    Its ``ENGINE_SETTINGS`` are the engine's.
    """
    root = tmp_path_factory.mktemp("engine")
    changes = {"max_sessions": 100, "preload": getattr(request.module, "PRELOAD", ())}
    async with open_at(root, **changes, **getattr(request.module, "ENGINE_SETTINGS", {})) as engine:
        yield engine
    end_host(root / "state")


@asynccontextmanager
async def open_at(root: Path, **changes: object) -> AsyncIterator[Engine]:
    values = {"root": root, "storage": root / "state", "standby_kernels": 0} | UNHURRIED | changes
    async with open_engine(Settings.model_validate(values)) as engine:
        yield engine


def host_process(storage: Path) -> psutil.Process | None:
    """The host of a storage directory, found by what it was started with."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "cellwright.hosts" in command and str(storage) in command:
            return process
    return None


def end_host(storage: Path) -> None:
    process = host_process(storage)
    if process is not None:
        with suppress(psutil.NoSuchProcess):  # it may be ending by itself
            process.terminate()
        process.wait(LIMIT_S)
    runtime = HostPaths(storage).runtime
    assert not runtime.exists(), f"the host left {runtime} behind"
