from __future__ import annotations

from pathlib import Path

import pytest

from cellwright import Engine, Session
from cellwright.plans import Check, Failure, Outline, Plan, Planner, Proposal, TodoOutline
from cellwright.plans.reports import plan_json, summary_text

pytestmark = pytest.mark.anyio


def outline(*codes: str | None, **options: object) -> Outline:
    todos = tuple(TodoOutline(f"step {number}", code) for number, code in enumerate(codes, 1))
    return Outline("a problem", todos, **options)  # type: ignore[arg-type]


async def planned(engine: Engine, plan: Outline) -> tuple[Planner, Session]:
    planner, session = Planner(engine), await engine.create(plan.problem)
    await planner.create(session, plan)
    return planner, session


async def run(planner: Planner, session: Session) -> Plan:
    return (await (await planner.start(session)).wait()).plan


def statuses(plan: Plan) -> list[str]:
    return [todo.status for todo in plan.steps]


def mend(before: str, after: str) -> object:
    """A fixer that knows one mistake."""

    def fixer(failure: Failure) -> Proposal | None:
        if before not in failure.source:
            return None
        return Proposal(
            "mend", f"{before} is {after}", failure.source.replace(before, after, 1), certain=True
        )

    return fixer


async def test_every_step_becomes_a_code_cell_with_a_markdown_cell_before_it(engine: Engine) -> None:
    planner, session = await planned(
        engine, outline("a = 1", "b = a + 1", validation=TodoOutline("b is 2", "assert b == 2"))
    )
    plan = await run(planner, session)
    assert plan.phase == "succeeded"
    assert statuses(plan) == ["done", "done", "done"]
    assert [(cell.id, cell.kind) for cell in session.cells] == [
        ("problem", "markdown"),
        ("plan", "markdown"),
        ("todo-1-text", "markdown"),
        ("todo-1", "code"),
        ("todo-2-text", "markdown"),
        ("todo-2", "code"),
        ("validation-text", "markdown"),
        ("validation", "code"),
    ]
    assert session.cell("todo-2-text").source == "## 2. step 2"
    assert [cell.execution_count for cell in session.cells if cell.kind == "code"] == [1, 2, 3]
    assert "Validation: passed" in summary_text(plan)


async def test_checks_decide_and_leave_the_numbers_of_cells_alone(engine: Engine) -> None:
    checks = (Check("expression", "x == 41"), Check("output", "forty"), Check("file", "made.txt"))
    code = "x = 41; print('forty'); open('made.txt', 'w').close()"
    planner, session = await planned(
        engine,
        Outline(
            "checks",
            (TodoOutline("one", code, checks), TodoOutline("two", "y = x", (Check("expression", "y == 0"),))),
        ),
    )
    plan = await run(planner, session)
    assert statuses(plan) == ["done", "failed"]
    assert [session.cell(cell_id).execution_count for cell_id in ("todo-1", "todo-2")] == [1, 2]
    assert plan.report is not None
    assert plan.report.text.splitlines()[:3] == [
        "❌ Execution stopped at cell 2",
        "TODO: two",
        "Error Type: AssertionError",
    ]
    assert "y == 0" in plan.report.message


async def test_a_certain_fix_runs_from_the_state_before_the_cell_and_is_recorded(engine: Engine) -> None:
    session = await engine.create("fixing")
    planner = Planner(engine, fixers=[mend("misspelt", "items")])  # type: ignore[list-item]
    await planner.create(
        session, outline("items = []", "items.append(1)\nmisspelt.append(2)\ncount = len(items)")
    )
    plan = await run(planner, session)
    assert plan.phase == "succeeded"
    shown = await (await session.execute_code("print(items, count)")).wait()
    assert shown.text == "[1, 2] 2\n"
    fixed = plan.todos[1].attempts
    assert [attempt.state for attempt in fixed] == ["error", "ok"]
    assert fixed[1].diff is not None
    assert "-misspelt.append(2)\n+items.append(2)" in fixed[1].diff
    assert plan_json(plan)["todos"][1]["fixes"][0]["reason"] == "misspelt is items"


async def test_no_more_than_three_attempts_are_made_in_a_round(engine: Engine) -> None:
    session = await engine.create("never right")
    planner = Planner(engine, fixers=[mend("wrong", "wrongwrong")])  # type: ignore[list-item]
    await planner.create(session, outline("wrong"))
    for rounds in (1, 2):
        plan = await run(planner, session)
        assert plan.phase == "stopped"
        assert len(plan.todos[0].attempts) == 3
        assert len(plan.todos[0].earlier) == 3 * (rounds - 1)
    history = [execution for execution in await engine.history(session.id) if execution.cell_id == "todo-1"]
    assert len(history) == 6


@pytest.mark.parametrize(
    "code", ["raise ValueError('STOP: ask somebody')", "raise SystemExit(3)", "raise PermissionError('no')"]
)
async def test_what_cannot_be_recovered_stops_at_once(engine: Engine, code: str) -> None:
    session = await engine.create("stopping")
    planner = Planner(engine, fixers=[mend("raise", "pass; raise")])  # type: ignore[list-item]
    await planner.create(session, outline(code, "after = 1"))
    plan = await run(planner, session)
    assert statuses(plan) == ["failed", "pending"]
    assert len(plan.todos[0].attempts) == 1
    assert plan.report is not None
    assert not plan.report.recoverable


async def test_a_step_without_code_waits_for_the_caller_who_gives_it(engine: Engine) -> None:
    planner, session = await planned(engine, outline("a = 1", None, "c = b"))
    plan = await run(planner, session)
    assert plan.phase == "waiting"
    assert plan_json(plan)["next"] == {"number": 2, "description": "step 2", "needs_code": True}
    plan = (await (await planner.fix(session, "b = 2")).wait()).plan
    assert plan.phase == "succeeded"
    assert plan.todos[1].attempts[0].fixer is None


async def test_new_code_mends_a_step_that_stopped_and_the_plan_goes_on(engine: Engine) -> None:
    planner, session = await planned(engine, outline("x = unknown_name", "y = x + 1"))
    assert (await run(planner, session)).phase == "stopped"
    plan = (await (await planner.fix(session, "x = 1")).wait()).plan
    assert plan.phase == "succeeded"
    assert [attempt.fixer for attempt in plan.todos[0].attempts] == ["caller"]
    assert session.cell("todo-1").source == "x = 1"


async def test_a_skipped_step_warns_those_that_depend_on_it(engine: Engine) -> None:
    todos = (
        TodoOutline("fails", "nothing_here"),
        TodoOutline("needs it", "a = 1", depends_on=(1,)),
        TodoOutline("needs that", "b = 1", depends_on=(2,)),
        TodoOutline("stands alone", "c = 1"),
    )
    planner, session = await planned(engine, Outline("skipping", todos))
    await run(planner, session)
    plan = (await (await planner.skip(session, "not needed")).wait()).plan
    assert statuses(plan) == ["skipped", "done", "done", "done"]
    assert [bool(todo.warnings) for todo in plan.todos] == [False, True, True, False]
    assert plan.phase == "succeeded"


async def test_the_network_is_tried_three_more_times_with_the_same_code(engine: Engine) -> None:
    code = "tries = open('tries.txt', 'a').write('x')\nraise ConnectionError('unreachable')"
    planner, session = await planned(engine, outline(code))
    object.__setattr__(engine, "settings", engine.settings.model_copy(update={"plan_backoff_s": 0.01}))
    plan = await run(planner, session)
    assert plan.phase == "stopped"
    assert (len(plan.todos[0].attempts), plan.todos[0].retries) == (1, 3)
    history = [execution for execution in await engine.history(session.id) if execution.cell_id == "todo-1"]
    assert len(history) == 4


async def test_an_interrupt_pauses_and_the_plan_goes_on_from_there(engine: Engine) -> None:
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('went')"
    planner, session = await planned(engine, outline("a = 1", code))
    running = await planner.start(session)
    while not any(
        execution.cell_id == "todo-2" and execution.state == "running" for execution in session.runs.live
    ):
        await running.changed(0.05)
    await running.cancel()
    plan = planner.plan(session)
    assert (plan.phase, statuses(plan)) == ("paused", ["done", "pending"])
    await (await session.execute_code("open('go', 'w').close()")).wait()
    assert (await run(planner, session)).phase == "succeeded"


async def test_a_plan_goes_on_after_its_kernel_was_lost_with_a_notice(engine: Engine) -> None:
    planner, session = await planned(engine, outline("a = 20", "b = a + 1", None))
    await run(planner, session)
    await session.restart()
    plan = (await (await planner.fix(session, "c = b * 2\nprint(c)")).wait()).plan
    assert plan.phase == "succeeded", plan
    assert "was gone" in plan.notices[0]
    assert session.cell("todo-3").outputs[0]["text"] == "42\n"


async def test_a_failure_tells_also_of_the_files_elsewhere_in_the_project(own_engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").touch()
    session = await own_engine.create("look around", mode="overlay")
    await (await session.execute_code("open('own.txt', 'w').close(); open('sales.csv')")).wait()
    diagnosis = await session.diagnose()
    assert diagnosis is not None
    assert {"own.txt", "../data/", "../data/sales.csv"} <= set(diagnosis.files)
    assert diagnosis.files.index("own.txt") < diagnosis.files.index("../data/")
    assert "../notebooks/" not in diagnosis.files
