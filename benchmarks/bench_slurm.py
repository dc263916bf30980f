"""Sessions in a SLURM allocation: against sessions on this machine, and against a Jupyter server in a batch job.

The cluster is a real one of three nodes on this machine (``tests/support/slurm/cluster.py``); without root or SLURM nothing is
measured, and that is said. Ours is ``engine.create`` and ``1+1`` up to its journalled result, on an engine that is open.

- *Later sessions*: the same call with ``host="slurm"`` and ``host="local"``, one after the other, with kernels standing
  by on both sides as the settings come.
- *A fresh allocation*: from the call to the result, with ``sbatch``, the queue and the host's start. The baseline is
  jlab-mcp's way (``serverjobs``) with its own pauses; the same without them is told as well.
- *Per cell*: a cell is added to a notebook and run. Ours keeps a journal and writes the file when it goes quiet; the
  baseline reads and writes it before and after. The bare round trip is told as well.
- *Twenty kernels*: sessions at once in one allocation, each a job step with memory of its own, against as many here.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from cellwright import Engine, Session, open_engine
from cellwright.slurm._directories import Allocation
from jobs import job_processes, kernel_count, login_processes, pss_bytes
from measuring import MB, Bench, alternate, host_pid, main, milliseconds, quiet, settled, tree
from serverjobs import AS_IT_IS, EAGER, Pace, RemoteKernel, ServerJob, servers_environment

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.slurm.cluster import MISSING_HINT, Cluster, missing_programs  # beside the tests

STANDBY = 2
SHAPE = {"slurm_mem": "3800M", "slurm_cpus": 4, "slurm_time": "60", "slurm_wait_s": 120}
# As many fit into a node of the cluster, with those that stand by.
KERNEL_MEMORY = "160MB"
KERNELS = 20
_numbers = count()


async def measure(bench: Bench) -> None:
    missing = missing_programs()
    if missing:
        bench.say(f"SKIPPED, nothing is measured: this needs root and SLURM, and lacks {', '.join(missing)}")
        bench.say(f"hint: {MISSING_HINT}")
        return
    servers_environment()
    cluster = Cluster()
    try:
        await anyio.to_thread.run_sync(cluster.up)
        # From here on this process and its children use the cluster.
        os.environ.update(cluster.env)
        bench.say(f"one-minute load as it begins: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        await _measure_fresh(bench, cluster)
        await _measure_running(bench, cluster)
        await _measure_many(bench)
        bench.say(f"one-minute load as it ends: {os.getloadavg()[0]:.1f}")
    finally:
        cluster.down()


@asynccontextmanager
async def _engine(bench: Bench, name: str, **changes: object) -> AsyncIterator[Engine]:
    """An engine that lasts, as only those have allocations; what it asked for ends with it."""
    values = {"storage": bench.directory / name, "standby_kernels": STANDBY, **SHAPE, **changes}
    async with open_engine(bench.settings(**values)) as engine:
        try:
            yield engine
        finally:
            with anyio.CancelScope(shield=True):
                await _stop_allocations(engine)
                await engine.hosts.close(stop_hosts=True)


async def _stop_allocations(engine: Engine) -> None:
    allocations = engine.hosts.provider("slurm").allocations
    for one in allocations.all():
        await allocations.stop(one.key)


def _allocation(engine: Engine) -> Allocation:
    (found,) = engine.hosts.provider("slurm").allocations.all()
    return found


async def _answering(engine: Engine, host: str) -> Session:
    session = await engine.create(f"bench {next(_numbers)}", host=host)
    execution = await (await session.execute_code("1+1")).wait()
    assert execution.text == "2\n", execution.text
    return session


# A fresh allocation --------------------------------------------------------------------------------------------------


async def _measure_fresh(bench: Bench, cluster: Cluster) -> None:
    async with _engine(bench, "fresh") as engine:
        times = await alternate(
            bench.size(7, 1),
            {
                "ours": lambda: _fresh_allocation(engine, cluster),
                "peer": lambda: _fresh_server(bench, cluster, AS_IT_IS),
                "eager": lambda: _fresh_server(bench, cluster, EAGER),
            },
        )
    bench.faster("fresh allocation: first result (jlab-mcp's way)", times["ours"], times["peer"], at_least=5)
    _inform(bench, "the same, baseline without its pauses", times["ours"], times["eager"])


async def _fresh_allocation(engine: Engine, cluster: Cluster) -> float:
    begun = time.perf_counter()
    session = await _answering(engine, "slurm")
    seconds = time.perf_counter() - begun
    await engine.delete(session.id, remove_file=True)
    await _stop_allocations(engine)
    await anyio.to_thread.run_sync(cluster.wait_idle)
    return seconds


async def _fresh_server(bench: Bench, cluster: Cluster, pace: Pace) -> float:
    def first_result() -> tuple[float, ServerJob]:
        begun = time.perf_counter()
        server = _start_server(bench, cluster, pace)
        kernel = server.start_kernel(pace)
        assert kernel.run_cell("1+1") == "2"
        return time.perf_counter() - begun, server

    seconds, server = await anyio.to_thread.run_sync(first_result)
    server.cancel()
    await anyio.to_thread.run_sync(cluster.wait_idle)
    return seconds


def _start_server(bench: Bench, cluster: Cluster, pace: Pace) -> ServerJob:
    home = bench.directory / f"server-{next(_numbers)}"
    options = [f"--mem={SHAPE['slurm_mem']}", f"--cpus-per-task={SHAPE['slurm_cpus']}", "--time=60"]
    return ServerJob.start(home, pace, options, cluster.layout.address)


# An allocation that runs ---------------------------------------------------------------------------------------------


async def _measure_running(bench: Bench, cluster: Cluster) -> None:
    async with _engine(bench, "running", max_session_memory=KERNEL_MEMORY) as engine:
        there, here = await _answering(engine, "slurm"), await _answering(engine, "local")
        times = await alternate(
            bench.size(15, 2),
            {
                "there": lambda: _first_result(engine, "slurm"),
                "here": lambda: _first_result(engine, "local"),
            },
        )
        _at_most(bench, "later sessions: first result (local)", times["there"], times["here"], 3)
        server = await anyio.to_thread.run_sync(_start_server, bench, cluster, EAGER)
        try:
            kernel = await anyio.to_thread.run_sync(server.start_kernel, EAGER)
            await _measure_cells(bench, there, here, kernel)
        finally:
            server.cancel()


async def _first_result(engine: Engine, host: str) -> float:
    await _ready(engine)
    begun = time.perf_counter()
    session = await _answering(engine, host)
    seconds = time.perf_counter() - begun
    events = engine.events(since=0, session_id=session.id)
    started_by = [event.data["started_by"] for event in events if "started_by" in event.data]
    assert started_by == ["standby"], f"the kernel was started by {started_by}"
    await engine.delete(session.id, remove_file=True)
    return seconds


async def _ready(engine: Engine) -> None:
    """Wait until what stands by does so, here and there."""
    await quiet(host_pid(engine), processes=2 + STANDBY)
    job_id = _allocation(engine).job_id or 0
    sessions = sum(session.record.on != "local" for session in engine.sessions("active"))
    await settled(lambda: job_processes(job_id), lambda found: kernel_count(found) >= sessions + STANDBY)


async def _measure_cells(bench: Bench, there: Session, here: Session, kernel: RemoteKernel) -> None:
    rounds = bench.size(60, 5)
    bare = await alternate(
        rounds,
        {
            "there": lambda: _timed(partial(_bare, there)),
            "here": lambda: _timed(partial(_bare, here)),
            "peer": lambda: _timed(partial(_in_thread, kernel.run)),
        },
    )
    cells = await alternate(
        rounds,
        {
            "there": lambda: _timed(partial(_cell, there)),
            "peer": lambda: _timed(partial(_in_thread, kernel.run_cell)),
        },
    )
    _at_most(bench, "1+1 (local)", bare["there"], bare["here"], 2)
    bench.faster("a cell of a notebook (jlab-mcp's way)", cells["there"], cells["peer"], at_least=2)
    _inform(bench, "1+1 and no notebook (bare WebSocket)", bare["there"], bare["peer"])


async def _timed(act: Callable[[], Awaitable[str]]) -> float:
    begun = time.perf_counter()
    text = await act()
    seconds = time.perf_counter() - begun
    assert text.strip() == "2", text
    return seconds


async def _bare(session: Session) -> str:
    return (await (await session.execute_code("1+1")).wait()).text


async def _cell(session: Session) -> str:
    cell = await session.add_cell("1+1")
    return (await session.run(cell.id)).text


async def _in_thread(run: Callable[[str], str]) -> str:
    return await anyio.to_thread.run_sync(run, "1+1")


# Many kernels --------------------------------------------------------------------------------------------------------


async def _measure_many(bench: Bench) -> None:
    kernels = bench.size(KERNELS, 4)
    settings = {"max_session_memory": KERNEL_MEMORY, "max_sessions": 2 * kernels + 2}
    async with _engine(bench, "many", **settings) as engine:
        # The allocation runs, and this machine's host too.
        for host in ("slurm", "local"):
            await engine.delete((await _answering(engine, host)).id, remove_file=True)
        await _ready(engine)
        there_s, there = await _at_once(engine, "slurm", kernels)
        here_s, _ = await _at_once(engine, "local", kernels)
        job_id = _allocation(engine).job_id or 0
        texts = [await _bare(session) for session in there]
        right = sum(text == "2\n" for text in texts)
        found = job_processes(job_id)
        bench.claim(
            f"{kernels} kernels in one allocation answer",
            f"{right} right",
            target=f"{kernels} right",
            passed=right == kernels,
        )
        bench.inform(
            f"{kernels} started at once (local)",
            milliseconds(there_s),
            milliseconds(here_s),
            f"{there_s / here_s:.2f}x",
        )
        local = pss_bytes(tree(host_pid(engine)))
        bench.inform(
            "memory of each, its share of the host included (local)",
            f"{pss_bytes(found) / kernels / MB:.1f} MB",
            f"{local / kernels / MB:.1f} MB",
        )
        login = login_processes(os.getpid())
        bench.inform("processes on the login node for it", f"{len(login)}: {pss_bytes(login) / MB:.1f} MB")


async def _at_once(engine: Engine, host: str, many: int) -> tuple[float, list[Session]]:
    sessions: list[Session] = []

    async def one() -> None:
        sessions.append(await _answering(engine, host))

    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(many):
            tasks.start_soon(one)
    return time.perf_counter() - begun, sessions


# Lines of the table --------------------------------------------------------------------------------------------------


def _at_most(bench: Bench, what: str, ours_s: list[float], baseline_s: list[float], times: float) -> None:
    ours, baseline = statistics.median(ours_s), statistics.median(baseline_s)
    bench.claim(
        what,
        milliseconds(ours),
        milliseconds(baseline),
        f"{ours / baseline:.2f}x",
        target=f"<= {times:g}x",
        passed=ours <= times * baseline,
    )
    _spread(bench, what, ours_s, baseline_s)


def _inform(bench: Bench, what: str, ours_s: list[float], baseline_s: list[float]) -> None:
    ours, baseline = statistics.median(ours_s), statistics.median(baseline_s)
    bench.inform(what, milliseconds(ours), milliseconds(baseline), f"{baseline / ours:.2f}x")


def _spread(bench: Bench, what: str, *series: list[float]) -> None:
    """How far the quarters lie apart: what neighbours did to it."""
    quarters = [statistics.quantiles(one, n=4) for one in series if len(one) > 1]
    told = ", ".join(f"{milliseconds(low)}..{milliseconds(high)}" for low, _, high in quarters)
    bench.say(f"   middle half of {what}: {told}")


if __name__ == "__main__":
    main(measure, __doc__)
