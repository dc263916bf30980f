"""Runs the tests by lanes, each file in a process of its own, looks at failures twice, and says where the time went.

``python -m tests.lanes`` runs every lane but the exhaustive products; ``--lane unit`` one lane; ``--matrix`` the
products alone. A lane is a folder below ``tests/``, named by what its tests need; ``conftest.py`` gives each test the
marker of that name.

The processes are forks of this one, which has imported what most tests import: a process for each file costs little,
and no file sees what another left behind. What failed runs once more, alone, at the end: what passes then is listed
under UNSTEADY and does not fail the run, unless there are too many of those. Collects and runs nothing itself (pytest).
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

from cellwright.formats.grammars import leave_out_address_grammars
from cellwright_kernel.descendants import become_subreaper

TESTS = Path(__file__).parent
LOGS = TESTS.parent / ".cache" / "tests"
LANES = ("unit", "kernel", "system", "browser", "cluster")

# Two more than there are cores, since a fifth of the time and more is spent waiting, and SLURM's tests, which have a place
# from the beginning, wait for seven seconds of eight. With one fewer a tenth of the processors' time is not used.
JOBS = 4
# Its groups are begun first and one at a time: a host that starts in one cluster clears away what a killed one of another
# has left on this machine.
ALONE = "cluster"
# Its groups wait for those: a cluster makes and removes network interfaces, and Chromium drops what it has asked for
# when one comes or goes (ERR_NETWORK_CHANGED).
AFTERWARDS = "browser"
# Folders whose files share something dear, a cluster, a browser or a daemon, or that become the parent of every orphan:
# each is one process, as every folder of the unit lane is. Begun in this order, before all others: the longest must
# not be the last, with the others done.
TOGETHER = (
    "cluster/faults",
    "cluster/slurm",
    "browser/web",
    "kernel/sandbox",
    "kernel/kernels",
    "system/cli",
    "system/clients",
    "unit/notebook",
    "unit/plans",
    "unit/tools",
    "unit/kernels",
)

# Folders whose files share an engine and its host: dear enough to share, and not so dear that all must wait in a row.
SHARED = (
    "kernel/agent",
    "kernel/engine",
    "kernel/languages",
    "kernel/mcp",
    "kernel/plans",
    "kernel/tools",
    "kernel/verification",
    "system/daemon",
    "system/jupyter",
    "system/lab",
    "system/livedocs",
)
FILES_SHARED = 14

# How long an interrupted test may take for clearing away after itself.
END_S = 30

# Names a group's file for what forks of the run's own processes used of a processor (``support/zygote``).
ACCOUNT = "TESTS_PROCESSOR_ACCOUNT"

# How pytest ends after its last test.
LAST_TEST_CODES = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
MAX_UNSTEADY = 2
# With more failures than these the run is red, whatever a second look says.
MAX_SECOND_LOOKS = 40
SLOWEST_FILES = 10
SLOWEST_TESTS = 50

# What most tests import. Nothing here may start a thread, which a fork would not have.
PRELOADED = (
    "anyio._backends._asyncio",
    "hypothesis.strategies",
    "nbformat",
    "psutil",
    "cellwright.engine",
    "cellwright.plans",
)
# And what most tests of other lanes than `unit` do.
PRELOADED_BESIDES = (
    "cellwright.agent.data_agent",
    "cellwright.cli._commands",
    "cellwright.mcp.server",
    "cellwright.review",
    "cellwright.tools.calculator",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.openai",
)
# pytest would rewrite the assertions of its plugins, which are imported by then.
PRELOADED_OPTIONS = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
# To look for what other plugins dependencies bring, and to import them, takes longer than to collect most files.
PLUGINS = ("--disable-plugin-autoload", "-p", "anyio", "-p", "hypothesispytest", "-p", "timeout")


@dataclass(frozen=True)
class Group:
    """Test files, or some tests of one, that run in one process."""

    lane: str
    name: str
    targets: tuple[str, ...]


@dataclass
class Outcome:
    """What came of a group's process, as far as it got."""

    group: Group
    seconds: float
    processor_s: float
    """Of its process, of all that were waited for, and of hosts and commands that are forks of a process of the whole run."""
    log: Path
    counts: Counter[str] = field(default_factory=Counter)
    durations_s: Counter[str] = field(default_factory=Counter)
    """Of each test, fixtures included."""
    processors_s: Counter[str] = field(default_factory=Counter)
    """The processor time of each test; a process that several share counts for the one that ends it."""
    failures: dict[str, str] = field(default_factory=dict)
    """The error of each failed test, in a line; a process that died is a failure of the test it was in."""
    died: bool = False
    """Whether the process ended before its last test."""

    def ran(self, test: str) -> bool:
        """Whether a test ran, or some test of a file that could not be imported before."""
        return any(one == test or one.startswith(f"{test}::") for one in self.durations_s)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    lanes = options.lane or LANES
    groups = sorted(find_groups(lanes), key=_turn)
    if not groups:
        print(f"error: there is no test file in {', '.join(lanes)}", file=sys.stderr)
        return 2
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    # A shell's background job begins with it ignored, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _preload(PRELOADED if set(lanes) == {"unit"} else (*PRELOADED, *PRELOADED_BESIDES))
    if set(lanes) != {"unit"}:
        _begin_zygotes()
    # Orphans, such as daemons, become its children, whose use of a processor it is told at their end.
    become_subreaper()
    begun = time.monotonic()
    # Not a `TemporaryDirectory`, which every fork would remove at its end.
    directory = Path(tempfile.mkdtemp(prefix="cw-"))
    pool = Pool(directory, ("-m", "matrix" if options.matrix else "not matrix", *options.pytest))
    try:
        outcomes = [*_shown(pool.run(groups, jobs=options.jobs), len(groups))]
        unsteady, failed = look_again(pool, outcomes)
    finally:
        pool.end()
        shutil.rmtree(directory, ignore_errors=True)
    return report(outcomes, unsteady, failed, time.monotonic() - begun, pool.orphans_s)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lanes", description="Run the tests by lanes.")
    parser.add_argument("--lane", action="append", choices=LANES, help="this lane only; may be repeated")
    parser.add_argument("--matrix", action="store_true", help="the exhaustive products, and nothing else")
    parser.add_argument(
        "--jobs",
        type=int,
        default=JOBS,
        help="processes at a time (default: %(default)s)",
    )
    parser.add_argument("pytest", nargs="*", metavar="-- OPTION", help="goes to pytest")
    return parser.parse_args(arguments)


def find_groups(lanes: Iterable[str]) -> Iterator[Group]:
    """Yield the test files of these lanes, by the process that they run in."""
    for lane in lanes:
        found: dict[str, list[str]] = {}
        for path in sorted((TESTS / lane).rglob("test_*.py")):
            name = path.relative_to(TESTS).as_posix()
            found.setdefault(_folder(name), []).append(str(path))
        for name, paths in found.items():
            if name not in SHARED:
                yield Group(lane, name, tuple(paths))
                continue
            for begin in range(0, len(paths), FILES_SHARED):
                part = f"{name} from {Path(paths[begin]).name}"
                yield Group(lane, part, tuple(paths[begin : begin + FILES_SHARED]))


def _folder(name: str) -> str:
    """Return the folder with which a test file shares a process, or its own name."""
    lane, area, *_ = name.split("/")
    folder = f"{lane}/{area}"
    # Unit tests leave nothing behind that another could see.
    return folder if lane == "unit" or folder in (*TOGETHER, *SHARED) else name


def _turn(group: Group) -> tuple[int, bool, int]:
    """Order what is begun first, folders before single files, and the shortest, those of the unit lane, last."""
    place = TOGETHER.index(group.name) if group.name in TOGETHER else len(TOGETHER)
    return place, group.lane == "unit" or len(group.targets) == 1, -LANES.index(group.lane)


def _preload(modules: Iterable[str]) -> None:
    """Import what forks need.

    Raises:
        RuntimeError: an import started a thread.
    """
    leave_out_address_grammars()
    with warnings.catch_warnings(action="error"):
        for module in modules:
            importlib.import_module(module)
    if len(os.listdir("/proc/self/task")) > 1:  # threads are no files
        raise RuntimeError("A preloaded module has started a thread, which no fork would have")
    # A fork that looks through these for garbage would copy them.
    gc.collect()
    gc.freeze()


def _begin_zygotes() -> None:
    """Have one process of each kind for the whole run, instead of one for each of its processes."""
    from tests.support.daemon import forking

    forking.line()


@dataclass(frozen=True)
class Running:
    """A process at work on a group."""

    group: Group
    log: Path
    events: Path
    account: Path
    """Where forks of the run's own processes write what they used."""
    begun: float


class Pool:
    """Runs groups in forks of this process, each with a directory of its own below ``directory``."""

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        self._directory = directory
        self._options = options
        self._running: dict[int, Running] = {}
        self._numbers = itertools.count(1)
        self.orphans_s = 0.0
        """What processes whose parent had ended, such as daemons, used of a processor."""

    def run(self, groups: Sequence[Group], *, jobs: int) -> Iterator[Outcome]:
        """Yield each group's outcome as it ends; ``jobs`` run at a time, one of SLURM's among them."""
        alone = [group for group in groups if group.lane == ALONE]
        waiting = [group for group in groups if group.lane != ALONE]
        while alone or waiting or self._running:
            is_free = len(self._running) < jobs
            is_alone = any(running.group.lane == ALONE for running in self._running.values())
            has_cluster = bool(alone) or is_alone
            ready = [group for group in waiting if not has_cluster or group.lane != AFTERWARDS]
            if is_free and alone and not is_alone:
                self._begin(alone.pop(0))
            elif is_free and ready:
                waiting.remove(ready[0])
                self._begin(ready[0])
            else:
                yield self._wait()

    def end(self) -> None:
        """End what still runs, as an interrupted run leaves it."""
        for pid in self._running:
            os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + END_S
        while self._running:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            self._running.pop(pid, None)
            if time.monotonic() > deadline:
                for hung in self._running:
                    os.kill(hung, signal.SIGKILL)
            if pid == 0:
                time.sleep(0.05)

    def _begin(self, group: Group) -> None:
        number = next(self._numbers)
        log, events, account = (LOGS / f"{number}.{kind}" for kind in ("log", "jsonl", "forks"))
        running = Running(group, log, events, account, time.monotonic())
        options = (
            f"--basetemp={self._directory / str(number)}",
            *PRELOADED_OPTIONS,
            *PLUGINS,
            *self._options,
        )
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _work(running, (*options, *group.targets))
        self._running[pid] = running

    def _wait(self) -> Outcome:
        """Wait for the next process to end."""
        pid, status, used = os.wait4(-1, 0)
        while pid not in self._running:
            self.orphans_s += used.ru_utime + used.ru_stime
            pid, status, used = os.wait4(-1, 0)
        running = self._running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - running.begun
        processor_s = used.ru_utime + used.ru_stime + _used_by_forks_s(running.account)
        outcome = Outcome(running.group, seconds, processor_s, running.log)
        _take_down(outcome, running.events.read_text() if running.events.exists() else "", code)
        return outcome


def _work(running: Running, arguments: Sequence[str]) -> NoReturn:
    """Be a process of its own that runs pytest, and end."""
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        log = os.open(running.log, os.O_WRONLY | os.O_CREAT)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ[ACCOUNT] = str(running.account)
        with running.events.open("w", buffering=1) as events:
            code = pytest.main([*arguments], plugins=[Recorder(events, running.account)])
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  # boundary: nothing of the parent's may run in this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Recorder:
    """A pytest plugin that writes down what becomes of each test, at once: a process may die in the next one."""

    def __init__(self, events: IO[str], account: Path) -> None:
        self._events = events
        self._account = account

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(test=nodeid, state="begun", processor_s=self._processor_s())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        state = "ok" if report.passed and report.when != "call" else report.outcome
        self._write(test=report.nodeid, state=state, seconds=report.duration, error=_error(report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(test=nodeid, state="ended", processor_s=self._processor_s())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(test=report.nodeid, state="failed", seconds=0, error=_error(report))

    def _write(self, **event: Any) -> None:
        self._events.write(json.dumps(event) + "\n")

    def _processor_s(self) -> float:
        """Return what this process, those that it waited for and forks of the run's own have used so far."""
        return sum(os.times()[:4]) + _used_by_forks_s(self._account)


def _used_by_forks_s(account: Path) -> float:
    return sum(map(float, account.read_text().split())) if account.exists() else 0


def _error(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return what a failed report says, in a line."""
    if not report.failed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join((crash.message[:600] if crash is not None else report.longreprtext[-300:]).split())


def _take_down(outcome: Outcome, events: str, code: int) -> None:
    """Fill an outcome from what its process wrote and how it ended."""
    current, passed = None, set()
    for event in map(json.loads, events.splitlines()):
        test, state = event["test"], event["state"]
        current = test if state == "begun" else None if state == "ended" else current
        outcome.durations_s[test] += event.get("seconds", 0)
        if "processor_s" in event:
            outcome.processors_s[test] += event["processor_s"] * (1 if state == "ended" else -1)
        if state == "failed":
            outcome.failures.setdefault(test, event["error"])
        if state == "passed":
            passed.add(test)
        if state in ("passed", "skipped"):
            outcome.counts[state] += 1
    outcome.counts["passed"] -= sum(test in passed for test in outcome.failures)
    outcome.died = current is not None or code not in LAST_TEST_CODES
    if current is not None or (outcome.died and not outcome.failures):
        at = current or outcome.group.targets[0]
        outcome.failures.setdefault(at, f"the process ended in it, with {code}")
    outcome.counts["failed"] = len(outcome.failures)


def look_again(pool: Pool, outcomes: Sequence[Outcome]) -> tuple[dict[str, str], dict[str, str]]:
    """Run what failed once more, alone; return what passed then and what did not, each with its first error."""
    broken = [outcome for outcome in outcomes if outcome.failures]
    unsteady: dict[str, str] = {}
    failed = {test: error for outcome in broken for test, error in outcome.failures.items()}
    if not failed or len(failed) > MAX_SECOND_LOOKS:
        return unsteady, failed
    print(f"\n{len(failed)} failed, and run once more, alone:", flush=True)
    for outcome in broken:
        # What came after a test in which the process died has not run at all.
        targets = outcome.group.targets if outcome.died else tuple(outcome.failures)
        (again,) = _shown(pool.run([replace(outcome.group, targets=targets)], jobs=1), 1)
        healed = [test for test in outcome.failures if again.ran(test) and test not in again.failures]
        unsteady |= {test: failed.pop(test) for test in healed}
        failed |= {test: error for test, error in again.failures.items() if test not in failed}
        if outcome.died:
            outcome.counts = again.counts
        else:
            outcome.counts.update(passed=len(healed), failed=-len(healed))
    return unsteady, failed


def _shown(outcomes: Iterable[Outcome], total: int) -> Iterator[Outcome]:
    """Print a line for each outcome, and what pytest said where something failed."""
    for number, outcome in enumerate(outcomes, 1):
        told = ", ".join(f"{count} {state}" for state, count in outcome.counts.items() if count)
        print(
            f"[{number:3}/{total}] {outcome.seconds:6.1f} s {outcome.processor_s:6.1f} s of a processor  "
            f"{outcome.group.name}: {told or 'none'}",
            flush=True,
        )
        if outcome.failures:
            print(outcome.log.read_text(errors="replace"), flush=True)
        yield outcome


def report(
    outcomes: Sequence[Outcome],
    unsteady: dict[str, str],
    failed: dict[str, str],
    seconds: float,
    orphans_s: float,
) -> int:
    """Print the lanes, the slowest files and what failed, and keep it with the logs; return the exit code."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.counts)
    summary = [
        *_by_lane(outcomes),
        f"{'orphans':41} {orphans_s:15.1f}",
        *_slowest(outcomes),
        f"UNSTEADY: {len(unsteady)} failed first and passed alone; at most {MAX_UNSTEADY} may",
        *(f"  {test}\n      {error}" for test, error in unsteady.items()),
        *([f"FAILED: {len(failed)}"] if failed else []),
        *(f"  {test}\n      {error}" for test, error in failed.items()),
        f"{seconds:.0f} s",
        f"tests: {total['passed']} passed, {len(failed)} failed, {total['skipped']} skipped",
    ]
    (LOGS / "summary.txt").write_text("\n".join(summary) + "\n")
    print("", *summary, sep="\n")
    return 1 if failed or len(unsteady) > MAX_UNSTEADY else 0


def _by_lane(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "lane       tests  seconds of its processes  of a processor"
    for lane in LANES:
        if mine := [outcome for outcome in outcomes if outcome.group.lane == lane]:
            count = sum(outcome.counts.total() for outcome in mine)
            seconds = sum(outcome.seconds for outcome in mine)
            processor_s = sum(outcome.processor_s for outcome in mine)
            yield f"{lane:8} {count:7} {seconds:24.0f} {processor_s:15.0f}"


def _slowest(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the slowest files, and those that use most of a processor; such tests go to a file beside the logs."""
    durations_s, processors_s = Counter[str](), Counter[str]()
    for outcome in outcomes:
        durations_s.update(outcome.durations_s)
        # A process that died has no end of its last test.
        processors_s.update({test: used_s for test, used_s in outcome.processors_s.items() if used_s >= 0})
    kept = []
    for words, tests in (("take longest", durations_s), ("use most of a processor", processors_s)):
        kept += [f"the {SLOWEST_TESTS} tests that {words}", *_lines(tests.most_common(SLOWEST_TESTS))]
        files: Counter[str] = Counter()
        for test, spent_s in tests.items():
            files[test.partition("::")[0]] += spent_s
        yield f"the {SLOWEST_FILES} files that {words}"
        yield from _lines(files.most_common(SLOWEST_FILES))
    yield f"the same of tests: {LOGS.relative_to(TESTS.parent)}/slowest.txt"
    (LOGS / "slowest.txt").write_text("\n".join(kept) + "\n")


def _lines(spent: Iterable[tuple[str, float]]) -> Iterator[str]:
    return (f"{spent_s:8.1f} s  {name}" for name, spent_s in spent)


if __name__ == "__main__":
    sys.exit(main())
