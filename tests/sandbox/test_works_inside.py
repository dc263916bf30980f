"""What people do in notebooks works inside the sandbox, and what one session does costs no other."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest
from tests.conftest import Require

from cellwright import Engine, Settings, open_engine

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

WORKS = {
    "files": "open('a.txt', 'w').write('x'); assert open('a.txt').read() == 'x'",
    "temporary files": "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x')",
    "subprocess": "import subprocess; assert subprocess.run(['echo', 'hi'], capture_output=True).stdout == b'hi\\n'",
    "shell": "out = !echo hi\nassert out == ['hi']",
    "multiprocessing": "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]",
    "queues": "import multiprocessing as m\nq = m.get_context('fork').Queue(); q.put(1); assert q.get() == 1; q.close(); q.join_thread()",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as S\ns = S(create=True, size=1000); s.buf[0] = 1; s.close(); s.unlink()",
    "sqlite": "import sqlite3; c = sqlite3.connect('d.db'); c.execute('create table t (x)'); c.commit(); c.close()",
    "threads": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "asyncio": "import asyncio; assert await asyncio.sleep(0, 1) == 1",
    "local sockets": "import socket\ns = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()).close(); s.close()",
    "copying": "import shutil; open('b.txt', 'w').close(); shutil.copy2('b.txt', 'c.txt')",
}
LIBRARIES = {
    "pandas": "import pandas as pd; pd.DataFrame({'x': [1, 2]}).to_csv('x.csv'); assert len(pd.read_csv('x.csv')) == 2",
    "matplotlib": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('p.png')",
    "scipy": "import scipy.linalg, numpy; scipy.linalg.inv(numpy.eye(50))",
    "sklearn": "from sklearn.linear_model import LinearRegression as L; L().fit([[1], [2]], [1, 2])",
}


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("inside")
    settings = Settings(root=root, storage=root / "state", max_sessions=200, host_idle_s=30)
    async with open_engine(settings) as engine:
        yield engine
        await engine.close(stop_host=True)


@pytest.mark.parametrize("code", WORKS.values(), ids=WORKS)
async def test_it_works_inside(engine: Engine, code: str) -> None:
    session = await engine.create("inside", mode="private")
    execution = await (await session.execute_code(code)).wait()
    assert execution.ok, (execution.error, execution.reason)
    await engine.delete(session.id)


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_library_works_inside(engine: Engine, name: str, require: Require) -> None:
    session = await engine.create("inside", mode="private")
    found = await (
        await session.execute_code(f"import importlib.util as u; print(u.find_spec({name!r}))")
    ).wait()
    require(name, found.text.strip() != "None", f"pip install {name}")
    execution = await (await session.execute_code(LIBRARIES[name], timeout_s=60)).wait()
    assert execution.ok, (execution.error, execution.reason)
    await engine.delete(session.id)


async def test_a_session_at_its_memory_limit_ends_alone(engine: Engine) -> None:
    greedy = await engine.create("greedy", mode="private")
    neighbours = [await engine.create("neighbour", mode="private") for _ in range(20)]
    hog = "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = b'x' * (180 << 20); time.sleep(20)\ntime.sleep(20)"
    ended = await greedy.execute_code(hog)
    failed = 0
    with anyio.fail_after(60):
        while not ended.done:
            runs = [await session.execute_code("1 + 1") for session in neighbours]
            failed += sum([not (await run.wait()).ok for run in runs])
    assert failed == 0
    assert ended.state == "died"
    assert "max_session_memory" in (ended.reason or "")
    assert [session.generation for session in neighbours] == [1] * 20
    for session in (greedy, *neighbours):
        await engine.delete(session.id)


async def test_a_hundred_sessions_leave_nothing_behind(engine: Engine) -> None:
    warm = await engine.create("warm", mode="private")
    await engine.delete(warm.id)
    await anyio.sleep(1)  # the standby pool fills again
    before = _remains(engine.settings.storage)
    for _ in range(20):
        sessions = [await engine.create("many", mode="private") for _ in range(5)]
        for session in sessions:
            await (await session.execute_code("open('x', 'w').close()")).wait()
        for session in sessions:
            await engine.delete(session.id)
    with anyio.fail_after(30):
        while _remains(engine.settings.storage) != before:
            await anyio.sleep(0.2)


def _remains(storage: Path) -> dict[str, object]:
    """What could be left of a session: processes, descriptors, mounts, files, sockets."""
    host = next(
        process
        for process in psutil.process_iter(["cmdline"])
        if "cellwright.hosts" in (process.info["cmdline"] or []) and str(storage) in process.info["cmdline"]
    )
    runtime = next(
        Path(c.laddr).parent for c in host.net_connections("unix") if str(c.laddr).endswith("host.sock")
    )
    return {
        "processes": len(host.children(recursive=True)),
        "fds": host.num_fds(),
        "mounts": len(Path("/proc/mounts").read_text().splitlines()),
        "runtime": sum(len(directories) for _, directories, _ in os.walk(runtime)),
        "storage": sorted(path.name for path in (storage / "sessions").glob("*")),
    }
