"""What checkpoints cost and save: against pickling the namespace with dill, and against running the cells again.

The notebook has ten cells: it imports pandas and builds 1 GB of frames. A checkpoint is ``session.checkpoint``, the state
and the files, until the engine has journalled it; dill writes the same frames into memory inside the same kernel. A
rollback, a replay and a branch each count until a first result from the state that they made. Branches are made eight
at once; eight replays run one after another in new kernels, as many at once as the machine has processors.
"""

from __future__ import annotations

import os
import statistics
import time
from functools import partial
from itertools import count

import anyio

from cellwright import Engine, Session, open_engine
from measuring import MB, Bench, alternate, host_pid, main, milliseconds, quiet, tree_pss_bytes

FRAMES = 8
BRANCHES = 8
DILL = """
import dill, io, time
begun = time.perf_counter()
sink = io.BytesIO()
dill.dump({name: value for name, value in globals().items() if name.startswith("frame")}, sink)
print(time.perf_counter() - begun)
del sink
"""


def notebook(total_bytes: int) -> list[str]:
    """Ten cells that build frames of this size together."""
    rows = total_bytes // FRAMES // 8 // 10
    build = "pd.DataFrame(rng.standard_normal((ROWS, 10)), columns=list('abcdefghij'))".replace(
        "ROWS", str(rows)
    )
    return [
        "import numpy as np\nimport pandas as pd",
        "rng = np.random.default_rng(1)",
        *(f"frame{number} = {build}" for number in range(FRAMES)),
    ]


async def measure(bench: Bench) -> None:
    size = bench.size(1000 * MB, 50 * MB)
    settings = bench.settings(
        standby_kernels=0, max_cells=10_000, max_session_memory=6 * size, max_checkpoint_memory=20 * size
    )
    async with open_engine(settings, ephemeral=True) as engine:
        cells = notebook(size)
        session = await _built(engine, cells)
        await _measure_checkpoint(bench, engine, session)
        await _measure_rollback(bench, engine, session, cells)
        await _measure_branches(bench, engine, session, cells)
        await engine.delete(session.id, remove_file=True)
        await _measure_plan_cells(bench, engine)


async def _built(engine: Engine, cells: list[str]) -> Session:
    session = await engine.create("checkpoints", mode="private")
    for source in cells:
        await _run(session, source)
    return session


async def _run(session: Session, source: str) -> str:
    execution = await (await session.execute_code(source)).wait()
    assert execution.ok, execution.text
    return execution.text


async def _measure_checkpoint(bench: Bench, engine: Engine, session: Session) -> None:
    names = count()

    async def ours() -> float:
        begun = time.perf_counter()
        kept = await session.checkpoint(f"bench{next(names)}")
        took = time.perf_counter() - begun
        await session.drop_checkpoint(kept.id)
        return took

    async def dills() -> float:
        return float(await _run(session, DILL))

    times = await alternate(bench.size(5, 1), {"ours": ours, "dill": dills})
    bench.faster("a checkpoint of 1 GB in frames, over dill", times["ours"], times["dill"], at_least=100)
    pid = host_pid(engine)
    await quiet(pid, processes=1)
    before = tree_pss_bytes(pid)
    kept = await session.checkpoint()
    more = tree_pss_bytes(pid) - before
    await session.drop_checkpoint(kept.id)
    bench.claim("new memory when it is taken", f"{more / MB:.1f} MB", target="< 10 MB", passed=more < 10 * MB)


async def _measure_rollback(bench: Bench, engine: Engine, session: Session, cells: list[str]) -> None:
    await session.checkpoint("built")

    async def ours() -> float:
        await _run(session, "frame0 = None")
        begun = time.perf_counter()
        await session.roll_back("built")
        await _run(session, "assert len(frame0)")
        return time.perf_counter() - begun

    async def replay() -> float:
        return await _replay(engine, cells)

    times = await alternate(bench.size(5, 1), {"ours": ours, "replay": replay})
    bench.faster("rollback to a first result, over replay", times["ours"], times["replay"], at_least=20)


async def _replay(engine: Engine, cells: list[str]) -> float:
    """The same cells in a new kernel, up to a first result from them."""
    begun = time.perf_counter()
    session = await _built(engine, cells)
    await _run(session, "assert len(frame0)")
    took = time.perf_counter() - begun
    await engine.delete(session.id, remove_file=True)
    return took


async def _measure_branches(bench: Bench, engine: Engine, session: Session, cells: list[str]) -> None:
    async def ours() -> float:
        begun = time.perf_counter()
        branches = await engine.branch(session.id, checkpoint="built", count=BRANCHES)
        async with anyio.create_task_group() as tasks:
            for branch in branches:
                tasks.start_soon(_run, branch.session, "assert len(frame0)")
        took = time.perf_counter() - begun
        assert {branch.by for branch in branches} == {"checkpoint"}, [branch.reason for branch in branches]
        for branch in branches:
            await engine.delete(branch.session.id, remove_file=True)
        return took

    async def replays() -> float:
        begun = time.perf_counter()
        limiter = anyio.CapacityLimiter(os.cpu_count() or 1)

        async def one() -> None:
            async with limiter:
                await _replay(engine, cells)

        async with anyio.create_task_group() as tasks:
            for _ in range(BRANCHES):
                tasks.start_soon(one)
        return time.perf_counter() - begun

    times = await alternate(bench.size(3, 1), {"ours": ours, "replays": replays})
    bench.faster("8 branches ready, over 8 replays", times["ours"], times["replays"], at_least=10)


async def _measure_plan_cells(bench: Bench, engine: Engine) -> None:
    """Two plans side by side, taking turns: one whose cells all have a checkpoint before them, and one without."""
    sessions = {name: await engine.create(f"plan {name}", mode="private") for name in ("with", "without")}
    for session in sessions.values():
        await _run(session, f"import numpy as np\nheld = np.ones({100 * MB // 8})")

    async def step(name: str) -> float:
        """What a plan does for a TODO: say it in a cell, write the code into another, run that."""
        session = sessions[name]
        begun = time.perf_counter()
        await session.add_cell("Add one to one.", "markdown")
        cell = await session.add_cell("1 + 1")
        assert (await session.run(cell.id, checkpoint=name == "with")).ok
        return time.perf_counter() - begun

    times = await alternate(bench.size(150, 10), {name: partial(step, name) for name in sessions})
    mine, other = (statistics.median(times[name]) for name in ("with", "without"))
    bench.claim(
        "a plan's cell with a checkpoint before it (100 MB held), over one without",
        milliseconds(mine),
        milliseconds(other),
        f"{mine / other:.2f}x",
        target="<= 1.3x",
        passed=mine / other <= 1.3,
    )
    for session in sessions.values():
        await engine.delete(session.id, remove_file=True)


if __name__ == "__main__":
    main(measure, __doc__)
