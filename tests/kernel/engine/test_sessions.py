from __future__ import annotations

import json
from pathlib import Path

import anyio
import nbformat
import pytest

from cellwright import Engine
from cellwright.engine import _admission
from cellwright.engine.host_actions import stop_host
from cellwright.errors import (
    CellwrightError,
    KernelBusy,
    NotebookError,
    StaleEdit,
    StorageInUse,
    TooManyCells,
    TooManySessions,
    UnknownCell,
    UnknownExecution,
    UnknownSession,
)
from cellwright.hosts.local import HostPaths, is_held
from cellwright.sandbox.tiers import UNSAFE_BANNER
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def test_a_new_session_has_a_notebook_that_states_its_problem_and_a_live_kernel(engine: Engine) -> None:
    session = await engine.create("Analyse the sales of 2026")
    assert session.path.parent.name == "notebooks"
    assert session.path.name.endswith("_analyse_the_sales_of_2026.ipynb")
    assert session.cells[0].kind == "markdown"
    assert "Analyse the sales of 2026" in session.cells[0].source
    assert (session.state, session.generation) == ("active", 1)


async def test_state_lasts_from_cell_to_cell(engine: Engine) -> None:
    session = await engine.create("state")
    first = await session.add_cell("x = 20")
    second = await session.add_cell("x + 1")
    assert (await session.run(first.id)).state == "ok"
    execution = await session.run(second.id)
    assert execution.text == "21\n"
    assert execution.outputs[0]["data"]["text/plain"] == "21"


async def test_the_file_has_the_outputs_and_is_a_valid_notebook(engine: Engine) -> None:
    session = await engine.create("outputs")
    cell = await session.add_cell("print('hello'); 6 * 7")
    await session.run(cell.id)
    await session.save()
    notebook = nbformat.read(session.path, as_version=4)
    nbformat.validate(notebook)
    saved = notebook.cells[1]
    assert [output.output_type for output in saved.outputs] == ["stream", "execute_result"]
    assert saved.execution_count == 1
    assert saved.metadata.cellwright.state == "ok"


async def test_a_failing_cell_is_a_value_that_says_what_failed(engine: Engine) -> None:
    session = await engine.create("error")
    cell = await session.add_cell("1 / 0")
    execution = await session.run(cell.id)
    assert execution.state == "error"
    assert execution.error is not None
    assert execution.error["ename"] == "ZeroDivisionError"
    assert (await session.run((await session.add_cell("'still here'")).id)).ok


async def test_cells_of_one_session_run_in_order_and_sessions_side_by_side(engine: Engine) -> None:
    one, two = await engine.create("one"), await engine.create("two")
    await one.execute_code("import time; order = []")
    slow = await one.execute_code("time.sleep(1000)")
    queued = await one.execute_code("order.append(1)")
    with fail_after():
        assert (await (await two.execute_code("'quick'")).wait()).ok
        assert (slow.done, queued.state) == (False, "queued")
        await one.cancel(slow.id)
        assert (await slow.wait()).state == "interrupted"
        assert (await queued.wait()).ok


async def test_an_execution_can_be_read_by_its_id_after_its_end(engine: Engine) -> None:
    session = await engine.create("later")
    execution = await (await session.execute_code("print('kept')")).wait()
    assert engine.execution(execution.id).text == "kept\n"
    history = await engine.history(session.id)
    assert [(past.id, past.text) for past in history] == [(execution.id, "kept\n")]
    assert history[0].record.started_at is not None
    assert history[0].record.ended_at is not None


async def test_attempts_at_one_cell_are_counted(engine: Engine) -> None:
    session = await engine.create("attempts")
    cell = await session.add_cell("1")
    assert [(await session.run(cell.id)).record.attempt for _ in range(3)] == [1, 2, 3]
    assert len(await engine.history(session.id, cell_id=cell.id)) == 3


async def test_run_all_stops_at_the_first_failure_and_drops_the_rest(engine: Engine) -> None:
    session = await engine.create("all")
    for source in ("a = 1", "boom", "b = 2", "c = 3"):
        await session.add_cell(source)
    executions = await session.run_all()
    assert [execution.state for execution in executions] == ["ok", "error", "interrupted", "interrupted"]
    assert executions[2].reason == f"An earlier cell failed ({executions[1].cell_id})"
    allowed = await session.run_all(allow_errors=True)
    assert [execution.state for execution in allowed] == ["ok", "error", "ok", "ok"]


async def test_running_from_a_cell_on_leaves_out_what_is_above(engine: Engine) -> None:
    session = await engine.create("onward")
    cells = [await session.add_cell(source) for source in ("boom", "a = 1", "a + 1")]
    executions = [await one.wait() for one in await session.execute_all(since=cells[1].id)]
    assert [(one.cell_id, one.state) for one in executions] == [(cell.id, "ok") for cell in cells[1:]]


async def test_run_all_leaves_out_empty_and_skipped_cells_and_allows_wanted_failures(engine: Engine) -> None:
    session = await engine.create("tags")
    await session.add_cell("  \n")
    await session.add_cell("skipped = 1", metadata={"tags": ["skip-execution"]})
    await session.add_cell("1 / 0", metadata={"tags": ["raises-exception"]})
    await session.add_cell("'end'")
    assert [execution.state for execution in await session.run_all()] == ["error", "ok"]


async def test_an_edit_with_an_old_version_is_refused_with_the_difference(engine: Engine) -> None:
    session = await engine.create("versions")
    cell = await session.add_cell("x = 1")
    edited = await session.edit_cell(cell.id, "x = 2", expected_version=cell.version)
    with pytest.raises(StaleEdit) as refused:
        await session.edit_cell(cell.id, "x = 3", expected_version=cell.version)
    assert "-x = 2" in refused.value.diff
    assert edited.version > cell.version
    assert session.cell(cell.id).source == "x = 2"


async def test_cells_can_be_moved_and_deleted(engine: Engine) -> None:
    session = await engine.create("moving")
    first, second = await session.add_cell("1"), await session.add_cell("2")
    await session.move_cell(second.id, 1)
    assert [cell.id for cell in session.cells] == ["problem", second.id, first.id]
    await session.delete_cell(first.id)
    assert [cell.id for cell in session.cells] == ["problem", second.id]


async def test_suspending_keeps_all_but_the_kernel(engine: Engine) -> None:
    session = await engine.create("pause")
    await session.execute_code("x = 1")
    await session.suspend()
    assert session.state == "suspended"
    assert session in engine.sessions("suspended")
    assert session not in engine.sessions("active")
    execution = await (await session.execute_code("'x' in globals()")).wait()
    assert (execution.text, execution.generation, session.state) == ("False\n", 2, "active")


async def test_stopping_this_machines_host_ends_it_at_once_and_says_whose_kernels_it_had(
    engine: Engine,
) -> None:
    session, idle = await engine.create("at work"), await engine.create("idle")
    await idle.suspend()
    running = await session.execute_code("import time; time.sleep(600)", timeout_s=900)
    with fail_after():
        stopped = await stop_host(engine, "local")
    assert (session.id in stopped.sessions, idle.id in stopped.sessions) == (True, False)
    assert stopped.executions == (running.id,)
    assert not is_held(HostPaths(engine.settings.storage).lock), "it is gone when the call returns"
    assert (stopped.info.state, session.state, running.state) == ("idle", "suspended", "died")
    again = await (await session.execute_code("6 * 7")).wait()
    assert (again.text, again.generation) == ("42\n", 2), "another one starts on need"


async def test_a_restart_raises_the_generation(engine: Engine) -> None:
    session = await engine.create("restart")
    await session.execute_code("x = 1")
    await session.restart()
    execution = await (await session.execute_code("x")).wait()
    assert (execution.state, execution.generation) == ("error", 2)


async def test_deleting_a_session_leaves_the_notebook(engine: Engine) -> None:
    session = await engine.create("gone")
    await session.add_cell("kept = True")
    await engine.delete(session.id)
    assert session not in engine.sessions()
    assert "kept = True" in session.path.read_text()
    with pytest.raises(UnknownSession):
        engine.session(session.id)


async def test_opening_a_file_twice_gives_one_session_and_runs_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "mine.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print('no')")])
    nbformat.write(notebook, path)
    session = await engine.open(path)
    assert await engine.open(str(path)) is session
    assert (session.state, session.cells[0].outputs) == ("suspended", ())


async def test_what_is_not_there_is_named_with_what_is(engine: Engine) -> None:
    session = await engine.create("errors")
    with pytest.raises(UnknownCell, match="nope"):
        await session.run("nope")
    with pytest.raises(NotebookError, match="Only code cells can run"):
        await session.run("problem")
    with pytest.raises(UnknownSession, match=session.id):
        engine.session("s-nothing")
    with pytest.raises(UnknownExecution):
        engine.execution("x-nothing")
    with pytest.raises(NotebookError, match=r"missing\.ipynb"):
        await engine.open("missing.ipynb")


async def test_the_limits_on_sessions_and_cells_name_their_settings(open_here: OpenEngine) -> None:
    async with open_here(max_sessions=1, max_cells=2, when_full="refuse") as engine:
        session = await engine.create("first")
        with pytest.raises(TooManySessions, match="max_sessions"):
            await engine.create("second")
        await session.add_cell("1")
        with pytest.raises(TooManyCells, match="max_cells"):
            await session.add_cell("2")
        await session.suspend()
        await engine.create("second")


async def test_at_the_limit_the_longest_idle_session_makes_room(
    open_here: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_here(max_sessions=2, standby_kernels=1) as engine:
        busy = await engine.create("busy")
        running = await busy.execute_code("import time; time.sleep(600)")
        gone = await engine.create("used just now")
        with pytest.raises(TooManySessions, match="within the last 60 s"):
            await engine.create("too early")
        monkeypatch.setattr(_admission, "_LEAST_IDLE_S", 0)
        last = await engine.create("number 3")
        assert (busy.state, gone.state) == ("active", "suspended"), "what runs is not taken away"
        assert "max_sessions" in (gone.record.reason or "")
        replay = await last.replays.start(upto=None, timeout_s=None, host=None)
        assert not last.is_idle, "its first step is about to run"
        await replay.wait()
        assert last.is_idle
        with last.at_work(), pytest.raises(TooManySessions, match="at work"):
            await engine.create("one too many")
        with last.at_work(), pytest.raises(TooManySessions, match="at work"):
            await gone.resume()
        await gone.resume()
        assert (gone.state, last.state) == ("active", "suspended")
        await engine.cancel(running.id)

    async with open_here(max_sessions=2, when_full="refuse") as engine:
        for session in engine.sessions("active"):
            await session.suspend()
        refused: list[TooManySessions] = []

        async def try_to_create() -> None:
            try:
                await engine.create("at once")
            except TooManySessions as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(try_to_create)
        assert (len(refused), len(engine.sessions("active"))) == (2, 2)


async def test_two_engines_cannot_share_a_storage_directory(open_here: OpenEngine) -> None:
    async with open_here():
        with pytest.raises(StorageInUse, match="CELLWRIGHT_STORAGE"):
            async with open_here():
                pass


async def test_a_session_whose_kernel_cannot_start_leaves_no_notebook(engine: Engine, tmp_path: Path) -> None:
    before = engine.sessions()
    with pytest.raises(CellwrightError, match="There is no kernel named 'klingon'"):
        await engine.create("no such language", language="klingon", directory=tmp_path)
    assert (engine.sessions(), list(tmp_path.iterdir())) == (before, [])


async def test_inspection_tells_variables_functions_and_modules(engine: Engine) -> None:
    session = await engine.create("inspect")
    await (
        await session.execute_code("import math\nn = 3\nrows = [1, 2]\ndef double(x): return 2 * x")
    ).wait()
    found = await session.inspect()
    variables = {variable.name: variable for variable in found.variables}
    assert variables["n"].type == "int"
    assert variables["rows"].digest == "[1, 2]"
    assert [(function.name, function.signature) for function in found.functions] == [("double", "(x)")]
    assert [module.name for module in found.modules] == ["math"]
    assert found.cwd == str(session.cwd)


async def test_a_busy_kernel_is_not_inspected(engine: Engine) -> None:
    session = await engine.create("busy")
    execution = await session.execute_code("while True: pass")
    with fail_after():
        with pytest.raises(KernelBusy):
            await session.inspect()
        await session.interrupt()
        assert (await execution.wait()).state == "interrupted"


async def test_completion_at_a_cursor(engine: Engine) -> None:
    session = await engine.create("complete")
    await (await session.execute_code("a_long_name = 1")).wait()
    completion = await session.complete("print(a_lon)", 11)
    assert "a_long_name" in completion.matches
    assert (completion.start, completion.end) == (6, 11)


async def test_metadata_and_outputs_that_nobody_knows_survive(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "strange.ipynb"
    cell = {
        "cell_type": "code",
        "id": "strange",
        "metadata": {"x-vendor": {"deep": [1, 2.50, None]}},
        "source": "1",
        "outputs": [{"output_type": "hologram", "beam": 7}],
        "execution_count": None,
    }
    content = {"cells": [cell], "metadata": {"y": 1}, "nbformat": 4, "nbformat_minor": 5, "extra": True}
    path.write_text(json.dumps(content))
    session = await engine.open(path)
    await session.add_cell("2")
    await session.save()
    saved = json.loads(path.read_text())
    assert saved["cells"][0]["outputs"] == cell["outputs"]
    assert saved["cells"][0]["metadata"] == cell["metadata"]
    assert (saved["extra"], saved["metadata"]["y"]) == (True, 1)


async def test_what_a_caller_raises_leaves_the_engine_as_it_was_raised(open_here: OpenEngine) -> None:
    with pytest.raises(UnknownSession):
        async with open_here() as engine:
            engine.session("s-nothing")
    with pytest.raises(RuntimeError, match="mine"):
        async with open_here():
            raise RuntimeError("mine")


async def test_sessions_that_start_at_once_each_get_a_kernel_of_their_own(engine: Engine) -> None:
    sessions = [await engine.create(f"one of many {number}") for number in range(6)]
    for session in sessions:
        await session.suspend()
    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(session.resume)
    runs = [await session.execute_code("import os; os.getcwd()") for session in sessions]
    with fail_after():
        assert [(await run.wait()).state for run in runs] == ["ok"] * len(sessions)
    for session in sessions:
        await engine.delete(session.id)


async def test_a_kernel_that_an_unconfined_engine_left_is_still_told_to_be_unsafe(
    open_here: OpenEngine,
) -> None:
    async with open_here(unsafe_no_sandbox=True) as engine:
        session = await engine.create("outlives its engine")
        assert (session.tier, session.banner, engine.banner) == ("none", UNSAFE_BANNER, UNSAFE_BANNER)
    async with open_here() as engine:
        session = engine.session(session.id)
        assert (session.state, session.tier) == ("active", "none")
        assert (session.banner, engine.banner) == (UNSAFE_BANNER, UNSAFE_BANNER)
        await session.restart()
        assert session.tier in {"A", "B", "C"}
        assert (session.banner, engine.banner) == (None, None)
