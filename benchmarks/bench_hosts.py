"""What a session costs where it lives: the figures that ``docs/guides/scale.md`` reckons with.

Nothing is claimed here. Memory is the proportional set size, processes and descriptors are counted, and each figure is
what so many sessions add, divided by their number. On this machine kernels are forks of one warm process; in an
allocation each is a job step with a fork server of its own (left out, and said so, without root and SLURM).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import psutil

from cellwright import Engine, Session, open_engine
from jobs import job_processes, pss_bytes
from measuring import MB, Bench, host_pid, main, settled, tree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.slurm.cluster import MISSING_HINT, Cluster, missing_programs

USE_PANDAS = "import pandas as pd; float(pd.DataFrame({'a': range(1000)})['a'].mean())"
QUESTIONS = 10


@dataclass(frozen=True, slots=True)
class Cost:
    """What processes have at one time."""

    memory: int
    processes: int
    descriptors: int
    engine: int
    """Memory of the process that asks, which is the daemon elsewhere."""
    engine_descriptors: int

    def less(self, other: Cost, each: int) -> str:
        return (
            f"{(self.memory - other.memory) / each / MB:.1f} MB, "
            f"{(self.processes - other.processes) / each:.1f} processes, "
            f"{(self.descriptors - other.descriptors) / each:.0f} descriptors of the host; daemon: "
            f"{(self.engine - other.engine) / each / MB:.2f} MB, "
            f"{(self.engine_descriptors - other.engine_descriptors) / each:.1f} descriptors"
        )


async def measure(bench: Bench) -> None:
    many = bench.size(20, 4)
    async with open_engine(
        bench.settings(max_sessions=many + 1, standby_kernels=0), ephemeral=True
    ) as engine:
        first = await _session(engine, "local")
        await _measure_costs(
            bench, engine, "local", many, lambda: tree(host_pid(engine)), lambda: host_pid(engine)
        )
        await _measure_journal(bench, engine, first, bench.size(500, 50))
    missing = missing_programs()
    if missing:
        bench.say(
            f"SKIPPED, no allocation is measured: this needs root and SLURM, and lacks {', '.join(missing)}"
        )
        bench.say(f"hint: {MISSING_HINT}")
        return
    cluster = Cluster()
    try:
        await anyio.to_thread.run_sync(cluster.up)
        os.environ.update(cluster.env)
        await _measure_allocation(bench, min(many, 16))
    finally:
        cluster.down()


async def _measure_costs(
    bench: Bench,
    engine: Engine,
    host: str,
    many: int,
    find: Callable[[], list[psutil.Process]],
    owner: Callable[[], int],
) -> None:
    """Memory, processes and descriptors that sessions add on a host, which has one already."""
    before = await _cost(find, owner())
    sessions = [await _session(engine, host) for _ in range(many)]
    empty = await _cost(find, owner())
    bench.inform(f"{host}: a session adds", empty.less(before, many))
    for session in sessions:
        await _run(session, USE_PANDAS)
    used = await _cost(find, owner())
    bench.inform(f"{host}: pandas in it adds", f"{(used.memory - empty.memory) / many / MB:.1f} MB")
    for session in sessions:
        await engine.delete(session.id, remove_file=True)


async def _cost(find: Callable[[], list[psutil.Process]], owner: int) -> Cost:
    await settled(find, lambda _: True)
    found = find()
    us = psutil.Process()
    return Cost(
        pss_bytes(found), len(found), psutil.Process(owner).num_fds(), us.memory_full_info().pss, us.num_fds()
    )


async def _measure_journal(bench: Bench, engine: Engine, session: Session, many: int) -> None:
    before, begun = _bytes(engine.settings.storage), time.perf_counter()
    for _ in range(many):
        await _run(session, "1+1")
    seconds = time.perf_counter() - begun
    await anyio.sleep(1)  # the journal is written behind
    added = _bytes(engine.settings.storage) - before
    events = len(engine.events(since=0, session_id=session.id))
    bench.inform("an execution of 1+1 adds to the storage", f"{added / many / 1000:.1f} kB")
    bench.inform("events of it", f"{events / many:.1f}")
    bench.inform("executions a second, one after the other", f"{many / seconds:.0f}")


async def _measure_allocation(bench: Bench, many: int) -> None:
    settings = bench.settings(
        storage=bench.directory / "state",
        standby_kernels=0,
        max_sessions=many + 1,
        max_session_memory="200MB",
        slurm_mem="3800M",
        slurm_cpus=4,
        slurm_wait_s=120,
    )
    async with open_engine(settings) as engine:
        alone = psutil.Process().memory_full_info().pss
        await _session(engine, "slurm")
        allocations = engine.hosts.provider("slurm").allocations
        (allocation,) = allocations.all()
        job_id = allocation.job_id or 0
        pipe = [one for one in psutil.Process().children(recursive=True) if one.name() == "srun"]
        bench.inform(
            "slurm: an allocation has on the login node",
            f"{len(pipe)} processes, {pss_bytes(pipe) / MB:.1f} MB; daemon: "
            f"{(psutil.Process().memory_full_info().pss - alone) / MB:.1f} MB",
        )
        host = next(one for one in job_processes(job_id) if "slurm.inside" in " ".join(one.cmdline()))
        bench.inform("slurm: its host, on the node", f"{host.memory_full_info().pss / MB:.1f} MB")
        await _measure_costs(bench, engine, "slurm", many, lambda: job_processes(job_id), lambda: host.pid)
        _measure_squeue(bench)
        await allocations.stop(allocation.key)
        await engine.hosts.close(stop_hosts=True)


def _measure_squeue(bench: Bench) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(QUESTIONS):
        subprocess.run(["squeue", "-h", "-u", str(os.getuid())], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    bench.inform("one squeue: processor time", f"{1000 * used / QUESTIONS:.1f} ms")


async def _session(engine: Engine, host: str) -> Session:
    session = await engine.create("cost", host=host)
    await _run(session, "1+1")
    return session


async def _run(session: Session, code: str) -> None:
    execution = await (await session.execute_code(code)).wait()
    assert execution.state == "ok", execution.text


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("journal.db*"))


if __name__ == "__main__":
    main(measure, __doc__)
