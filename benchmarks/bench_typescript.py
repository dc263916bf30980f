"""TypeScript: from asking for a notebook to its first result, one more cell, and the memory of a kernel.

The first result is ``engine.create`` (a notebook file, a journalled session, a sandboxed kernel) and one execution of
``1 + 1`` up to its journalled result. One cell is a few lines sent to a sandboxed kernel by the host's client, up to idle;
what the engine and its journal add is told beside it. The baseline is ``deno jupyter`` of the same Deno, started by
``AsyncKernelManager`` and driven by its client up to idle; it is not confined and writes nothing. Memory is that of all
processes which a kernel brings with it, shared pages counted once.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from baselines import PlainKernel, start_plain_kernel
from cellwright import Engine, open_engine
from cellwright.engine import Session
from cellwright.kernels import (
    DenoLauncher,
    Isolation,
    Kernel,
    KernelLaunch,
    Message,
    OutputLimits,
    find_deno,
)
from cellwright.kernels.client import new_message_id
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.probe import try_isolation
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from measuring import MB, Bench, alternate, host_pid, main, milliseconds, quiet, tree_pss_bytes

KERNELSPEC = "deno"
LIMITS = OutputLimits(max_bytes=1_000_000, max_messages=1_000)
CELL = """const squares: number[] = Array.from({ length: 100 }, (_, n) => n * n);
squares.reduce((sum, square) => sum + square, 0)"""
ANSWER = "328350"


async def measure(bench: Bench) -> None:
    _describe_deno(bench.directory)
    async with open_engine(bench.settings(standby_kernels=0), ephemeral=True) as engine:
        await quiet(host_pid(engine))
        starts = await alternate(
            bench.size(10, 2), {"ours": lambda: _first_result(engine), "jupyter": _plain_first_result}
        )
        bench.faster("first result", starts["ours"], starts["jupyter"], at_least=3)
        await _measure_living(bench, engine)


async def _measure_living(bench: Bench, engine: Engine) -> None:
    plain = await start_plain_kernel(KERNELSPEC)
    try:
        async with _own_kernel(bench.directory) as kernel:
            cells = await alternate(
                bench.size(200, 10), {"ours": lambda: _cell(kernel), "jupyter": lambda: _plain_cell(plain)}
            )
            bench.faster("one cell", cells["ours"], cells["jupyter"], at_least=3)
            ours, baseline = (tree_pss_bytes(pid) / MB for pid in (kernel.process.pid, plain.pid))
    finally:
        await plain.stop()
    bench.claim(
        "memory of a kernel",
        f"{ours:.0f} MB",
        f"{baseline:.0f} MB",
        f"{ours / baseline:.2f}",
        target="<= 0.5",
        passed=ours <= 0.5 * baseline,
    )
    session = await engine.create("typescript", language="typescript")
    journalled = [await _journalled_cell(session) for _ in range(bench.size(100, 5))]
    bench.inform("one cell, through engine and journal", milliseconds(statistics.median(journalled)))


@asynccontextmanager
async def _own_kernel(directory: Path) -> AsyncIterator[Kernel]:
    """A kernel as the host starts it."""
    found = await anyio.to_thread.run_sync(try_isolation)
    isolation = Isolation(found.tier, Policy(), groups=found.groups)
    launcher = DenoLauncher(environment={}, start_timeout_s=60, isolation=isolation)
    storage = directory / "own"
    place = Workspace("private", str(storage / PRIVATE), None, str(storage))
    storage.mkdir()
    prepare_storage(place)
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        launch = KernelLaunch("k", directory / "k", Path(place.cwd), {}, LIMITS, workspace=place)
        kernel = await launcher.launch(launch)
        yield kernel
        await kernel.stop(grace_s=5)
        tasks.cancel_scope.cancel()


async def _first_result(engine: Engine) -> float:
    begun = time.perf_counter()
    session = await engine.create("first result", language="typescript")
    execution = await (await session.execute_code("1 + 1")).wait()
    seconds = time.perf_counter() - begun
    assert execution.text == "2\n", execution
    await engine.delete(session.id, remove_file=True)
    return seconds


async def _cell(kernel: Kernel) -> float:
    idle, shown, message_id = anyio.Event(), [], new_message_id()

    def hear(message: Message) -> None:
        if message.parent_id == message_id:
            if message.kind == "execute_result":
                shown.append(json.loads(message.content)["data"]["text/plain"])
            elif message.kind == "status" and b'"idle"' in message.content:
                idle.set()

    kernel.client.on_message = hear
    begun = time.perf_counter()
    kernel.client.execute(CELL, message_id=message_id)
    await idle.wait()
    seconds = time.perf_counter() - begun
    assert shown == [ANSWER], shown
    return seconds


async def _journalled_cell(session: Session) -> float:
    begun = time.perf_counter()
    execution = await (await session.execute_code(CELL)).wait()
    seconds = time.perf_counter() - begun
    assert execution.text.strip() == ANSWER, execution
    return seconds


async def _plain_first_result() -> float:
    begun = time.perf_counter()
    kernel = await start_plain_kernel(KERNELSPEC)
    try:
        outputs = await kernel.run("1 + 1")
        seconds = time.perf_counter() - begun
    finally:
        await kernel.stop()
    # Seen now and then: its idle status comes before its result. It is what was waited for, so it counts.
    assert [_shown(output) for output in outputs] in (["2"], []), outputs
    return seconds


async def _plain_cell(kernel: PlainKernel) -> float:
    begun = time.perf_counter()
    outputs = await kernel.run(CELL)
    seconds = time.perf_counter() - begun
    assert [_shown(output) for output in outputs] in ([ANSWER], []), outputs
    return seconds


def _shown(output: dict[str, dict[str, dict[str, str]]]) -> str:
    """What an output shows; colours are the baseline's own choice."""
    return output["content"]["data"]["text/plain"].removeprefix("\x1b[33m").removesuffix("\x1b[39m")


def _describe_deno(directory: Path) -> None:
    """A kernelspec as ``deno jupyter --install`` writes it, where only this run sees it."""
    spec = directory / "kernels" / KERNELSPEC
    spec.mkdir(parents=True)
    argv = [str(find_deno()), "jupyter", "--kernel", "--conn", "{connection_file}"]
    told = {"argv": argv, "display_name": "Deno", "language": "typescript"}
    (spec / "kernel.json").write_text(json.dumps(told))
    os.environ["JUPYTER_PATH"] = str(directory)
    os.environ["DENO_DIR"] = str(directory / "deno")
    os.environ["DENO_NO_UPDATE_CHECK"] = "1"


if __name__ == "__main__":
    main(measure, __doc__)
