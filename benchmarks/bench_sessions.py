"""Many sessions at once: how soon each has answered, and what they cost in memory.

Ours is ``engine.create`` and ``1+1`` for all sessions at once on an engine that is open. The baseline is as many
``AsyncKernelManager``s, started side by side. On both sides as many kernels may be starting at a time as suits the
baseline best (``CONCURRENT_STARTS``), so that neither gets a larger share of a busy machine.

Memory is the proportional set size of every process but the one that asks: ours are the host, the fork server with
its standby kernels, and all kernels; theirs are the kernels. Each kernel has imported pandas and grouped a small
frame; our fork server has pandas preloaded.

Processor time is told as well: neighbours disturb it less than they do wall time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import anyio

from baselines import PlainKernel, start_plain_kernel
from cellwright import Engine, Execution, Session, open_engine
from measuring import MB, Bench, alternate, cpu_s, host_pid, main, milliseconds, quiet, tree_pss_bytes

T = TypeVar("T")

# One probe of 32 baseline kernels on two cores: slower with 2, 4 or 8, 5 % faster with all at once. The engine's
# own default is 4.
CONCURRENT_STARTS = 16
USE_PANDAS = """\
import pandas as pd
frame = pd.DataFrame({"kind": ["a", "b"] * 500, "value": range(1000)})
print(frame.groupby("kind")["value"].sum().to_dict())
"""
PANDAS_TEXT = "{'a': 249500, 'b': 250000}\n"


async def measure(bench: Bench) -> None:
    count = bench.size(100, 8)
    bench.say(
        f"{count} sessions against {count} managers, {CONCURRENT_STARTS} starting at a time on both sides"
    )
    cpu: dict[str, list[float]] = {"ours": [], "plain": []}
    settings = bench.settings(max_sessions=count, max_concurrent_starts=CONCURRENT_STARTS)
    async with open_engine(settings, ephemeral=True) as engine:
        await quiet(host_pid(engine))
        times = await alternate(
            bench.size(3, 1),
            {
                "ours": partial(_start_sessions, engine, count, cpu["ours"]),
                "plain": partial(_start_plain, count, cpu["plain"]),
            },
        )
    bench.faster(f"{count} sessions started, each answering", times["ours"], times["plain"], at_least=5)
    ours_s, plain_s = statistics.median(cpu["ours"]), statistics.median(cpu["plain"])
    bench.inform(
        f"{count} sessions: processor time of all processes",
        milliseconds(ours_s),
        milliseconds(plain_s),
        f"{plain_s / ours_s:.1f}x",
    )
    await _measure_memory(bench, count)
    await _measure_many(bench, bench.size(200, 20))


async def _start_sessions(engine: Engine, count: int, cpu: list[float]) -> float:
    cpu_before = cpu_s(host_pid(engine)) + time.process_time()
    begun = time.perf_counter()
    sessions = await _at_once([partial(_answering, engine) for _ in range(count)])
    seconds = time.perf_counter() - begun
    cpu.append(cpu_s(host_pid(engine)) + time.process_time() - cpu_before)
    await _at_once([partial(engine.delete, session.id, remove_file=True) for session in sessions])
    await quiet(host_pid(engine))
    return seconds


async def _answering(engine: Engine) -> Session:
    session = await engine.create("many")
    execution = await _run(session, "1+1")
    assert execution.text == "2\n", execution.text
    return session


async def _run(session: Session, code: str) -> Execution:
    return await (await session.execute_code(code)).wait()


async def _start_plain(count: int, cpu: list[float]) -> float:
    cpu_before = time.process_time()
    begun = time.perf_counter()
    async with _plain_kernels(count) as kernels:
        seconds = time.perf_counter() - begun
        cpu.append(cpu_s(*(kernel.pid for kernel in kernels)) + time.process_time() - cpu_before)
        return seconds


@asynccontextmanager
async def _plain_kernels(count: int) -> AsyncIterator[list[PlainKernel]]:
    """Kernels that have each answered once, ended afterwards."""
    bound = anyio.CapacityLimiter(CONCURRENT_STARTS)
    kernels: list[PlainKernel] = []

    async def start() -> None:
        async with bound:
            kernel = await start_plain_kernel()
            kernels.append(kernel)
            outputs = await kernel.run("1+1")
        assert [output["content"]["data"]["text/plain"] for output in outputs] == ["2"]

    try:
        await _at_once([start] * count)
        yield kernels
    finally:
        with anyio.CancelScope(shield=True):
            await _at_once([kernel.stop for kernel in kernels])


async def _measure_memory(bench: Bench, count: int) -> None:
    settings = bench.settings(max_sessions=count, preload=("pandas",))
    async with open_engine(settings, ephemeral=True) as engine:
        sessions = await _at_once([partial(_answering, engine) for _ in range(count)])
        executions = await _at_once([partial(_run, session, USE_PANDAS) for session in sessions])
        assert {execution.text for execution in executions} == {PANDAS_TEXT}
        await quiet(host_pid(engine))
        ours = tree_pss_bytes(host_pid(engine))
    bound = anyio.CapacityLimiter(CONCURRENT_STARTS)

    async def use_pandas(kernel: PlainKernel) -> None:
        async with bound:
            outputs = await kernel.run(USE_PANDAS)
        assert [output["content"]["text"] for output in outputs] == [PANDAS_TEXT]

    async with _plain_kernels(count) as kernels:
        await _at_once([partial(use_pandas, kernel) for kernel in kernels])
        plain = tree_pss_bytes(*(kernel.pid for kernel in kernels))
    ratio = ours / plain
    bench.claim(
        f"memory of {count} sessions with pandas in use",
        f"{ours / count / MB:.1f} MB each",
        f"{plain / count / MB:.1f} MB each",
        f"{ratio:.2f}x",
        target="<= 0.6x",
        passed=ratio <= 0.6,
    )


async def _measure_many(bench: Bench, count: int) -> None:
    async with open_engine(bench.settings(max_sessions=count), ephemeral=True) as engine:
        begun = time.perf_counter()
        sessions = await _at_once([partial(_answering, engine) for _ in range(count)])
        started_s = time.perf_counter() - begun
        # All of them are alive now: each answers once more.
        executions = await _at_once([partial(_run, session, "1+1") for session in sessions])
        right = sum(execution.text == "2\n" for execution in executions)
    bench.say(f"{count} sessions stood after {started_s:.1f} s")
    bench.claim(
        f"{count} live sessions answer 1+1",
        f"{right} right",
        target=f"{count} right",
        passed=right == count,
    )


async def _at_once(calls: list[Callable[[], Awaitable[T]]]) -> list[T]:
    results: list[T] = []

    async def call(act: Callable[[], Awaitable[T]]) -> None:
        results.append(await act())

    async with anyio.create_task_group() as tasks:
        for act in calls:
            tasks.start_soon(call, act)
    return results


if __name__ == "__main__":
    main(measure, __doc__)
