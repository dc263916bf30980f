"""What confinement costs: sandboxed sessions over bare ones, taking turns in one run.

A start is ``engine.create`` on a fork server without standby kernels, one execution, and the session's end: all
processor time that the host's tree used for it, of processes that have ended too. An execute is one cell, ``1``, up to its
journalled end. How fast a sandboxed session is against a cold, bare ``AsyncKernelManager`` is ``bench_start.py``'s to say,
whose sessions are sandboxed like all others.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import psutil

from cellwright import Engine, Session, open_engine
from measuring import Bench, alternate, host_pid, main, milliseconds, quiet

# The system counts processor time in ticks of 10 ms: several starts are counted together.
STARTS_TOGETHER = 10
MAX_MORE_CPU_S = 0.040
MAX_EXECUTE_RATIO = 1.05
MODES = ("overlay", "private", "direct")


async def measure(bench: Bench) -> None:
    (bench.directory / ".git").mkdir()
    confined = bench.settings(standby_kernels=0)
    bare = bench.settings(standby_kernels=0, unsafe_no_sandbox=True)
    async with open_engine(confined, ephemeral=True) as boxed, open_engine(bare, ephemeral=True) as free:
        await _measure_starts(bench, boxed, free)
        for mode in MODES:
            await _measure_executes(bench, boxed, free, mode)


async def _measure_starts(bench: Bench, boxed: Engine, free: Engine) -> None:
    used = await alternate(
        bench.size(7, 1), {"boxed": partial(_cpu_of_starts, boxed), "free": partial(_cpu_of_starts, free)}
    )
    ours, theirs = (statistics.median(used[name]) for name in ("boxed", "free"))
    bench.claim(
        "processor time of a start, over a bare one",
        milliseconds(ours),
        milliseconds(theirs),
        f"+{1000 * (ours - theirs):.1f} ms",
        target=f"<= {milliseconds(MAX_MORE_CPU_S)} more",
        passed=ours - theirs <= MAX_MORE_CPU_S,
    )


async def _cpu_of_starts(engine: Engine) -> float:
    pid = host_pid(engine)
    await quiet(pid)
    before = _cpu_with_ended(pid)
    for _ in range(STARTS_TOGETHER):
        session = await engine.create("start", mode="overlay")
        assert (await (await session.execute_code("1")).wait()).ok
        await engine.delete(session.id, remove_file=True)
    await quiet(pid)
    return (_cpu_with_ended(pid) - before) / STARTS_TOGETHER


def _cpu_with_ended(pid: int) -> float:
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(time.user + time.system + time.children_user + time.children_system for time in times)


async def _measure_executes(bench: Bench, boxed: Engine, free: Engine, mode: str) -> None:
    ours, theirs = [await engine.create(f"execute {mode}", mode=mode) for engine in (boxed, free)]
    times = await alternate(
        bench.size(400, 20), {"boxed": partial(_execute, ours), "free": partial(_execute, theirs)}
    )
    mine, other = (statistics.median(times[name]) for name in ("boxed", "free"))
    bench.claim(
        f"an execute in {mode} mode, over a bare one",
        f"{1000 * mine:.2f} ms",
        f"{1000 * other:.2f} ms",
        f"{mine / other:.3f}x",
        target=f"<= {MAX_EXECUTE_RATIO:g}x",
        passed=mine / other <= MAX_EXECUTE_RATIO,
    )


async def _execute(session: Session) -> float:
    begun = time.perf_counter()
    assert (await (await session.execute_code("1")).wait()).ok
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(measure, __doc__)
