"""One-shot runs: a script in a fork of a kernel that stood by, against what gives the same isolation from scratch.

``print(1)`` against a new virtual environment and Python in it; ``import pandas`` where pandas is preloaded against
``python -c``; a run with packages against the first one that had to fetch and unpack them, both from the asking to the
answer; ``node_execute`` against ``deno run``; and fifty at once, of which none may fail.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from cellwright import Engine, open_engine
from cellwright.kernels import find_deno
from cellwright.tools.scripts import run_script
from measuring import Bench, alternate, main, milliseconds

PACKAGES = ["pandas", "matplotlib"]
# Found, though not loaded: what they cost to import is the same for everybody.
HAS_PACKAGES = "import importlib.util as u; print(all(u.find_spec(n) for n in ('pandas', 'matplotlib')))"


async def measure(bench: Bench) -> None:
    async with open_engine(bench.settings(preload=("pandas",)), ephemeral=True) as engine:
        await _starts(bench, engine)
        await _many(bench, engine)
    await _packages(bench)


async def _starts(bench: Bench, engine: Engine) -> None:
    rounds = bench.size(15, 3)
    deno = str(await anyio.to_thread.run_sync(find_deno))
    script = bench.directory / "one.ts"
    script.write_text("console.log(1)\n")
    pairs = {
        "print(1), a venv and python in it": (
            partial(_ours, engine, "print(1)"),
            partial(_venv, bench.directory),
            10.0,
            bench.size(5, 1),
        ),
        "import pandas, preloaded, python -c": (
            partial(_ours, engine, "import pandas; print(1)"),
            partial(_theirs, [sys.executable, "-c", "import pandas; print(1)"]),
            1.0,
            rounds,
        ),
        "console.log(1), deno run": (
            partial(_ours, engine, "console.log(1)", language="typescript"),
            partial(_theirs, [deno, "run", "--quiet", "--no-remote", str(script)]),
            1.0,
            rounds,
        ),
    }
    for what, (ours, theirs, at_least, count) in pairs.items():
        await ours()  # warm, as a daemon is
        taken = await alternate(count, {"ours": ours, "theirs": theirs})
        bench.faster(what, taken["ours"], taken["theirs"], at_least=at_least)


async def _many(bench: Bench, engine: Engine) -> None:
    failed: list[str] = []
    count = bench.size(50, 10)

    async def one(number: int) -> None:
        result = await run_script(engine, f"print({number})")
        if result.stdout != f"{number}\n":
            failed.append(result.stderr)

    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    seconds = time.perf_counter() - begun
    bench.claim(f"{count} runs at once", milliseconds(seconds), target="no failure", passed=not failed)


async def _packages(bench: Bench) -> None:
    """On an interpreter that lacks them: a new environment of our own version, with nothing in it."""
    project = bench.directory / "project"
    await anyio.to_thread.run_sync(lambda: venv.create(project / ".venv", with_pip=False, symlinks=True))
    settings = bench.settings(root=project)
    async with open_engine(settings, ephemeral=True) as engine:
        await _ours(engine, "print(1)")  # the kernel's own part is not what this is about
        first = await _ours(engine, HAS_PACKAGES, packages=PACKAGES, says="True\n")
        later = [
            await _ours(engine, HAS_PACKAGES, packages=PACKAGES, says="True\n")
            for _ in range(bench.size(5, 2))
        ]
    bench.faster("packages, the second time against the first", later, [first], at_least=20)


async def _ours(
    engine: Engine,
    code: str,
    *,
    language: str = "python",
    packages: list[str] | None = None,
    says: str = "1\n",
) -> float:
    begun = time.perf_counter()
    result = await run_script(engine, code, language=language, packages=packages or [])
    seconds = time.perf_counter() - begun
    if result.stdout != says:
        raise SystemExit(f"it said {result.stdout!r}: {result.stderr}")
    return seconds


async def _theirs(command: list[str]) -> float:
    begun = time.perf_counter()
    done = await anyio.run_process(command)
    if done.stdout != b"1\n":
        raise SystemExit(f"{command} said {done.stdout!r}")
    return time.perf_counter() - begun


async def _venv(directory: Path) -> float:
    """As anybody would: a new environment, and its Python."""
    place = directory / f"venv-{time.monotonic_ns()}"
    begun = time.perf_counter()
    await anyio.run_process([sys.executable, "-m", "venv", str(place)], stdout=subprocess.DEVNULL)
    await _theirs([str(place / "bin" / "python"), "-c", "print(1)"])
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(measure, __doc__)
