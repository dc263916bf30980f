from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright import Engine, Session
from cellwright.engine._branches import Branches
from cellwright.engine.introspection import recorded_inputs
from cellwright.errors import CheckpointRefused, PlanBusy, PlanError, TooManyCells, UnknownPlan
from cellwright.notebook import CellAdded, read_notebook
from cellwright.plans import Check, Failure, Outline, Plan, Planner, Proposal, TodoOutline
from cellwright.plans._cells import keeping_changes
from cellwright.plans._machine import Begun, WriteCell, advance
from cellwright.plans.model import plan_of
from cellwright.plans.reports import plan_json, summary_text
from tests.conftest import Require
from tests.kernel.engine.conftest import OpenEngine

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


def mend(before: str, after: str) -> Callable[[Failure], Proposal | None]:
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


async def test_where_a_plan_halts_its_notebook_is_in_the_file(engine: Engine) -> None:
    planner, session = await planned(engine, outline("a = 1", None))
    assert (await run(planner, session)).phase == "waiting"
    document, _ = read_notebook(session.path)
    kept = plan_of(document.metadata)
    assert kept is not None
    assert (kept.phase, statuses(kept), "todo-1" in document) == ("waiting", ["done", "pending"], True)


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


SETUP = """
items, table, ready = [10, 20, 30], {"units": 5}, True
with open("sales.csv", "w") as file: file.write("a,b")
"""


def checked(code: str, check: str) -> TodoOutline:
    return TodoOutline(code, code, (Check("expression", check),))


async def test_what_is_only_likely_is_tried_in_branches_and_kept_where_the_check_holds(
    engine: Engine,
) -> None:
    steps = (
        TodoOutline("setup", SETUP),
        checked("rows = open('sale.csv').read()", "rows == 'a,b'"),
        checked("last = items[3]", "last == 30"),
        checked("sold = table['unit']", "sold == 5"),
        checked("number = int('12a')", "number == 298"),
    )
    planner, session = await planned(engine, Outline("candidates", steps))
    before = {one.id for one in engine.sessions()}
    plan = await run(planner, session)
    assert plan.phase == "succeeded", plan.report
    assert [session.cell(todo.id).source for todo in plan.todos[1:]] == [
        "rows = open('sales.csv').read()",
        "last = items[2]",
        "sold = table['units']",
        "number = int('12a', 16)",
    ]
    assert [todo.attempts[-1].fixer for todo in plan.todos[1:]] == ["missing_file", "bounds", "key", "value"]
    told = [todo.attempts[-1].reason or "" for todo in plan.todos[1:]]
    assert all("Tried in a branch from before the step: its checks hold." in one for one in told[:3])
    assert told[3].endswith(
        "Of 2 candidates tried in branches from before the step, only with this one its checks hold."
    )
    assert {one.id for one in engine.sessions()} == before


@pytest.mark.parametrize(
    ("code", "check", "says"),
    [
        ("last = items[3]", "ready", "has 3 elements"),  # it holds already, and so proves nothing
        ("number = int('12a')", "number > 0", "its checks hold with 2 of them"),
        ("last = items[3]", "last == 99", "its checks hold with none of them"),
    ],
)
async def test_a_candidate_that_the_check_does_not_single_out_is_only_suggested(
    engine: Engine, code: str, check: str, says: str
) -> None:
    steps = (TodoOutline("setup", SETUP), checked(code, check))
    planner, session = await planned(engine, Outline("candidates", steps))
    plan = await run(planner, session)
    assert (plan.phase, len(plan.todos[1].attempts)) == ("stopped", 1)
    assert session.cell(plan.todos[1].id).source == code
    assert plan.report is not None
    assert says in plan.report.suggestion


async def test_a_trial_suspends_nobody_and_replays_nothing(
    open_here: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise CheckpointRefused("not here")

    async def run_steps(engine: Engine) -> Plan:
        steps = (TodoOutline("setup", SETUP), checked("last = items[3]", "last == 30"))
        planner, session = await planned(engine, Outline("candidates", steps))
        return await run(planner, session)

    async with open_here(max_sessions=2) as engine:
        beside = await engine.create("beside")
        plan = await run_steps(engine)
        assert (plan.phase, beside.state, len(engine.sessions())) == ("stopped", "active", 2)
        assert plan.report is not None
        assert "has 3 elements" in plan.report.suggestion
        monkeypatch.setattr(Branches, "_by_checkpoint", refuse)
        for session in engine.sessions("active"):
            await session.suspend()
        assert ((await run_steps(engine)).phase, len(engine.sessions())) == ("stopped", 3)
        monkeypatch.undo()
        for session in engine.sessions("active"):
            await session.suspend()
        assert (await run_steps(engine)).phase == "succeeded"


async def test_a_certain_fix_runs_from_the_state_before_the_cell_and_is_recorded(engine: Engine) -> None:
    session = await engine.create("fixing")
    planner = Planner(engine, fixers=[mend("misspelt", "items")])
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
    planner = Planner(engine, fixers=[mend("wrong", "wrongwrong")])
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
    planner = Planner(engine, fixers=[mend("raise", "pass; raise")])
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
    assert [execution.state for execution in await session.run_all()] == ["ok"] * 3
    assert plan.phase == "succeeded"


async def test_a_skipped_step_is_said_to_be_so_once_above_its_cell(engine: Engine) -> None:
    planner, session = await planned(engine, outline("nothing_here", None))
    await run(planner, session)
    await (await planner.skip(session, "not\nneeded")).wait()
    await (await planner.fix(session, "b = 1")).wait()
    assert session.cell("todo-1-text").source == "## 1. step 1\n\n*Skipped: not needed*"


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


async def test_a_failure_tells_also_of_the_files_elsewhere_in_the_project(
    own_engine: Engine, tmp_path: Path
) -> None:
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


async def test_an_adviser_is_asked_where_no_fixer_is_certain_and_one_that_fails_is_passed_over(
    engine: Engine,
) -> None:
    async def broken(failure: Failure) -> Proposal | None:
        raise RuntimeError(failure.message)

    async def knows(failure: Failure) -> Proposal | None:
        return Proposal("a model", "it must be 7", f"answer = 7  # not {failure.source}", certain=True)

    session = await engine.create("advised")
    planner = Planner(engine, fixers=[mend("never", "there")], advisers=[broken, knows])
    await planner.create(session, outline("nobody_knows_this"))
    plan = await run(planner, session)
    assert plan.phase == "succeeded"
    assert plan.todos[0].attempts[-1].fixer == "a model"


async def test_where_no_checkpoint_can_be_taken_the_attempt_says_that_nothing_was_undone(
    engine: Engine,
) -> None:
    session = await engine.create("threads")
    planner = Planner(engine, fixers=[mend("misspelt", "items")])
    thread = "import threading\ngo = threading.Event()\nthreading.Thread(target=go.wait, daemon=True).start()\nitems = []"
    await planner.create(
        session, outline(thread, "items.append(1)\nmisspelt.append(2)", "go.set()\nprint(items)")
    )
    plan = await run(planner, session)
    assert plan.phase == "succeeded"
    assert session.cell("todo-3").outputs[0]["text"] == "[1, 1, 2]\n"
    note = plan.todos[1].attempts[-1].note
    assert note is not None
    assert "not undone" in note


async def test_a_plan_in_r_runs_checks_and_stops_with_the_same_report(
    own_engine: Engine, require: Require
) -> None:
    spec = Path("/usr/share/jupyter/kernels/ir/kernel.json")
    require("the R kernel", spec.exists(), "apt install r-cran-irkernel")
    session = await own_engine.create("in R", language="R")
    planner = Planner(own_engine)
    good = TodoOutline("add", "x <- 20 + 1", (Check("expression", "x == 21"),))
    await planner.create(session, Outline("in R", (good, TodoOutline("fail", "stop('no such thing')"))))
    plan = await run(planner, session)
    assert statuses(plan) == ["done", "failed"]
    assert plan.report is not None
    assert "no such thing" in plan.report.message


async def test_a_step_that_kills_its_kernel_is_tried_once_more_and_then_told(engine: Engine) -> None:
    planner, session = await planned(
        engine, outline("a = 1", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    )
    plan = await run(planner, session)
    assert statuses(plan) == ["done", "failed"]
    assert (len(plan.todos[1].attempts), plan.todos[1].retries) == (1, 1)
    plan = (await (await planner.fix(session, "print(a)")).wait()).plan
    assert plan.phase == "succeeded"
    assert session.cell("todo-2").outputs[0]["text"] == "1\n"


async def test_decisions_about_a_plan_that_runs_and_about_none_are_refused(engine: Engine) -> None:
    planner, session = await planned(engine, outline("import time; time.sleep(1000)"))
    running = await planner.start(session)
    assert await planner.start(session) is running
    with pytest.raises(PlanBusy):
        await planner.skip(session)
    await running.cancel()
    with pytest.raises(PlanError, match="has a plan already"):
        await planner.create(session, outline("x"))
    with pytest.raises(UnknownPlan):
        planner.plan(await engine.create("without a plan"))


async def test_a_plan_goes_on_in_a_branch_from_where_it_was(engine: Engine) -> None:
    planner, session = await planned(engine, outline("a = 1", None))
    await run(planner, session)
    branch = (await engine.branch(session.id))[0].session
    plan = (await (await planner.fix(branch, "b = a + 1")).wait()).plan
    assert plan.phase == "succeeded"
    assert plan.notices == ()
    assert planner.plan(session).phase == "waiting"


async def test_a_plan_with_more_steps_than_its_notebook_has_room_for_is_refused(engine: Engine) -> None:
    session = await engine.create("many steps")
    await session.add_cell("mine = 1")
    with pytest.raises(TooManyCells, match="a plan of 100 steps the notebook has 101 cells"):
        await Planner(engine).create(session, outline(*["x"] * 100))
    other = await engine.create("as many as a plan may have")
    await Planner(engine).create(other, outline(*["x"] * 100))


async def test_a_plan_leaves_the_cells_alone_that_are_called_as_its_own_would_be(engine: Engine) -> None:
    session = await engine.create("own cells")
    await session.apply(
        [CellAdded("plan", "code", "mine = 1", 1), CellAdded("todo-1", "code", "mine = 2", 2)]
    )
    await Planner(engine).create(session, outline("x = 1"))
    plan = await run(Planner(engine), session)
    assert plan.phase == "succeeded"
    assert [session.cell(cell_id).source for cell_id in ("plan", "todo-1")] == ["mine = 1", "mine = 2"]


async def test_a_plan_whose_validation_would_take_a_cell_of_the_notebook_is_refused(engine: Engine) -> None:
    session = await engine.create("own validation")
    await session.apply([CellAdded("validation", "code", "mine = 1", 1)])
    with pytest.raises(PlanError, match="has a cell 'validation' already"):
        await Planner(engine).create(session, outline("x", validation=TodoOutline("v", "assert x")))
    assert session.cell("validation").source == "mine = 1"


async def test_where_other_code_ran_after_a_failed_attempt_the_next_says_that_nothing_was_undone(
    engine: Engine,
) -> None:
    planner, session = await planned(engine, outline("items = []", "items.append(1)\nnobody_knows_this"))
    await run(planner, session)
    await (await session.execute_code("other = len(items)")).wait()
    plan = (await (await planner.fix(session, "print(items, other)")).wait()).plan
    assert plan.phase == "succeeded"
    assert session.cell("todo-2").outputs[0]["text"] == "[1] 1\n"
    assert "other code ran after it" in (plan.todos[1].attempts[-1].note or "")


async def test_a_fixer_of_a_failed_check_knows_whether_the_cell_can_be_undone(engine: Engine) -> None:
    known: list[bool] = []

    def look(failure: Failure) -> Proposal | None:
        known.append(failure.surroundings.has_checkpoint)
        return None

    session = await engine.create("checked")
    planner = Planner(engine, fixers=[look])
    checks = (Check("expression", "x == 2"),)
    await planner.create(session, Outline("checked", (TodoOutline("one", "x = 1", checks),)))
    assert (await run(planner, session)).phase == "stopped"
    assert known == [True]


async def test_what_a_cell_read_is_recorded_also_where_its_run_was_cut_off(
    own_engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text("42")
    session = await own_engine.create("cut off", directory=tmp_path)
    planner = Planner(own_engine)
    begun = advance(await planner.create(session, outline("print(open('data.txt').read())")), Begun(1.0, 0))
    writes = [effect for effect in begun.effects if isinstance(effect, WriteCell)]
    await session.apply(keeping_changes(session.document, begun.plan, writes))
    await session.watch_inputs()
    await session.run("todo-1")
    assert planner.was_cut_off(session)
    assert (await run(planner, session)).phase == "succeeded"
    assert list(recorded_inputs(session.cell("todo-1").metadata)) == ["data.txt"]
