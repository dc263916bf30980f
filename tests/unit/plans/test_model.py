"""A plan as it stands in a notebook that anybody may have written, and after any number of rounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cellwright.errors import PlanError
from cellwright.plans import Attempt, Plan, Todo, _machine
from cellwright.plans._machine import advance
from cellwright.plans.model import MAX_EARLIER, plan_of, with_plan
from cellwright.plans.reports import plan_brief, plan_in, plan_json, summary_text
from cellwright.plans.runner import diff_of

ONE = {"id": "todo-1", "description": "a", "code": "x"}
TRIED = {"state": "error"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"todos": []}, "0 steps"),
        ({"todos": [ONE | {"id": f"todo-{number}"} for number in range(101)]}, "101 steps"),
        ({"todos": [ONE, ONE]}, "that of another"),
        ({"todos": [ONE | {"id": "not an id"}]}, "no id"),
        ({"todos": [ONE | {"cell_id": "somebody-elses"}]}, "no id"),
        ({"todos": [ONE | {"id": "validation"}]}, "called validation"),
        ({"validation": ONE | {"id": "other"}}, "called validation"),
        ({"todos": [ONE | {"depends_on": ["todo-2"]}, ONE | {"id": "todo-2"}]}, "no earlier step"),
        ({"todos": [ONE | {"timeout_s": -1}]}, "time-out of -1"),
        ({"todos": [ONE | {"timeout_s": float("nan")}]}, "time-out of nan"),
        ({"todos": [ONE | {"status": "failed"}], "phase": "stopped"}, "never tried"),
        ({"todos": [ONE | {"attempts": [TRIED]}], "phase": "running"}, "nothing of it runs"),
        ({"todos": "nonsense"}, "Expected `array`"),
        ({"version": 2}, "version 2"),
    ],
)
def test_a_plan_that_nobody_can_have_made_is_refused_before_anything_is_done_with_it(
    changes: dict[str, Any], why: str
) -> None:
    metadata = {"cellwright": {"plan": {"problem": "p", "todos": [ONE]} | changes}}
    with pytest.raises(PlanError, match=why):
        plan_of(metadata)
    assert "cannot be read" in (plan_in(metadata) or "")


def test_a_skipped_step_is_not_counted_as_done() -> None:
    todos = tuple(
        Todo(f"todo-{number}", "a", status=status)
        for number, status in enumerate(("done", "skipped", "pending"), 1)
    )
    plan = Plan("p", todos, phase="paused")
    found = plan_json(plan)
    assert (found["done"], found["skipped"], found["total"]) == (1, 1, 3)
    assert plan_brief(plan).startswith("paused, 1 of 3 TODOs, 1 skipped, at 3. a")


def test_a_plan_stays_small_after_hundreds_of_rounds_and_counts_them_all() -> None:
    plan = Plan("p", (Todo("todo-1", "a"),))
    failed = Attempt("x-1", "error", 0.1, error_type="KeyError", error="'a'")
    sizes = []
    for number in range(300):
        code = f"{number}\n" * 2_000
        plan = advance(plan, _machine.Coded(code, 1.0, 0, diff_of("x\n" * 2_000, code))).plan
        plan = advance(plan, _machine.Failed(failed, "unrecoverable", "s", 0, 1.0)).plan
        sizes.append(len(json.dumps(with_plan({}, plan))))
    assert sizes[-1] < 1.1 * sizes[MAX_EARLIER + 1]
    assert plan.report is not None
    assert plan.report.fixes == 299
    assert plan_json(plan)["todos"][0]["attempts_before"] == 299
    assert "Attempts: 300, of which fixes: 299" in summary_text(plan)
