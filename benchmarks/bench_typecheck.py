"""Types of a notebook's cells: a check after the first one, as the host makes it when a cell begins.

One check is a notebook of a few cells of which one was edited, sent to the sandboxed language server that stays up, until
its diagnostics are back on cells. The baseline is ``deno check`` of the same Deno on the same program with the same
options, which is started for each check and is not confined. Both find the same one mistake.
"""

from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path

import anyio

from cellwright.kernels import Isolation, KernelLaunch, OutputLimits, TypeChecker, find_deno
from cellwright.kernels.typecheck import CellSource, join_cells
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.probe import try_isolation
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from measuring import Bench, alternate, main, milliseconds

LIMITS = OutputLimits(max_bytes=1_000_000, max_messages=1_000)
OPTIONS = {"strict": True}
_NUMBERS = count(1)


def cells() -> list[CellSource]:
    """A notebook in which the last cell is another one each time."""
    sources = [
        "interface Sale { day: string; price: number }",
        "const sales: Sale[] = Array.from({ length: 100 }, (_, n) => ({ day: `${n}`, price: n * n }))",
        "const total = sales.reduce((sum, sale) => sum + sale.price, 0)",
        f"const wrong: string = total + {next(_NUMBERS)}",
    ]
    return [CellSource(f"c{number}", source) for number, source in enumerate(sources, 1)]


async def measure(bench: Bench) -> None:
    found = await anyio.to_thread.run_sync(try_isolation)
    isolation = Isolation(found.tier, Policy(), groups=found.groups)
    storage = bench.directory / "own"
    place = Workspace("private", str(storage / PRIVATE), None, str(storage))
    storage.mkdir()
    prepare_storage(place)
    launch = KernelLaunch("", bench.directory / "check", Path(place.cwd), {}, LIMITS, workspace=place)
    async with anyio.create_task_group() as tasks:
        checker = TypeChecker(tasks, isolation=isolation, timeout_s=60)
        bench.inform("the first check of a notebook", milliseconds(await _ours(checker, launch)))
        checks = await alternate(
            bench.size(20, 3),
            {"ours": lambda: _ours(checker, launch), "deno": lambda: _plain(bench.directory / "plain")},
        )
        tasks.cancel_scope.cancel()
    bench.faster("one more check", checks["ours"], checks["deno"], at_least=3)


async def _ours(checker: TypeChecker, launch: KernelLaunch) -> float:
    begun = time.perf_counter()
    found = await checker.check(launch, cells(), OPTIONS)
    seconds = time.perf_counter() - begun
    assert [(one.cell_id, one.code) for one in found] == [("c4", "TS2322")], found
    return seconds


async def _plain(directory: Path) -> float:
    directory.mkdir(exist_ok=True)
    (directory / "deno.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
    (directory / "notebook.ts").write_text(join_cells(cells()).files["notebook.ts"])
    told = os.environ | {"DENO_DIR": str(directory / "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
    begun = time.perf_counter()
    done = await anyio.run_process(
        [str(find_deno()), "check", "notebook.ts"], cwd=directory, env=told, check=False
    )
    seconds = time.perf_counter() - begun
    assert b"TS2322" in done.stderr, done.stderr
    return seconds


if __name__ == "__main__":
    main(measure, __doc__)
