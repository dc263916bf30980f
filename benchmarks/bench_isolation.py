"""What confinement costs: sandboxed against bare, interleaved in one run, and against a cold kernel of jupyter_client."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import anyio
import psutil
from jupyter_client.manager import AsyncKernelManager

from cellwright import Engine, Settings, open_engine

ROUNDS = 5
CELLS = 40


def cpu_of_tree(pid: int) -> float:
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    times = [member.cpu_times() for member in family]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def host_pid(storage: Path) -> int:
    return next(
        p.pid
        for p in psutil.process_iter(["cmdline"])
        if "cellwright.hosts" in (p.info["cmdline"] or []) and str(storage) in p.info["cmdline"]
    )


async def one(engine: Engine) -> tuple[float, float, float]:
    """Seconds and processor seconds of a start, and seconds of one execute."""
    pid = host_pid(engine.settings.storage)
    cpu, begun = cpu_of_tree(pid), time.perf_counter()
    session = await engine.create("bench", mode="private")
    await (await session.execute_code("1")).wait()
    started, used = time.perf_counter() - begun, cpu_of_tree(pid) - cpu
    begun = time.perf_counter()
    for _ in range(CELLS):
        await (await session.execute_code("1")).wait()
    execute = (time.perf_counter() - begun) / CELLS
    await engine.delete(session.id)
    await anyio.sleep(0.6)
    return started, used, execute


async def cold() -> float:
    begun = time.perf_counter()
    manager = AsyncKernelManager()
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready()
    await client.execute_interactive("1", output_hook=lambda _: None)
    seconds = time.perf_counter() - begun
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    return seconds


async def compare(base: Path, standby: int) -> dict[str, list[tuple[float, float, float]]]:
    found: dict[str, list[tuple[float, float, float]]] = {"confined": [], "bare": []}
    common = {"standby_kernels": standby, "host_idle_s": 5}
    confined = Settings(root=base, storage=base / f"c{standby}", **common)
    bare = Settings(root=base, storage=base / f"b{standby}", unsafe_no_sandbox=True, **common)
    async with open_engine(confined) as first, open_engine(bare) as second:
        for engine in (first, second):
            await one(engine)
        for _ in range(ROUNDS):
            found["confined"].append(await one(first))
            found["bare"].append(await one(second))
        await first.close(stop_host=True)
        await second.close(stop_host=True)
    return found


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        forked = await compare(Path(directory), 0)
        stood_by = await compare(Path(directory), 1)
    colds = [await cold() for _ in range(3)]

    def median(runs: list[tuple[float, float, float]], place: int) -> float:
        return statistics.median(run[place] for run in runs)

    extra_cpu = median(forked["confined"], 1) - median(forked["bare"], 1)
    execute = median(forked["confined"], 2) / median(forked["bare"], 2)
    ratio = statistics.median(colds) / median(stood_by["confined"], 0)
    print(
        f"start, forked: confined {median(forked['confined'], 0) * 1e3:.0f} ms, bare {median(forked['bare'], 0) * 1e3:.0f} ms"
    )
    print(f"more CPU per start: {extra_cpu * 1e3:.0f} ms (at most 40)")
    print(f"execute, confined over bare: {execute:.3f} (at most 1.05)")
    print(
        f"standby, confined: {median(stood_by['confined'], 0) * 1e3:.0f} ms; cold kernel over it: {ratio:.1f} (at least 10)"
    )
    assert extra_cpu <= 0.040
    assert execute <= 1.05
    assert ratio >= 10


if __name__ == "__main__":
    anyio.run(main)
