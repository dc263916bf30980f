"""What runs leave on purpose is bounded; what an engine leaves that was killed in the middle of one, the next removes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cellwright import Settings
from cellwright.hosts import protocol
from cellwright.tools.data_directory import RUNS, DataDirectory
from cellwright.tools.scripts import OldRun, run_script, too_old
from tests.kernel.engine.conftest import OpenEngine

pytestmark = pytest.mark.anyio

# Runs something that it will not live to see the end of.
DOOMED = """
import anyio, sys
from pathlib import Path
from cellwright import Settings, open_engine
from cellwright.tools.scripts import run_script

async def main(root):
    async def hear(name, text):
        print(*engine._sessions, flush=True)
    settings = Settings(root=root, storage=root / "state", standby_kernels=0, host_idle_s=30)
    async with open_engine(settings) as engine:
        await run_script(engine, "print(1)\\nimport time\\ntime.sleep(1000)", on_output=hear)

anyio.run(main, Path(sys.argv[1]))
"""


async def test_a_killed_engine_leaves_a_run_that_the_next_one_removes(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    session_id = process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()
    storage = tmp_path / "state" / "sessions" / session_id
    assert storage.exists()
    async with open_here() as engine:
        assert engine._sessions == {}
        assert not storage.exists()
        status = await engine.hosts.local.call(protocol.Status(), protocol.Attached)
        assert status.kernels == ()
        assert (await run_script(engine, "print(2)")).stdout == "2\n"


async def test_only_the_newest_runs_keep_their_files(open_here: OpenEngine) -> None:
    async with open_here(max_kept_runs=2) as engine:
        runs = [await run_script(engine, f"open('{n}.txt', 'w').write('x')") for n in range(4)]
        with DataDirectory.of(engine).open(RUNS) as shelf:
            assert {entry.path for entry in shelf.list().entries} == {run.id for run in runs[2:]}


def test_runs_make_way_by_count_size_and_age(tmp_path: Path) -> None:
    settings = Settings(storage=tmp_path, max_kept_runs=4, max_kept_run_bytes=10 << 20, keep_runs_s=100)
    young = [OldRun("a", 990, 1), OldRun("b", 980, 1), OldRun("c", 970, 1), OldRun("d", 960, 1)]
    assert [run.name for run in too_old(young, settings, now=1_000)] == ["d"]
    large = [OldRun("a", 990, 6 << 20), OldRun("b", 980, 6 << 20)]
    assert [run.name for run in too_old(large, settings, now=1_000)] == ["b"]
    assert [run.name for run in too_old(young[:2], settings, now=1_085)] == ["b"]
