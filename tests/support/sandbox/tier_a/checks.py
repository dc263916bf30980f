"""What tier A promises, seen on a machine that has it. Not collected with the rest: ``booting`` runs it in a guest."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest

from cellwright import Engine, Session, Settings, open_engine
from cellwright.sandbox.cgroups import HOME, owner_of
from cellwright.sandbox.probe import try_isolation

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

LIMIT = 256 << 20
# What one process may map is limited beside it, some 200 MB above: more than that is a MemoryError.
HOGS = {
    "one process": "x = bytearray(320 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1",
    "many processes": (
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = b'x' * (100 << 20); time.sleep(600)\n"
        "time.sleep(600)"
    ),
    "files in memory": (
        "import time\nopen('/tmp/a', 'wb').write(b'x' * (60 << 20)); open('/dev/shm/b', 'wb').write(b'x' * (60 << 20))\n"
        "x = b'x' * (200 << 20); time.sleep(600)"
    ),
}
FORKS = "import os, time\ntry:\n    for _ in range(200):\n        if os.fork() == 0: time.sleep(600)\n"
THREADS = "import threading\nfor _ in range(200): threading.Thread(target=threading.Event().wait, daemon=True).start()"


def _settings(root: Path) -> Settings:
    return Settings(
        root=root,
        storage=root / "state",
        max_session_memory=LIMIT,
        max_session_processes=64,
        max_session_cpus=0.5,
        standby_kernels=1,
        host_idle_s=60,
        start_timeout_s=300,
        cell_timeout_s=600,
        max_memory_fraction=1.0,
    )


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    async with open_engine(_settings(tmp_path_factory.mktemp("a"))) as engine:
        yield engine
        await engine.close(stop_host=True)


@pytest.fixture
async def session(engine: Engine) -> AsyncIterator[Session]:
    session = await engine.create("a", mode="private")
    yield session
    await engine.delete(session.id)


def test_the_trial_finds_tier_a_and_loses_nothing() -> None:
    found = try_isolation()
    assert (found.tier, found.losses, found.reasons) == ("A", (), ())
    assert found.groups is not None
    assert found.groups.controllers == {"memory", "pids", "cpu"}
    assert Path("/proc/self/cgroup").read_text() == f"0::/{_given().name}/{HOME}\n"


async def test_every_process_of_a_kernel_is_in_a_group_with_its_limits(
    engine: Engine, session: Session
) -> None:
    assert session.tier == "A"
    with anyio.fail_after(300):
        while len(_groups()) < 2:  # the session's, and one that stands by
            await anyio.sleep(0.1)
    for group in _groups():
        told = {
            name: (group / name).read_text().strip() for name in ("memory.max", "memory.swap.max", "pids.max")
        }
        assert told == {"memory.max": str(LIMIT), "memory.swap.max": "0", "pids.max": "64"}
        assert (group / "memory.oom.group").read_text() == "0\n"
        assert (group / "cpu.max").read_text() == "50000 100000\n"
    assert _outside_of_groups(engine.settings.storage) == []


async def test_a_spawned_kernel_is_in_a_group_too(engine: Engine) -> None:
    before = set(_groups())
    spec = {"kernelspec": {"name": "python3", "language": "other", "display_name": "x"}}
    path = engine.settings.root / "spawned.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": spec, "nbformat": 4, "nbformat_minor": 5}))
    session = await engine.open(path, mode="direct")
    assert (await (await session.execute_code("1 + 1")).wait()).ok
    assert set(_groups()) > before
    assert _outside_of_groups(engine.settings.storage) == []
    ended = await (await session.execute_code(HOGS["many processes"])).wait()
    assert (ended.state, "max_session_memory" in (ended.reason or "")) == ("died", True)
    await engine.delete(session.id)


@pytest.mark.parametrize("code", HOGS.values(), ids=HOGS)
async def test_a_session_over_its_memory_is_ended_alone_and_told_why(
    engine: Engine, session: Session, code: str
) -> None:
    neighbour = await engine.create("neighbour", mode="private")
    await (await neighbour.execute_code("x = 1")).wait()
    ended = await (await session.execute_code(code)).wait()
    assert ended.state == "died"
    assert "needed more than its 256 MB of memory (max_session_memory)" in (ended.reason or "")
    again = await (await neighbour.execute_code("x")).wait()
    assert (again.text, again.generation) == ("1\n", 1)
    assert (await (await session.execute_code("1")).wait()).generation == 2
    await engine.delete(neighbour.id)


async def test_too_many_threads_are_refused_and_explained_and_the_session_goes_on(session: Session) -> None:
    refused = await (await session.execute_code(THREADS)).wait()
    assert refused.error is not None
    assert "max_session_processes" in (refused.reason or "")
    assert (await (await session.execute_code("1")).wait()).generation == 1


async def test_a_kernel_that_aborts_when_processes_are_refused_is_explained(session: Session) -> None:
    code = FORKS + "except BlockingIOError: os.abort()"
    ended = await (await session.execute_code(code)).wait()
    assert ended.state == "died"
    assert "refused to its session, which may have 64 at once (max_session_processes)" in (ended.reason or "")


async def test_a_share_of_the_processors_is_kept_to(session: Session) -> None:
    await (await session.execute_code("import time\nwhile time.process_time() < 3: pass")).wait()
    throttled = [
        int(line.split()[1]) for group in _groups() for line in _lines(group, "cpu.stat", "nr_throttled")
    ]
    assert max(throttled) > 0


async def test_a_deleted_session_leaves_no_group(engine: Engine) -> None:
    before = len(_groups())
    sessions = [await engine.create("b", mode="private") for _ in range(3)]
    for session in sessions:
        await (await session.execute_code("import subprocess; subprocess.Popen(['sleep', '600'])")).wait()
        await engine.delete(session.id)
    with anyio.fail_after(120):
        while len(_groups()) > before:
            await anyio.sleep(0.1)


async def test_what_a_killed_host_leaves_is_swept_by_the_next(tmp_path: Path) -> None:
    async with open_engine(_settings(tmp_path)) as engine:
        session = await engine.create("c", mode="private")
        host = _host(engine.settings.storage)
        left = [group for group in _groups() if (owner_of(group.name) or _NOBODY).pid == host.pid]
        assert left
        host.kill()
        with anyio.fail_after(300):
            while not (await (await session.execute_code("1")).wait()).ok:
                pass
        assert not any(group.exists() for group in left)
        await engine.close(stop_host=True)


class _Nobody:
    pid = 0


_NOBODY = _Nobody()


def _given() -> Path:
    return Path(f"/sys/fs/cgroup/given-{os.getuid()}")


def _groups() -> list[Path]:
    return [path for path in _given().iterdir() if path.is_dir() and path.name != HOME]


def _lines(group: Path, name: str, key: str) -> list[str]:
    return [line for line in (group / name).read_text().splitlines() if line.startswith(key)]


def _host(storage: Path) -> psutil.Process:
    return next(
        process
        for process in psutil.process_iter(["cmdline"])
        if "cellwright.hosts" in (process.info["cmdline"] or []) and str(storage) in process.info["cmdline"]
    )


def _outside_of_groups(storage: Path) -> list[str]:
    """Processes below the host, other than fork servers, that are in no kernel's group."""
    found = []
    for process in _host(storage).children(recursive=True):
        group = Path(f"/proc/{process.pid}/cgroup").read_text().strip()
        if group.endswith(HOME) and "--channel" not in process.cmdline():
            found.append(f"{process.pid} {process.cmdline()}")
    return found
