"""Whether this machine's host is gone, or only a connection to it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from cellwright.errors import HostStartError
from cellwright.hosts import HostPaths, LocalTransport, local
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostPaths:
    monkeypatch.setattr(local, "_DYING_S", 0.0)
    paths = HostPaths(tmp_path)
    paths.home.mkdir()
    return paths


@pytest.fixture
def lock(paths: HostPaths) -> Iterator[int]:
    """As the host holds it while it lives."""
    held = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    yield held
    os.close(held)


async def test_a_host_that_listens_to_nobody_is_waited_for_until_it_is_gone(
    paths: HostPaths, lock: int
) -> None:
    told: list[str | None] = []

    async def ask() -> None:
        told.append(await LocalTransport(paths).end())

    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            for _ in range(100):
                await checkpoint()
            assert told == []
            fcntl.flock(lock, fcntl.LOCK_UN)
    assert told == ["The process that owned the kernel went away"]


@pytest.mark.usefixtures("lock")
async def test_a_host_that_still_listens_has_lost_a_connection_alone(
    paths: HostPaths, tmp_path_factory: pytest.TempPathFactory
) -> None:
    address = tmp_path_factory.mktemp("s") / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        paths.current.write_text(json.dumps({"socket": str(address)}))
        assert await LocalTransport(paths).end() is None


@pytest.mark.usefixtures("lock")
def test_the_end_of_a_host_is_waited_for_and_not_that_of_the_next(
    paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_END_S", 0.0)
    paths.current.write_text(json.dumps({"pid": 7}))
    assert local.living_host(paths) == 7
    with pytest.raises(HostStartError, match="process 7"):
        local.await_end(paths, 7)
    local.await_end(paths, 6)  # a client has started the next one meanwhile
    # A host takes its name away before it lets go of the lock.
    paths.current.unlink()
    with pytest.raises(HostStartError, match="process 7"):
        local.await_end(paths, 7)
