"""TypeScript scripts run once: ``run_script`` against ``deno run`` of the same file and the same Deno.

Ours is a session nobody sees, journalled, with a confined process in a directory of its own, up to the result with its
files; the process stood by, as it does once the language was used. It is given a moment before each run to stand by
again, as whoever thinks between two calls gives it. ``deno run`` may read and write its directory alone, and is neither
confined nor recorded; its time is from the start of the process to its end. Many at once share what stands by, and most
of ours are then started from cold: that is told and claims nothing.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil

from cellwright import Engine, open_engine
from cellwright.kernels import find_deno
from cellwright.tools.scripts import run_script
from measuring import MB, Bench, alternate, host_pid, main, milliseconds, settled, tree, tree_pss_bytes

STANDBY = 2
CODE = """const squares: number[] = Array.from({ length: 100 }, (_, n) => (n + 1) ** 2);
console.log(squares.reduce((sum, square) => sum + square, 0));
"""
WRITES = """import { writeFileSync } from "node:fs";
writeFileSync("squares.csv", Array.from({ length: 100 }, (_, n) => `${n},${n * n}`).join("\\n"));
console.log("written");
"""
SAID = {CODE: "338350\n", WRITES: "written\n"}


async def measure(bench: Bench) -> None:
    places = (bench.directory / f"plain{number}" for number in itertools.count())
    async with open_engine(bench.settings(standby_kernels=STANDBY), ephemeral=True) as engine:
        await _run(engine, CODE)  # the first one starts what stands by from then on
        for what, code in (("a script that prints", CODE), ("a script that leaves a file", WRITES)):
            times = await alternate(
                bench.size(20, 3),
                {
                    "ours": lambda code=code: _warm_run(engine, code),
                    "deno run": lambda code=code: _plain_run(next(places), code),
                },
            )
            bench.faster(what, times["ours"], times["deno run"], at_least=1)
        await _stand_by(engine)
        waiting = [tree_pss_bytes(process.pid) / MB for process in _denos(engine)]
        bench.inform("memory of one that stands by", f"{max(waiting):.0f} MB")
        many = bench.size(20, 4)
        ours, plain = await _at_once(engine, many), await _plain_at_once(places, many)
        bench.inform(f"{many} at once", milliseconds(ours), milliseconds(plain), f"{plain / ours:.2f}x")


async def _warm_run(engine: Engine, code: str) -> float:
    await _stand_by(engine)
    return await _run(engine, code)


async def _run(engine: Engine, code: str) -> float:
    start = time.perf_counter()
    result = await run_script(engine, code, language="typescript")
    seconds = time.perf_counter() - start
    assert result.stdout == SAID[code], result
    return seconds


async def _stand_by(engine: Engine) -> None:
    await engine.one_shots.settled()
    await settled(lambda: tree(host_pid(engine)), lambda _: len(_denos(engine)) >= STANDBY)


def _denos(engine: Engine) -> list[psutil.Process]:
    return [process for process in tree(host_pid(engine)) if process.name() == "deno"]


async def _plain_run(directory: Path, code: str) -> float:
    directory.mkdir()
    (directory / "script.ts").write_text(code)
    deno, allowed = _deno(), [f"--allow-read={directory}", f"--allow-write={directory}"]
    start = time.perf_counter()
    done = await anyio.run_process([deno, "run", "--no-prompt", *allowed, "script.ts"], cwd=directory)
    seconds = time.perf_counter() - start
    assert done.stdout.decode() == SAID[code], done.stderr
    return seconds


@functools.cache
def _deno() -> str:
    return str(find_deno())


async def _at_once(engine: Engine, many: int) -> float:
    start = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(many):
            tasks.start_soon(_run, engine, CODE)
    return time.perf_counter() - start


async def _plain_at_once(places: Iterator[Path], many: int) -> float:
    start = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(many):
            tasks.start_soon(_plain_run, next(places), CODE)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(measure, __doc__)
