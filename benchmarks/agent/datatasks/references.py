"""The sets' own solutions, without any model: do they run, do they give the same, and how long does it take?

A step passes where its cells run without failing and leave what they should: the answers where the set states them,
else the values that plain Python has. Tasks whose packages or files are not here are told and left out for everybody.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from datatasks.answers import settle
from datatasks.contenders import Cell, Ran, Runner
from datatasks.probes import probe_call, probe_setup
from datatasks.tasks import Step, Task, TaskSet, stage, wants_of

__all__ = ["JUDGE", "References", "Tried", "cells_of", "judge", "run_references"]

JUDGE = "plain Python"
"""Whose values the others are held against, and so the first to run."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One task, by one contender."""

    task: str
    seconds: float
    passed: int
    steps: int
    failures: tuple[str, ...]


@dataclass(slots=True)
class References:
    """What came of a set, by contender."""

    tried: dict[str, list[Tried]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Tasks that cannot run here, and why."""

    def rate(self, name: str) -> float:
        """The share of steps that passed."""
        tried = self.tried[name]
        return sum(one.passed for one in tried) / max(1, sum(one.steps for one in tried))

    def seconds(self, name: str) -> float:
        return sum(one.seconds for one in self.tried[name])

    def ratio(self, name: str, other: str) -> float:
        """How the seconds compare, as the median over tasks."""
        pairs = zip(self.tried[name], self.tried[other], strict=True)
        return statistics.median(one.seconds / against.seconds for one, against in pairs)


async def run_references(
    tasks: TaskSet,
    contenders: Mapping[str, Runner],
    scratch: Path,
    *,
    rounds: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> References:
    """Run every task that has a solution, the contenders taking turns; the first among them is the judge.

    Of several rounds the fastest counts for time, and the first for what came of it.
    """
    result = References({name: [] for name in contenders})
    for number, task in enumerate(tasks.tasks):
        reason = wants_of(task) if task.solved else "no solution in the set"
        if reason is not None:
            result.left_out[task.id] = reason
            continue
        ran: dict[str, list[tuple[float, list[Ran]]]] = {name: [] for name in contenders}
        for turn in range(rounds):
            for name in _in_turn(list(contenders), number + turn):
                ran[name].append(await _run(task, contenders[name], scratch / f"{number}-{turn}-{len(name)}"))
        truth = ran[JUDGE][0][1]
        for name, runs in ran.items():
            seconds = min(seconds for seconds, _ in runs)
            result.tried[name].append(_tried(task, seconds, runs[0][1], truth))
        say(f"{number + 1}/{len(tasks.tasks)} {task.id}: " + _line(result))
    return result


def cells_of(task: Task) -> list[Cell]:
    """The cells of a task; after the last one of each step, what it is about is looked at."""
    cells = []
    for step in task.steps:
        names = list(step.rules.get("namespace_check") or {})
        cells += [Cell(code, probe_call(names)) for code in step.cells]
    return cells


def judge(step: Step, ran: Sequence[Ran], truth: Sequence[Ran]) -> str | None:
    """Why a step did not pass, or None."""
    for one in ran:
        if one.failure is not None:
            return one.failure.splitlines()[0]
    if step.answers:
        settled = settle("\n".join(one.said for one in ran), step.answers)
        wrong = [name for name, right in settled.items() if not right]
        return f"wrong: {', '.join(wrong)}" if wrong else None
    for one, other in zip(ran, truth, strict=True):
        if other.failure is None and one.found.split()[:1] != other.found.split()[:1]:
            return f"gives {one.found.strip()!r}, plain Python {other.found.strip()!r}"
    return None


def _line(result: References) -> str:
    last = {name: tried[-1] for name, tried in result.tried.items()}
    return ", ".join(f"{name} {one.passed}/{one.steps} in {one.seconds:.2f} s" for name, one in last.items())


def _tried(task: Task, seconds: float, ran: Sequence[Ran], truth: Sequence[Ran]) -> Tried:
    failures, at = [], 0
    for number, step in enumerate(task.steps):
        end = at + len(step.cells)
        if step.question and (reason := judge(step, ran[at:end], truth[at:end])):
            failures.append(f"{task.id}[{number}] {reason}")
        at = end
    steps = len(task.questions)
    return Tried(task.id, seconds, steps - len(failures), steps, tuple(failures))


async def _run(task: Task, runner: Runner, directory: Path) -> tuple[float, list[Ran]]:
    stage(task, directory)
    try:
        return await runner(cells_of(task), probe_setup(), directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _in_turn(names: list[str], turn: int) -> list[str]:
    at = turn % len(names)
    return names[at:] + names[:at]
