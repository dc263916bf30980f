"""A notebook of 100 cells, from its file to its file with outputs, and what a cell costs as a notebook grows.

All contenders read the same notebook, start a kernel of the same interpreter, run all cells, write the file and end
the kernel. Ours does it on an engine that is open; nbclient and papermill are called in this process, so that none
of them pays for imports. The cold lines are whole processes, imports and our own engine and fork server included.

For the cost per cell a session grows cell by cell (``add_cell``, then ``run``), as it does under an agent's hands;
the median of the last ten cells is set against that of the first ten.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import nbformat
import papermill
from nbclient import NotebookClient

from cellwright import Engine, open_engine
from measuring import Bench, alternate, host_pid, main, milliseconds, quiet

CELLS = 100
EDGE = 10


async def measure(bench: Bench) -> None:
    source = _write_notebook(bench.directory / "source.ipynb")
    target = bench.directory / "target.ipynb"
    async with open_engine(bench.settings(), ephemeral=True) as engine:
        await quiet(host_pid(engine))
        times = await alternate(
            bench.size(5, 1),
            {
                "ours": partial(_run_ours, engine, source, target),
                "nbclient": partial(_run_nbclient, source, target),
                "papermill": partial(_run_papermill, source, target),
                "cellwright run": partial(
                    _run_process, "cellwright", "run", str(source), "-o", str(target), target=target
                ),
                "jupyter execute": partial(
                    _run_process, "jupyter-execute", str(source), f"--output={target}", target=target
                ),
            },
        )
    bench.faster(f"{CELLS} cells, against nbclient", times["ours"], times["nbclient"], at_least=2)
    bench.faster(f"{CELLS} cells, against papermill", times["ours"], times["papermill"], at_least=6)
    cold, peer = (statistics.median(times[name]) for name in ("cellwright run", "jupyter execute"))
    bench.inform(
        f"{CELLS} cells, cold `cellwright run` against cold `jupyter execute`",
        milliseconds(cold),
        milliseconds(peer),
        f"{peer / cold:.1f}x",
    )
    await _measure_growth(bench)


def _write_notebook(path: Path) -> Path:
    """Cells that compute a little, each with a printed line and every other one with a result."""
    sources = [
        f"value_{number} = sum(range({number}))\nprint('cell', {number}, value_{number})\n"
        + (f"value_{number} ** 2" if number % 2 else "")
        for number in range(CELLS)
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, path)
    return path


def _check(target: Path) -> None:
    """The file must hold every cell's output, whoever wrote it; it is removed for the next."""
    cells = nbformat.read(target, as_version=4).cells
    texts = [
        "".join(output.text for output in cell.outputs if output.output_type == "stream") for cell in cells
    ]
    assert texts == [f"cell {number} {sum(range(number))}\n" for number in range(CELLS)]
    target.unlink()


async def _run_ours(engine: Engine, source: Path, target: Path) -> float:
    begun = time.perf_counter()
    shutil.copyfile(source, target)
    session = await engine.open(target)
    executions = await session.run_all()
    await session.save()
    await session.suspend()
    seconds = time.perf_counter() - begun
    assert all(execution.ok for execution in executions)
    _check(target)
    await engine.delete(session.id, remove_file=True)
    await quiet(host_pid(engine))
    return seconds


async def _run_nbclient(source: Path, target: Path) -> float:
    begun = time.perf_counter()
    notebook = nbformat.read(source, as_version=4)
    await NotebookClient(notebook, resources={"metadata": {"path": str(source.parent)}}).async_execute(
        stderr=subprocess.DEVNULL
    )
    nbformat.write(notebook, target)
    seconds = time.perf_counter() - begun
    _check(target)
    return seconds


async def _run_papermill(source: Path, target: Path) -> float:
    begun = time.perf_counter()
    execute = partial(papermill.execute_notebook, source, target, progress_bar=False)
    await anyio.to_thread.run_sync(execute)
    seconds = time.perf_counter() - begun
    _check(target)
    return seconds


async def _run_process(script: str, *arguments: str, target: Path) -> float:
    begun = time.perf_counter()
    command = [str(Path(sys.executable).with_name(script)), *arguments]
    ended = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT)
    seconds = time.perf_counter() - begun
    assert ended.returncode == 0, ended.stdout.decode()
    _check(target)
    return seconds


async def _measure_growth(bench: Bench) -> None:
    """Sessions of 100 cells in turn; the edges of all of them are taken together."""
    costs: list[list[float]] = []
    # The cell that states the problem counts too.
    async with open_engine(bench.settings(max_cells=CELLS + 1), ephemeral=True) as engine:
        for _ in range(bench.size(5, 1)):
            await quiet(host_pid(engine))
            costs.append(await _cell_costs(engine))
    first = statistics.median(cost for session in costs for cost in session[:EDGE])
    last = statistics.median(cost for session in costs for cost in session[-EDGE:])
    bench.claim(
        f"cost of a cell, last {EDGE} of {CELLS} against first {EDGE}",
        milliseconds(last),
        milliseconds(first),
        f"{last / first:.2f}x",
        target="<= 1.5x",
        passed=last / first <= 1.5,
    )


async def _cell_costs(engine: Engine) -> list[float]:
    session = await engine.create("growth")
    costs = []
    for number in range(CELLS):
        begun = time.perf_counter()
        cell = await session.add_cell(f"value = {number}\nprint('cell', value)\nvalue ** 2")
        execution = await session.run(cell.id)
        costs.append(time.perf_counter() - begun)
        assert execution.ok
    await engine.delete(session.id, remove_file=True)
    return costs


if __name__ == "__main__":
    main(measure, __doc__)
