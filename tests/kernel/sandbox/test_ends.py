"""Whatever a limit stops says which limit it was, what it is called and what to do; and the session goes on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright import Engine, Settings, open_engine
from tests.waiting import UNHURRIED, scaled

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class End:
    code: str
    state: str
    setting: str
    step: str
    timeout_s: float = scaled(60)

    @property
    def survives(self) -> bool:
        return self.state != "died"


ENDS = {
    "memory of one process": End(
        "x = b'x' * (1200 << 20)", "error", "max_session_memory", "CELLWRIGHT_MAX_SESSION_MEMORY"
    ),
    "memory of the tree": End(
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = b'x' * (180 << 20); time.sleep(600)\ntime.sleep(600)",
        "died",
        "max_session_memory",
        "CELLWRIGHT_MAX_SESSION_MEMORY",
    ),
    "processes": End(
        "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n        time.sleep(1); os._exit(0)",
        "error",
        "max_session_processes",
        "CELLWRIGHT_MAX_SESSION_PROCESSES",
    ),
    "threads": End(
        "import threading\ngo = threading.Event()\ntry:\n    for _ in range(200): threading.Thread(target=go.wait, daemon=True).start()\nfinally:\n    go.set()",
        "error",
        "max_session_processes",
        "CELLWRIGHT_MAX_SESSION_PROCESSES",
    ),
    "open files": End(
        "fs = []\ntry:\n    while True: fs.append(open('/dev/null'))\nfinally:\n    for f in fs: f.close()",
        "error",
        "max_session_open_files",
        "CELLWRIGHT_MAX_SESSION_OPEN_FILES",
    ),
    "the size of a file": End(
        "import os\ntry:\n    with open('big', 'wb') as f:\n        f.truncate(99 << 20); f.seek(0, 2)\n        for _ in range(10): f.write(b'x' * (1 << 20)); f.flush()\nfinally:\n    os.unlink('big')",
        "error",
        "max_session_disk",
        "Delete files",
    ),
    "processor time": End("while True: pass", "died", "max_session_cpu_s", "CELLWRIGHT_MAX_SESSION_CPU_S"),
    "wall time": End(
        "import time; time.sleep(600)", "timeout", "cell_timeout_s", "longer timeout", timeout_s=1
    ),
    "the network by address": End(
        "import socket; socket.create_connection(('192.0.2.1', 80), 5)",
        "error",
        "network",
        "CELLWRIGHT_ALLOW_NETWORK",
    ),
    "the network by name": End(
        "import urllib.request; urllib.request.urlopen('http://example.com/', timeout=5)",
        "error",
        "network",
        "CELLWRIGHT_ALLOW_NETWORK",
    ),
    "a forbidden system call": End(
        "import os; os.chroot('/')", "error", "unsafe_no_sandbox", "--unsafe-no-sandbox"
    ),
    "a file of the system": End("open('/usr/planted', 'w')", "error", "write_paths", "write_paths"),
}
CPU_S = 3
# Making a file on a busy machine's disk takes a quarter of a millisecond of the processor: far from the limit above.
FILES = 1_000


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("ends")
    settings = Settings(
        root=root,
        storage=root / "state",
        max_sessions=40,
        max_session_cpu_s=CPU_S,
        max_session_files=FILES,
        **UNHURRIED,
    )
    async with open_engine(settings) as engine:
        yield engine
        await engine.close(stop_host=True)


@pytest.mark.parametrize("name", ENDS)
async def test_a_limit_explains_itself_and_the_session_goes_on(engine: Engine, name: str) -> None:
    end = ENDS[name]
    session = await engine.create("ends", mode="private")
    assert (await (await session.execute_code("kept = 7")).wait()).ok
    execution = await (await session.execute_code(end.code, timeout_s=end.timeout_s)).wait()
    assert execution.state == end.state, (execution.text, execution.reason)
    assert end.setting in (execution.reason or ""), (execution.text, execution.reason)
    assert end.step in (execution.reason or "")
    after = await (await session.execute_code("print(1 + 1)")).wait()
    assert after.text == "2\n", (after.state, after.reason)
    if end.survives:
        assert (await (await session.execute_code("assert kept == 7")).wait()).ok, "its variables are there"
    await engine.delete(session.id)


# Once it is over the quota it waits to be ended; left alone it would go on.
FILL = """
import time
for i in range(6):
    with open(f'fill{i}', 'wb') as file: file.write(b'x' * (60 << 20))
    if i: time.sleep(600)
"""
FILLS = {
    "max_session_disk": FILL,
    "max_session_files": f"import os\nos.mkdir('fill')\nfor i in range({FILES + FILES // 4}): os.close(os.open(f'fill/{{i}}', os.O_CREAT, 0o600))",
}
QUOTA, GOAL = 100 << 20, 360 << 20


@pytest.mark.parametrize(
    ("mode", "setting"),
    [
        ("private", "max_session_disk"),
        ("overlay", "max_session_files"),
        ("direct", "max_session_disk"),
        pytest.param("private", "max_session_files", marks=pytest.mark.matrix),
        pytest.param("overlay", "max_session_disk", marks=pytest.mark.matrix),
        pytest.param("direct", "max_session_files", marks=pytest.mark.matrix),
    ],
)
async def test_a_full_working_directory_explains_itself(
    engine: Engine, mode: str, setting: str, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("full", mode=mode, directory=tmp_path)
    size = await (
        await session.execute_code("import os; v = os.statvfs('.'); print(v.f_blocks * v.f_frsize)")
    ).wait()
    fill = f"{FILLS[setting]}\nimport time; time.sleep(600)"
    execution = await (await session.execute_code(fill, timeout_s=scaled(60))).wait()
    assert execution.state in ("died", "error")
    assert setting in (execution.reason or ""), (execution.text, execution.reason)
    assert "elete files" in (execution.reason or "")
    # Where the quota is a file system's size nothing goes beyond it; where it is watched, it is noticed in time.
    most = QUOTA * 1.05 if int(size.text) <= 2 * QUOTA else GOAL
    assert _stored(tmp_path) + _stored(engine.settings.storage / "sessions") < most
    free = "import shutil, glob, os\nshutil.rmtree('fill', True)\nfor f in glob.glob('fill*'): os.unlink(f)\nprint('freed')"
    freed = await (await session.execute_code(free)).wait()
    assert freed.text == "freed\n", (freed.state, freed.reason)
    assert (await (await session.execute_code("open('small', 'w').write('x')")).wait()).ok
    await engine.delete(session.id)


def _stored(directory: Path) -> int:
    """What the host's disk holds. Files are still being saved there, and others let go."""
    total = 0
    for place, directories, files in os.walk(directory):
        for name in (*directories, *files):
            with suppress(FileNotFoundError):
                total += Path(place, name).lstat().st_blocks * 512
    return total


async def test_dying_at_the_quota_gives_no_more_of_it(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("again", mode="direct", directory=tmp_path)
    assert (await (await session.execute_code(FILL, timeout_s=scaled(60))).wait()).state == "died"
    more = "open('more', 'wb').write(b'x' * (40 << 20))\nimport time; time.sleep(600)"
    execution = await (await session.execute_code(more, timeout_s=scaled(60))).wait()
    assert execution.state == "died", "what a dead kernel left counts on"
    assert "max_session_disk" in (execution.reason or "")
    await engine.delete(session.id)
