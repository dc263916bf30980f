"""What sessions in an allocation survive, as whoever uses the engine sees it: real faults of a real cluster.

A loop prints sixty lines and notes each in a file of its own first. Where the kernel lives on, all sixty arrive; where it
is ended, every line that it printed does, the session says why, and runs the loop again elsewhere. The deadlines are the
times that the guide states.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from cellwright import Engine, Settings, open_engine
from cellwright.engine import Execution, Session
from tests.kernel.engine.conftest import end_host
from tests.support.slurm.cluster import Cluster
from tests.support.slurm.layout import SLURMD_TIMEOUT_S
from tests.waiting import LIMIT_S, UNHURRIED, fail_after, scaled, until

pytestmark = pytest.mark.anyio

LINES = 60
BEFORE = 20
LOOP = f"""
import pathlib, time
printed = open('printed.txt', 'w')
for number in range({LINES}):
    print('line', number, file=printed, flush=True)
    print('line', number, flush=True)
    while number == {BEFORE - 1} and not pathlib.Path('gate').exists():
        time.sleep(0.01)
"""
ALL = [f"line {number}" for number in range(LINES)]
# Guards: how soon each is told is in the guide, and follows from the timers that it names.
TOLD_S = 60
NODE_S = SLURMD_TIMEOUT_S + 2 * TOLD_S


@dataclass
class Scene:
    """An engine with a session in an allocation, whose loop has printed the first lines and waits."""

    cluster: Cluster
    engine: Engine
    session: Session
    execution: Execution
    folder: Path

    @property
    def job_id(self) -> str:
        (allocation,) = self.engine.hosts.provider("slurm").allocations.all()
        return str(allocation.job_id)

    @property
    def node(self) -> str:
        return self.cluster.job(self.job_id)["NodeList"]

    def lines(self) -> list[str]:
        return [line for line in self.execution.text.splitlines() if line.startswith("line")]

    def printed(self) -> list[str]:
        """What the loop itself says that it printed."""
        return (self.folder / "printed.txt").read_text().splitlines()

    def go_on(self) -> None:
        (self.folder / "gate").touch()

    async def until(self, condition: Callable[[], object], limit_s: float) -> None:
        await until(condition, limit_s=limit_s)


def settings(root: Path, **changes: object) -> Settings:
    values = {
        "root": root,
        "storage": root / "state",
        "standby_kernels": 0,
        "max_session_memory": "300MB",
        "slurm_mem": "1500M",
        "slurm_cpus": 2,
        "slurm_time": "30",
        "slurm_wait_s": min(280, scaled(60)),
        "slurm_poll_s": 2,
        **UNHURRIED,
    }
    return Settings.model_validate(values | changes)


@pytest.fixture
def root(mended: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in mended.env.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@asynccontextmanager
async def playing(cluster: Cluster, root: Path, **changes: object) -> AsyncIterator[Scene]:
    async with open_engine(settings(root, **changes)) as engine:
        session, folder = await begun(engine, root), root / "work"
        cell = await session.add_cell(LOOP)
        execution = await session.execute(cell.id, timeout_s=600)
        scene = Scene(cluster, engine, session, execution, folder)
        await scene.until(lambda: len(scene.lines()) >= BEFORE, 60)
        yield scene
    end_host(root / "state")


async def begun(engine: Engine, root: Path) -> Session:
    return await engine.create("Survives", host="slurm", mode="direct", directory=root / "work")


async def ends_and_goes_on(scene: Scene, why: str, *, within_s: float = TOLD_S) -> None:
    """The kernel is lost, for this reason, with every line that it printed; the session goes on elsewhere."""
    await scene.until(lambda: scene.session.state == "suspended", within_s)
    assert why in (scene.session.reason or "")
    assert scene.execution.state == "died"
    assert scene.lines() == scene.printed()
    scene.cluster.restore()
    scene.go_on()
    again = await scene.session.run(scene.execution.cell_id or "", timeout_s=LIMIT_S)
    assert again.text.splitlines() == ALL


def put_lossy_sbatch(commands: Path, lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an ``sbatch`` whose answers are lost while the file ``lossy`` is there; what it is asked is done."""
    commands.mkdir()
    lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    script = f'said=$({shutil.which("sbatch")} "$@") || exit\n[ -e {lossy} ] && echo "{lost}" >&2 && exit 1\necho "$said"\n'
    (commands / "sbatch").write_text(f"#!/bin/sh\n{script}")
    (commands / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")


async def finishes(scene: Scene) -> None:
    scene.go_on()
    with fail_after():
        await scene.execution.wait()
    assert scene.execution.state == "ok", scene.execution.reason
    assert scene.lines() == ALL


async def test_a_cancelled_allocation_is_told_and_its_session_goes_on_in_another(
    mended: Cluster, root: Path
) -> None:
    async with playing(mended, root) as scene:
        mended.run("scancel", scene.job_id)
        await ends_and_goes_on(scene, "it was cancelled")


async def test_a_preempted_allocation_is_told_and_its_session_goes_on_in_another(
    mended: Cluster, root: Path
) -> None:
    async with playing(mended, root) as scene:
        mended.submit("sleep 600", "--partition=high", "--exclusive", "--nodes=3")
        await ends_and_goes_on(scene, "preempted")


async def test_an_allocation_at_its_time_limit_is_warned_of_told_and_left(
    mended: Cluster, root: Path
) -> None:
    async with playing(mended, root) as scene:
        # It has less from now on than it is to be warned of.
        mended.end_soon(scene.job_id, minutes=0)
        await scene.until(lambda: scene.session.record.expires_at is not None, 2 * TOLD_S)
        await ends_and_goes_on(scene, "time limit", within_s=4 * TOLD_S)


@pytest.mark.parametrize("answer", [pytest.param("heard", marks=pytest.mark.matrix), "lost"])
async def test_a_session_moves_before_the_time_limit_where_that_is_set(
    mended: Cluster, root: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    lossy = root / "lossy"
    put_lossy_sbatch(root / "commands", lossy, monkeypatch)
    async with playing(mended, root, slurm_on_expiry="move") as scene:
        if answer == "lost":
            lossy.touch()
        first = scene.session.record.on
        mended.end_soon(scene.job_id, minutes=3)
        await scene.until(lambda: scene.session.record.expires_at is not None, 2 * TOLD_S)
        await finishes(scene)
        await scene.until(lambda: scene.session.record.on != first and scene.session.last_replay, 120)
        assert scene.session.last_replay is not None
        await scene.session.last_replay.wait()
        assert "line 59" in (await run(scene.session, "open('printed.txt').read()")).text
        assert "59" in (await run(scene.session, "number")).text


async def test_a_kernel_out_of_memory_is_named_and_the_others_go_on(mended: Cluster, root: Path) -> None:
    async with playing(mended, root) as scene:
        greedy = await scene.engine.create("Greedy", host="slurm", mode="private")
        assert greedy.record.on == scene.session.record.on
        died = await run(
            greedy, "block = bytearray(5_000_000_000)\nfor i in range(0, len(block), 4096): block[i] = 1"
        )
        assert died.state in ("died", "error")
        assert "memory" in f"{died.reason} {died.error}".lower()
        assert (await run(greedy, "1 + 1")).ok
        await finishes(scene)


async def test_a_killed_slurmd_costs_nothing_while_its_node_is_given_time(
    mended: Cluster, root: Path
) -> None:
    async with playing(mended, root) as scene:
        mended.kill_slurmd(scene.node)
        await finishes(scene)
        mended.start_slurmd(scene.node)


@pytest.mark.matrix  # the preempted one goes the same way
async def test_a_node_that_fails_is_told_and_its_session_goes_on_in_another(
    mended: Cluster, root: Path
) -> None:
    async with playing(mended, root) as scene:
        node = scene.node
        mended.kill_slurmd(node)
        mended.cut(node)
        await ends_and_goes_on(scene, "node failed", within_s=NODE_S)


async def test_a_cut_network_is_told_and_heals_without_a_line_missing(mended: Cluster, root: Path) -> None:
    async with playing(mended, root) as scene:
        node = scene.node
        mended.cut(node)
        await scene.until(lambda: scene.session.host.away, TOLD_S)
        assert scene.session.state == "active"
        scene.go_on()
        await scene.until(lambda: scene.printed() == ALL, 60)
        mended.heal(node)
        await finishes(scene)
        await scene.until(lambda: scene.session.host.away is None, TOLD_S)


async def test_a_restarted_controller_costs_nothing(mended: Cluster, root: Path) -> None:
    async with playing(mended, root) as scene:
        mended.stop_controller()
        await finishes(scene)
        mended.start_controller()
        assert (await run(scene.session, "number")).text.strip() == "59"


async def test_a_killed_engine_finds_its_allocation_and_every_line_of_the_running_cell(
    mended: Cluster, root: Path
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.faults.test_survival", str(root)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | mended.env | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert child.stdout is not None
    with child.stdout:
        session_id, execution_id = child.stdout.readline().split()
    child.send_signal(signal.SIGKILL)
    child.wait()
    async with open_engine(settings(root)) as engine:
        execution = engine.execution(execution_id)
        scene = Scene(mended, engine, engine.session(session_id), execution, root / "work")
        await finishes(scene)
    end_host(root / "state")


async def run(session: Session, source: str) -> Execution:
    cell = await session.add_cell(source)
    return await session.run(cell.id, timeout_s=LIMIT_S)


async def _be_killed(root: Path) -> None:
    async with open_engine(settings(root)) as engine:
        session = await begun(engine, root)
        cell = await session.add_cell(LOOP)
        execution = await session.execute(cell.id, timeout_s=600)
        while len(execution.text.splitlines()) < BEFORE:
            await anyio.sleep(0.05)
        sys.stdout.write(f"{session.id} {execution.id}\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(_be_killed, Path(sys.argv[1]))
