"""Data tasks cell by cell, without a model: our kernels, ipykernel by jupyter_client, and plain Python.

The tasks are our own (``benchmarks/agent/datatasks/builtin.py``), so that this runs anywhere; ``python benchmarks/agent`` does
the same with public sets. Time is from asking for a kernel to the end of the last cell, as the median over tasks.
Our engine has the settings as they come; a line for information has pandas preloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "agent"))

from cellwright import open_engine
from datatasks.builtin import read
from datatasks.contenders import ipykernel, ours, plain_python
from datatasks.references import JUDGE, References, run_references
from measuring import Bench, main, milliseconds


async def measure(bench: Bench) -> None:
    tasks = read(bench.directory / "data").first(bench.size(15, 4))
    async with (
        open_engine(bench.settings(), ephemeral=True) as engine,
        open_engine(bench.settings(preload=("pandas",)), ephemeral=True) as preloaded,
    ):
        contenders = {
            JUDGE: plain_python,
            "ipykernel": ipykernel,
            "ours": ours(engine),
            "ours, pandas preloaded": ours(preloaded),
        }
        result = await run_references(tasks, contenders, bench.directory / "work", rounds=bench.size(3, 1))
    _report(bench, result)


def _report(bench: Bench, result: References) -> None:
    for reason in (
        *result.left_out.values(),
        *(line for one in result.tried["ours"] for line in one.failures),
    ):
        bench.say(reason)
    plain, rate = result.rate(JUDGE), result.rate("ours")
    bench.claim(
        "pass rate, ours / plain Python", f"{rate:.0%}", f"{plain:.0%}", f"{rate / plain:.2f}x",
        target=">= 1x", passed=rate >= plain,
    )  # fmt: skip
    for name in ("ours", "ours, pandas preloaded"):
        ratio = result.ratio(name, "ipykernel")
        line = (
            f"time, {name} / ipykernel",
            milliseconds(result.seconds(name)),
            milliseconds(result.seconds("ipykernel")),
            f"{ratio:.2f}x",
        )
        if name == "ours":
            bench.claim(*line, target="< 1x", passed=ratio < 1)
        else:
            bench.inform(*line)


if __name__ == "__main__":
    main(measure, __doc__)
