"""What every benchmark shares: taking turns, medians, memory, and a table that says pass or fail.

Times are compared as ratios of medians from one run in which the contenders take turns, so that a slow machine or a
noisy neighbour meets all of them alike. It starts no kernels (see ``baselines``) and knows no claim.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import anyio
import psutil

from cellwright import Engine, Settings
from cellwright.hosts import HostPaths

__all__ = [
    "MB",
    "Bench",
    "Contender",
    "alternate",
    "cpu_s",
    "host_pid",
    "main",
    "milliseconds",
    "quiet",
    "settled",
    "tree",
    "tree_pss_bytes",
]

MB = 1_000_000
Contender: TypeAlias = Callable[[], Awaitable[float]]
Row: TypeAlias = tuple[str, str, str, str, str, str]

_HEADER: Row = ("what", "cellwright", "baseline", "ratio", "target", "")
_QUIET_SAMPLE_S = 0.25
_QUIET_CPU_S = 0.011
_QUIET_DEADLINE_S = 60.0


@dataclass(slots=True)
class Bench:
    """One script's run: how much to do, where to put files, and what came of it."""

    quick: bool
    directory: Path
    rows: list[Row] = field(default_factory=list)
    missed: bool = False

    def settings(self, **changes: object) -> Settings:
        """Settings as they come, with notebooks in this run's directory and what the benchmark must change."""
        return Settings.model_validate({"root": self.directory, **changes})

    def size(self, full: int, quick: int) -> int:
        """How many to do."""
        return quick if self.quick else full

    def faster(
        self, what: str, ours_s: Sequence[float], baseline_s: Sequence[float], *, at_least: float
    ) -> None:
        """Claim that the median of ours is at least so many times smaller."""
        ours, baseline = statistics.median(ours_s), statistics.median(baseline_s)
        ratio = baseline / ours
        passed = ratio >= at_least
        self.claim(
            what,
            milliseconds(ours),
            milliseconds(baseline),
            f"{ratio:.2f}x",
            target=f">= {at_least:g}x",
            passed=passed,
        )

    def claim(
        self, what: str, ours: str, baseline: str = "", ratio: str = "", *, target: str, passed: bool
    ) -> None:
        """Add a line with a target; small sizes are not held to it."""
        self.missed = self.missed or not (passed or self.quick)
        miss = "below (quick)" if self.quick else "FAIL"
        self._add((what, ours, baseline, ratio, target, "pass" if passed else miss))

    def inform(self, what: str, ours: str, baseline: str = "", ratio: str = "") -> None:
        """Add a line that nothing is claimed of."""
        self._add((what, ours, baseline, ratio, "", "info"))

    def say(self, text: str) -> None:
        """Tell what is done or included, beside the table."""
        print(f"   {text}", file=sys.stderr, flush=True)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self.say(" | ".join(part for part in row if part))

    def print(self) -> None:
        widths = [max(len(row[column]) for row in (_HEADER, *self.rows)) for column in range(len(_HEADER))]
        for row in (_HEADER, *self.rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main(measure: Callable[[Bench], Awaitable[None]], description: str | None) -> None:
    """Run a benchmark as a script: print its table and exit with 1 where a target was missed."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and few rounds, to see that it works"
    )
    quick = parser.parse_args().quick or bool(os.environ.get("BENCH_QUICK"))
    # Every process started from here on compiles its imports once, on both sides.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="cellwright-bench-") as directory:
        os.environ["IPYTHONDIR"] = str(Path(directory, "ipython"))
        bench = Bench(quick, Path(directory).resolve())
        anyio.run(measure, bench)
    bench.print()
    sys.exit(1 if bench.missed else 0)


async def alternate(rounds: int, contenders: Mapping[str, Contender]) -> dict[str, list[float]]:
    """Let contenders take turns, in another order each round; a first round warms up and is not counted."""
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            seconds = await contenders[name]()
            if number:
                times[name].append(seconds)
    return times


def milliseconds(seconds: float) -> str:
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"


def host_pid(engine: Engine) -> int:
    """The process that owns an engine's kernels."""
    pid: int = json.loads(HostPaths(engine.settings.storage).current.read_text())["pid"]
    return pid


def tree(pid: int) -> list[psutil.Process]:
    """A process and everything below it."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def tree_pss_bytes(*pids: int) -> int:
    """Memory of whole process trees, shared pages counted once."""
    return sum(process.memory_full_info().pss for pid in pids for process in tree(pid))


def cpu_s(*pids: int) -> float:
    """Processor time that process trees have used so far, without those below them that have ended."""
    return _used_s([process for pid in pids for process in tree(pid)])


async def quiet(pid: int, *, processes: int = 2) -> None:
    """Return when a tree of so many processes has stopped using the processor: what it prepares is ready.

    A host with its fork server has two, and one more for each kernel that stands by.
    """
    await settled(lambda: tree(pid), lambda found: len(found) >= processes)


async def settled(
    find: Callable[[], list[psutil.Process]], complete: Callable[[list[psutil.Process]], bool]
) -> None:
    """Return when processes have stopped using the processor, and are all there."""
    with anyio.fail_after(_QUIET_DEADLINE_S):
        before = _used_s(find())
        while True:
            await anyio.sleep(_QUIET_SAMPLE_S)
            found = find()
            now = _used_s(found)
            if now - before < _QUIET_CPU_S and complete(found):
                return
            before = now


def _used_s(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
