"""Judges cells against a set's own solution, by running both in a process that nothing else depends on.

The process runs the steps before with the set's solutions, twice, and then each side in its own namespace and its own
directory. What is judged is code from a notebook, run from the top in plain Python: an answer that only its kernel
knew does not count.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from datatasks.tasks import Task, stage

__all__ = ["judge_cells", "main"]

_LIMIT_S = 300.0


async def judge_cells(task: Task, number: int, cells: Sequence[str], scratch: Path) -> list[dict[str, Any]]:
    """What is wrong with the cells that answer a step: ``rule``, ``reason``, ``presentation`` of each finding."""
    step = task.steps[number]
    places = [stage(task, scratch / side) for side in ("reference", "given")]
    wanted = {
        "before": [cell for earlier in task.steps[:number] for cell in earlier.cells],
        "reference": list(step.cells),
        "given": list(cells),
        "rules": dict(step.rules),
        "places": [str(place) for place in places],
    }
    home = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    try:
        with anyio.move_on_after(_LIMIT_S):
            done = await anyio.run_process(
                [sys.executable, "-m", "datatasks.judging"],
                input=json.dumps(wanted).encode(),
                env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
                check=False,
            )
            if done.returncode:
                reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
                return [_finding("judge", "".join(reason) or f"the process ended with {done.returncode}")]
            return list(json.loads(done.stdout))
        return [_finding("judge", f"took longer than {_LIMIT_S:g} s")]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Judge what standard input says."""
    from datatasks.rules import Finding, apply_rules, unknown_rules  # pandas is for this process alone

    wanted = json.load(sys.stdin)
    answer_to = sys.stdout
    warnings.simplefilter("ignore")
    reference_place, given_place = wanted["places"]
    reference = _run(wanted["before"], wanted["reference"], reference_place)
    given = _run(wanted["before"], wanted["given"], given_place)
    if reference.failure is not None:
        found = [Finding("reference", f"the set's own solution fails here: {reference.failure}")]
    else:
        found = apply_rules(wanted["rules"], reference, given)
        found += [Finding("unjudged", rule, presentation=True) for rule in unknown_rules(wanted["rules"])]
    answer = [_finding(one.rule, one.reason, presentation=one.presentation) for one in found]
    json.dump(answer, answer_to)


def _run(before: list[str], cells: list[str], place: str) -> Any:
    from datatasks.plain import run_cell  # see above
    from datatasks.probes import told
    from datatasks.rules import Run

    os.chdir(place)
    namespace: dict[str, Any] = {"__name__": "__main__", "_": ""}
    said, result = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for cell in before:
                # Where the set's own solution fails, the next question is asked all the same.
                with contextlib.suppress(Exception):
                    run_cell(cell, namespace)
        known = {name: repr(told(namespace[name])) for name in namespace if not name.startswith("_")}
        random.seed(0)
        for cell in cells:
            # Only what the last cell says is the step's.
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                result = run_cell(cell, namespace)
    except BaseException as error:  # noqa: BLE001  # boundary: whatever the cells do is a finding
        return Run(namespace, failure=f"{type(error).__name__}: {error}")
    gone = object()
    changed = {name for name, was in known.items() if repr(told(namespace.get(name, gone))) != was}
    printed = said.getvalue() if result is None else said.getvalue().removesuffix(f"{result!r}\n")
    return Run(namespace, result, printed, None, frozenset(changed), cells[-1] if cells else "")


def _finding(rule: str, reason: str, *, presentation: bool = False) -> dict[str, Any]:
    return {"rule": rule, "reason": reason, "presentation": presentation}


if __name__ == "__main__":
    main()
