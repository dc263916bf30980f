"""Engines on real hosts and real kernels, each in a directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from cellwright import Engine, Settings, open_engine
from cellwright.hosts import HostPaths, local
from tests.kernel.sandbox.conftest import open_root
from tests.support.hosts.forking import ForkedHosts, line
from tests.waiting import LIMIT_S, UNHURRIED

__all__ = ["OpenEngine", "end_host", "forked_hosts", "host_process", "open_at", "open_root"]

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture(scope="session", autouse=True)
def forked_hosts() -> Iterator[None]:
    """Hosts are forks, since few tests are about how one starts: ``kernel/sandbox`` and ``kernel/hosts`` start them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "subprocess", ForkedHosts(line))
        yield


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


@pytest.fixture(scope="session")
async def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """One engine for all tests of a process that leave it usable."""
    async with open_anew(tmp_path_factory) as engine:
        yield engine


@pytest.fixture(scope="module")
async def engine(
    request: pytest.FixtureRequest, shared_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Engine]:
    """The engine of all tests, empty for each module; a module with settings of its own has an engine of its own.

    A module's ``PRELOAD`` is imported once for all its kernels: what most of them would import, each for itself.
    Its ``ENGINE_SETTINGS`` are the engine's.
    """
    changes = dict(getattr(request.module, "ENGINE_SETTINGS", {}))
    if preload := getattr(request.module, "PRELOAD", ()):
        changes["preload"] = preload
    if changes:
        async with open_anew(tmp_path_factory, **changes) as engine:
            yield engine
        return
    yield shared_engine
    await empty(shared_engine)


async def empty(engine: Engine) -> None:
    """Leave nothing of a module's behind for the next one."""
    for session in engine.sessions():
        await engine.delete(session.id, remove_file=True)


@asynccontextmanager
async def open_anew(tmp_path_factory: pytest.TempPathFactory, **changes: object) -> AsyncIterator[Engine]:
    """Open an engine in a directory of its own, with room for the sessions of many tests."""
    root = tmp_path_factory.mktemp("engine")
    async with open_at(root, **{"max_sessions": 1_000, **changes}) as engine:
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
    paths = HostPaths(storage)
    last_words = paths.log.read_text()[-2_000:] if paths.log.exists() else "it has no log"
    assert not paths.runtime.exists(), f"the host {process} left {paths.runtime} behind: {last_words}"
