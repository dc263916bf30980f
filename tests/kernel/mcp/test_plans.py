from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import nbformat
import pytest
from mcp import Client

from cellwright import Engine, Event
from cellwright.mcp import McpServer
from cellwright.plans import Outline, Planner, TodoOutline
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import (
    PACE,
    Connect,
    ask,
    connected,
    images_of,
    new_session,
    read,
    refused,
    running,
    text_of,
)
from tests.waiting import fail_after, look_again

pytestmark = pytest.mark.anyio

WAITS = "import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
CHART = "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2]);"


def todo(code: str | None, description: str = "", **more: Any) -> dict[str, Any]:
    about = {"description": description or (code or "to be written").splitlines()[0], **more}
    return about | ({"code": code} if code is not None else {})


async def planned(client: Client, *todos: dict[str, Any], **more: Any) -> str:
    made = await ask(client, "plan_create", problem="a problem", todos=list(todos), **more)
    return str(made["session_id"])


async def statuses(client: Client, session: str) -> list[str]:
    found = await ask(client, "plan_status", session_id=session)
    return [each["status"] for each in found["todos"]]


async def carried_on(client: Client, engine: Engine, tool: str, **arguments: Any) -> None:
    """Have a tool carry a plan on, and return once a cell of it runs."""
    with engine.subscribe(arguments["session_id"]) as events, fail_after():
        await ask(client, tool, **arguments, wait=0, response_format="json")
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.executing":
                return


# Making ---------------------------------------------------------------------------------------------------------------


async def test_a_plan_is_made_in_a_new_notebook_and_nothing_is_run(client: Client, engine: Engine) -> None:
    made = await ask(
        client,
        "plan_create",
        problem="Sales by region",
        todos=[
            todo("x = 1", "Begin", accept="x == 1"),
            todo(None, "Go on", accept=["y > x", "file: out.txt"], depends_on=[1]),
        ],
        validation=todo("assert y"),
    )
    session = engine.session(made["session_id"])
    assert session.path.parent.name == "notebooks"
    assert session.path.name.endswith("_sales_by_region.ipynb")
    plan = made["plan"]
    assert (plan["phase"], plan["draft"], plan["total"]) == ("ready", False, 2)
    assert [each["status"] for each in plan["todos"]] == ["pending", "pending"]
    assert plan["todos"][1]["accept"] == ["`y > x` is true", "the file `out.txt` exists"]
    assert plan["todos"][1]["depends_on"] == [1]
    assert plan["todos"][1]["needs_code"]
    assert plan["next_call"] == f"Next: plan_run(session_id='{session.id}')"
    assert not session.runs.count
    assert "1. Begin" in session.document.cells[1].source


async def test_a_plan_goes_into_a_session_that_is_there(client: Client) -> None:
    session = await new_session(client)
    assert await planned(client, todo("1"), session_id=session) == session
    said = await refused(client, "plan_create", problem="again", todos=[todo("1")], session_id=session)
    assert "has a plan already" in said


@pytest.mark.parametrize(
    ("todos", "complaint"),
    [
        ([todo("1", depends_on=[2]), todo("2")], "step 1 depends on step 2, which comes after it"),
        ([todo("1", accept="x ==")], "no Python expression"),
        ([todo("1", accept="file: ../secret")], "leads out of the working directory"),
        ([{"code": "1"}], "todos.0.description: field required"),
        ([todo("1", retries=9)], "there is no argument 'todos.0.retries'"),
        ([todo(str(number)) for number in range(101)], "101 steps, and 100 are allowed"),
    ],
)
async def test_an_outline_that_cannot_be_carried_out_is_refused_and_leaves_no_notebook(
    client: Client, engine: Engine, todos: list[dict[str, Any]], complaint: str
) -> None:
    before = {session.id for session in engine.sessions()}
    said = await refused(client, "plan_create", problem="wrong", todos=todos)
    assert complaint in said
    assert {session.id for session in engine.sessions()} == before


CSV = "region,units\nnorth,12\nsouth,9\neast,14\nwest,8\n"


async def test_without_todos_a_plan_is_drafted_from_the_callers_files_and_says_so(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "all" / "data").mkdir(parents=True)
    (tmp_path / "all" / "data" / "sales.csv").write_text(CSV)
    async with running(McpServer(engine, pace=PACE)) as face, connected(face, directory=tmp_path) as client:
        made = await ask(client, "plan_create", problem="Summarise the units of sales.csv and plot them")
        plan = made["plan"]
        assert plan["draft"]
        assert "Load CSV file" in [each["description"] for each in plan["todos"]]
        assert not any(each.get("needs_code") for each in plan["todos"])
        result = await client.call_tool("plan_run", {"session_id": made["session_id"]})
        assert "✅ Plan succeeded" in text_of(result)
        assert "This plan is a draft, made by rule: look it over" in text_of(result)
        assert images_of(result)


async def test_a_draft_that_cannot_be_made_leaves_no_notebook(client: Client, engine: Engine) -> None:
    before = {session.id for session in engine.sessions()}
    assert "A draft needs a problem" in await refused(client, "plan_create", problem="   ")
    assert {session.id for session in engine.sessions()} == before


async def test_a_draft_reads_nothing_through_links(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.csv").write_text(CSV)
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "secret.csv").symlink_to(tmp_path / "elsewhere" / "secret.csv")
    (project / "folder").symlink_to(tmp_path / "elsewhere")
    async with running(McpServer(engine, pace=PACE)) as face, connected(face, directory=project) as client:
        made = await ask(client, "plan_create", problem="Analyse the CSV data")
        load = next(each for each in made["plan"]["todos"] if each["description"].startswith("Load"))
        assert load["needs_code"]


async def test_a_session_without_a_plan_says_how_to_get_one(client: Client) -> None:
    session = await new_session(client)
    for tool in ("plan_run", "plan_status", "plan_fix", "plan_skip"):
        said = await refused(client, tool, session_id=session)
        assert f"The notebook of session {session} has no plan" in said
        assert "plan_create" in said


# Running --------------------------------------------------------------------------------------------------------------


async def test_a_plan_that_succeeds_answers_with_its_steps_outputs_and_summary(client: Client) -> None:
    session = await planned(
        client, todo("x = 20", "Begin"), todo("x += 1; print('x is', x)", "Go on", accept="x == 21")
    )
    text = await read(client, "plan_run", session_id=session)
    first, *rest = text.splitlines()
    assert first.startswith(f"session {session} | run ")
    assert first.endswith("| succeeded | 2 of 2 TODOs")
    assert rest[0].startswith("✓ 1. Begin")
    assert rest[1].startswith("✓ 2. Go on")
    assert "✅ Plan succeeded: 2 of 2 TODOs done" in text
    assert "Validation: none defined" in text
    assert "\nx is 21" in text
    assert "context: new variables x" in text
    assert await statuses(client, session) == ["done", "done"]
    again = await read(client, "plan_run", session_id=session)
    assert "✅ Plan succeeded" in again
    assert "x is 21" not in again


async def test_a_chart_that_a_step_draws_reaches_the_model_as_a_picture(client: Client) -> None:
    session = await planned(client, todo(CHART, "Draw", accept="output: image/png"))
    result = await client.call_tool("plan_run", {"session_id": session})
    assert [image.mime_type for image in images_of(result)] == ["image/png"]
    assert "✓ 1. Draw" in text_of(result)


async def test_the_json_form_has_the_plan_the_run_and_what_cells_put_out(client: Client) -> None:
    session = await planned(client, todo("print('hello')\n6 * 7", "Say"))
    found = await ask(client, "plan_run", session_id=session, response_format="json")
    assert (found["phase"], found["successful"], found["done"]) == ("succeeded", True, 1)
    assert found["run_id"]
    assert found["summary"].startswith("✅ Plan succeeded")
    (execution,) = found["executions"]
    assert (execution["stdout"], execution["result"], execution["status"]) == ("hello\n", "42", "ok")
    assert execution["cell_id"] == found["todos"][0]["cell_id"]
    assert json.dumps(await ask(client, "plan_status", session_id=session))


async def test_a_plan_that_stops_answers_with_the_report_exactly_and_the_traceback(client: Client) -> None:
    session = await planned(
        client, todo("1", "Begin"), todo("raise RuntimeError('STOP: no data')", "Fail"), todo("2")
    )
    text = await read(client, "plan_run", session_id=session)
    report = (
        "❌ Execution stopped at cell 2\nTODO: Fail\nError Type: RuntimeError\nError Message: STOP: no data\n"
        "Attempted Fixes: 0\nSuggestion: "
    )
    assert report in text
    assert f"plan_fix(session_id='{session}', code='…') with other code, or plan_skip(" in text
    assert f"or plan_run(session_id='{session}') to try the same again" in text
    assert "RuntimeError: STOP: no data" in text.partition("Suggestion")[2]
    found = await ask(client, "plan_status", session_id=session)
    assert found["phase"] == "stopped"
    assert found["report"]["text"].startswith(report)
    assert (found["report"]["cell"], found["report"]["error_type"]) == (2, "RuntimeError")
    assert [each["status"] for each in found["todos"]] == ["done", "failed", "pending"]


@pytest.mark.matrix  # `plans/test_running` mends it, `…stops_answers_with_the_report…` has the words
async def test_new_code_mends_the_step_is_told_as_a_fix_and_the_plan_goes_on(client: Client) -> None:
    session = await planned(client, todo("x = 1"), todo("y = x + missing_thing", "Add"), todo("x + y"))
    assert "❌ Execution stopped at cell 2" in await read(client, "plan_run", session_id=session)
    text = await read(client, "plan_fix", session_id=session, code="y = x + 41")
    assert "| succeeded | 3 of 3 TODOs" in text
    assert "fix of 2 by caller: ok" in text
    assert "-y = x + missing_thing\n+y = x + 41" in text
    assert "\n43" in text
    assert "missing_thing" not in await read(client, "plan_run", session_id=session)


async def test_a_step_without_code_is_left_to_the_caller_who_is_told_which_is_next(client: Client) -> None:
    session = await planned(client, todo("x = 1", "Begin"), todo(None, "Think"), todo("y", "End"))
    text = await read(client, "plan_run", session_id=session)
    assert "| waiting | 1 of 3 TODOs" in text
    assert f"Next: TODO 2 (Think) has no code: plan_fix(session_id='{session}', code='…')" in text
    found = await ask(client, "plan_fix", session_id=session, code="y = x + 1", response_format="json")
    assert found["phase"] == "succeeded"
    assert [each["attempts"] for each in found["todos"]] == [1, 1, 1]
    assert "fixes" not in found["todos"][1]


@pytest.mark.matrix  # `plans/test_running` skips, `system/cli/test_plans` shows it
async def test_a_skipped_step_warns_those_that_depend_on_it_and_says_why(client: Client) -> None:
    session = await planned(
        client,
        todo("raise RuntimeError('STOP')", "Fetch"),
        todo("1", "Use", depends_on=[1]),
        todo("2", "Other"),
    )
    await read(client, "plan_run", session_id=session)
    text = await read(client, "plan_skip", session_id=session, reason="no network here")
    assert "↷ 1. Fetch" in text
    assert "skipped: no network here" in text
    assert "warning: step 2: It depends on step 1 (Fetch), which was skipped" in text
    assert "✅ Plan succeeded: 2 of 3 TODOs done, 1 skipped by decision" in text
    assert await statuses(client, session) == ["skipped", "done", "done"]


async def test_a_validation_that_fails_stops_the_plan_and_cannot_be_skipped(client: Client) -> None:
    session = await planned(client, todo("x = 1"), validation=todo("assert x == 2, 'STOP'", "Check all"))
    text = await read(client, "plan_run", session_id=session)
    assert "TODO: Check all" in text
    assert "plan_skip" not in text
    assert "cannot be skipped" in await refused(client, "plan_skip", session_id=session)
    done = await read(client, "plan_fix", session_id=session, code="assert x == 1")
    assert "Validation: passed" in done


async def test_a_large_plan_with_much_output_keeps_to_the_budget(client: Client) -> None:
    steps = [todo(f"print('{number} ' * 2000)", f"Step number {number} of many") for number in range(1, 46)]
    session = await planned(client, *steps)
    text = await read(client, "plan_run", session_id=session, max_tokens=500)
    assert "✓ 1 to 45: done" in text
    assert len(text) < 500 * 4 + 45 * 200


# Long runs ------------------------------------------------------------------------------------------------------------


async def begun(engine: Engine, session_id: str) -> None:
    """Return once what runs has printed something."""
    with fail_after(), engine.subscribe(session_id) as events:
        if any(execution.outputs for execution in engine.session(session_id).runs.live):
            return
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.output":
                return


async def let_go(engine: Engine, session_id: str) -> None:
    """Let a cell that waits end; only now, since what lay there before it began was undone with an attempt before."""
    await begun(engine, session_id)
    (engine.session(session_id).cwd / "go").touch()


async def test_a_run_that_takes_long_is_handed_back_tells_progress_and_can_be_waited_for(
    engine: Engine,
) -> None:
    async with (
        running(McpServer(engine, pace=replace(PACE, wait_s=0.3))) as face,
        connected(face) as client,
    ):
        session = await planned(client, todo("a = 1", "Begin"), todo(WAITS, "Wait"), todo("print('the end')"))

        async def progress(progress: float, total: float | None, message: str | None) -> None:  # the SDK's
            if "1 of 3 TODOs, at 2. Wait" in (message or ""):
                (engine.session(session).cwd / "go").touch()

        text = await read(client, "plan_run", session_id=session)
        assert "| running | " in text
        run = text.partition("run_id='")[2].partition("'")[0]
        assert f"plan_run(session_id='{session}', run_id='{run}') goes on waiting" in text
        await begun(engine, session)
        text = await read(client, "plan_run", session_id=session, run_id=run, wait=0)
        assert "| running | 1 of 3 TODOs" in text
        assert "is running" in await refused(client, "plan_fix", session_id=session, code="1")
        assert (await ask(client, "plan_status", session_id=session))["run_id"] == run
        waits = {"session_id": session, "run_id": run, "wait": 240_000}
        done = text_of(await client.call_tool("plan_run", waits, progress_callback=progress))
        assert f"| run {run} | succeeded | 3 of 3 TODOs" in done
        assert "the end" in done


async def test_waiting_for_a_run_that_is_over_starts_none(client: Client) -> None:
    session = await planned(client, todo("raise RuntimeError('STOP')"))
    found = await ask(client, "plan_run", session_id=session, response_format="json")
    again = await ask(client, "plan_run", session_id=session, run_id=found["run_id"], response_format="json")
    assert again["phase"] == "stopped"
    assert "attempts_before" not in again["todos"][0]
    other = await ask(client, "plan_run", session_id=session, response_format="json")
    assert other["todos"][0]["attempts_before"] == 1


async def test_whoever_goes_on_while_a_run_comes_to_its_halt_begins_another(engine: Engine) -> None:
    planner, session = Planner(engine), await engine.create("halting")
    await planner.create(
        session, Outline("halting", (TodoOutline("Fail", code="raise RuntimeError('STOP')"),))
    )
    first = await planner.start(session)
    with fail_after():
        while first.plan.phase == "running":
            await anyio.lowlevel.checkpoint()
        assert not first.done, "it is still being kept"
        second = await planner.start(session)
        assert second is not first
        await second.wait()
    assert len(second.plan.todos[0].earlier) == 1


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_cancelling_the_call_pauses_the_plan_and_it_goes_on(
    connect: Connect, engine: Engine, mode: str
) -> None:
    async with connect(mode) as client:
        session = await planned(client, todo("n = 1"), todo(f"n += 1\n{WAITS}"), todo("n"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "plan_run", {"session_id": session})
            await begun(engine, session)
            tasks.cancel_scope.cancel()
        with fail_after():
            while (found := await ask(client, "plan_status", session_id=session))["phase"] == "running":
                await look_again()
        assert found["phase"] == "paused"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(let_go, engine, session)
            text = await read(client, "plan_run", session_id=session)
        assert "| succeeded | 3 of 3 TODOs" in text
        assert "\n2\n" in text


@pytest.mark.matrix  # `plans/test_running` is interrupted, a call is cancelled below
async def test_interrupting_the_kernel_pauses_the_plan(client: Client, engine: Engine) -> None:
    session = await planned(client, todo(WAITS, "Wait"))
    handed = await ask(client, "plan_run", session_id=session, wait=0, response_format="json")
    await ask(client, "kernel_interrupt", session_id=session)
    text = await read(client, "plan_run", session_id=session, run_id=handed["run_id"])
    assert "| paused | 0 of 1 TODOs" in text
    assert f"Next: plan_run(session_id='{session}') goes on with it" in text
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(let_go, engine, session)
        assert "✅" in await read(client, "plan_run", session_id=session)


# What else speaks of plans --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["kernel_restart", "session_suspend"])
async def test_taking_the_kernel_away_pauses_the_plan_first(
    client: Client, engine: Engine, tool: str
) -> None:
    session = await planned(client, todo(WAITS), todo("after = 1"))
    await carried_on(client, engine, "plan_run", session_id=session)
    await ask(client, tool, session_id=session)
    found = await ask(client, "plan_status", session_id=session)
    assert (found["phase"], await statuses(client, session)) == ("paused", ["pending", "pending"])


async def test_a_plan_that_runs_is_paused_when_a_branch_takes_its_sessions_place(
    client: Client, engine: Engine
) -> None:
    session = await planned(client, todo("a = 1"), todo(None))
    await ask(client, "plan_run", session_id=session, response_format="json")
    branch = (await engine.branch(session))[0].session
    await carried_on(client, engine, "plan_fix", session_id=session, code=WAITS)
    await ask(client, "branch_adopt", session_id=branch.id)
    found = await ask(client, "plan_status", session_id=session)
    assert (found["phase"], await statuses(client, session)) == ("waiting", ["done", "pending"])
    assert engine.session(session).runs.live == []


async def test_lists_and_context_tell_of_the_plan(client: Client) -> None:
    session = await planned(client, todo("1"), todo(None, "Think"))
    await read(client, "plan_run", session_id=session)
    listed = await ask(client, "notebook_list")
    assert [one["plan"] for one in listed["sessions"] if one["session_id"] == session] == [
        "waiting, 1 of 2 TODOs, at 2. Think"
    ]
    context = await ask(client, "session_context", session_id=session)
    assert context["plan"] == "waiting, 1 of 2 TODOs, at 2. Think"


async def test_prompts_speak_of_the_plan_where_there_is_one(client: Client) -> None:
    tools = {tool.name for tool in (await client.list_tools()).tools}
    session, plain = await planned(client, todo("1")), await new_session(client)
    for name in ("continue_notebook", "fix_and_retry", "skip_cell", "show_status"):
        texts = []
        for one in (session, plain):
            got = await client.get_prompt(name, {"session": one})
            texts.append(got.messages[0].content.text)  # type: ignore[union-attr]
        with_plan, without = ({word.strip(".,;:") for word in text.split()} for text in texts)
        assert {word for word in with_plan if word.startswith("plan_")}, name
        assert {word for word in with_plan if word.startswith(("plan_", "notebook_", "kernel_"))} <= tools
        assert not {word for word in without if word.startswith("plan_")}, name
        assert session in texts[0]


@pytest.mark.matrix  # `plans/test_survival` cuts a plan off
async def test_a_plan_survives_its_engine_and_says_that_it_was_interrupted(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        session = await planned(client, todo("x = 1"), todo(WAITS), todo("x"))
        await ask(client, "plan_run", session_id=session, wait=0, response_format="json")
        await begun(engine, session)
        work = engine.session(session).cwd
    # Only now: else the plan might come to its end before its engine does.
    (work / "go").touch()
    async with (
        open_at(tmp_path) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        found = await ask(client, "plan_status", session_id=session)
        assert found["phase"] in ("interrupted", "paused")
        assert f"plan_run(session_id='{session}') goes on" in found["next_call"]
        assert "✅" in await read(client, "plan_run", session_id=session)
        notebook = nbformat.read(engine.session(session).path, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)  # type: ignore[no-untyped-call]
    end_host(tmp_path / "state")
