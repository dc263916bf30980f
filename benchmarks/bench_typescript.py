"""TypeScript: from asking for a notebook to its first result, one more cell, and the memory of a kernel.

Ours is ``engine.create`` (a notebook file, a journalled session, a sandboxed kernel) and one execution of ``1 + 1`` up
to its journalled result; a cell is an execution of a few lines, journalled too. The baseline is ``deno jupyter`` of the
same Deno, started by ``AsyncKernelManager`` and driven by its client up to idle; it is not confined and writes nothing.
Memory is that of all processes which a kernel brings with it, shared pages counted once.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

from baselines import PlainKernel, start_plain_kernel
from cellwright import Engine, open_engine
from cellwright.engine import Session
from cellwright.kernels.deno import find_deno
from measuring import MB, Bench, alternate, host_pid, main, quiet, tree

KERNELSPEC = "deno"
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
    before = {process.pid for process in tree(host_pid(engine))}
    session = await engine.create("typescript", language="typescript")
    plain = await start_plain_kernel(KERNELSPEC)
    try:
        cells = await alternate(
            bench.size(200, 10), {"ours": lambda: _cell(session), "jupyter": lambda: _plain_cell(plain)}
        )
        bench.faster("one cell", cells["ours"], cells["jupyter"], at_least=3)
        ours = [process for process in tree(host_pid(engine)) if process.pid not in before]
        used = sum(process.memory_full_info().pss for process in ours) / MB
        baseline = sum(process.memory_full_info().pss for process in tree(plain.pid)) / MB
    finally:
        await plain.stop()
    bench.claim(
        "memory of a kernel",
        f"{used:.0f} MB",
        f"{baseline:.0f} MB",
        f"{used / baseline:.2f}",
        target="<= 0.5",
        passed=used <= 0.5 * baseline,
    )
    alone = [statistics.median([await _cell(session) for _ in range(5)]) for _ in range(bench.size(10, 2))]
    bench.inform("one cell, nobody beside it", f"{1000 * statistics.median(alone):.1f} ms")


async def _first_result(engine: Engine) -> float:
    begun = time.perf_counter()
    session = await engine.create("first result", language="typescript")
    execution = await (await session.execute_code("1 + 1")).wait()
    seconds = time.perf_counter() - begun
    assert execution.text == "2\n", execution
    await engine.delete(session.id, remove_file=True)
    return seconds


async def _cell(session: Session) -> float:
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
    assert [_shown(output) for output in outputs] == ["2"], outputs
    return seconds


async def _plain_cell(kernel: PlainKernel) -> float:
    begun = time.perf_counter()
    outputs = await kernel.run(CELL)
    seconds = time.perf_counter() - begun
    assert [_shown(output) for output in outputs] == [ANSWER]
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
