"""Notebooks of more than one language: one order, one place, and each language its own kernel."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cellwright import Engine
from cellwright.engine import Execution, Session
from cellwright.notebook.languages import cell_metadata
from cellwright.sandbox.policy import Mode
from tests.kernel.engine.conftest import OpenEngine, host_process
from tests.waiting import LIMIT_S, fail_after, until

pytestmark = pytest.mark.anyio

ENDLESS = "console.log('going'); while (true) {}"


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Session:
    return await engine.create("mixed", directory=tmp_path)


async def add(session: Session, source: str, language: str | None = None) -> str:
    cell = await session.add_cell(source, metadata=cell_metadata(language=language))
    return cell.id


async def run(session: Session, source: str, language: str | None = None) -> Execution:
    return await session.run(await add(session, source, language), timeout_s=LIMIT_S)


def shown(execution: Execution) -> str:
    return json.dumps(execution.outputs, ensure_ascii=False)


async def going(execution: Execution) -> None:
    """Wait until an endless cell is at it."""
    await until(lambda: "going" in shown(execution))


@pytest.mark.parametrize("mode", ["overlay", "private", "direct"])
async def test_languages_see_the_files_that_others_just_wrote(
    engine: Engine, tmp_path: Path, mode: Mode
) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("files", directory=tmp_path, mode=mode)
    await add(session, "open('from-python.txt', 'w').write('one')")
    await add(session, "const one = await Deno.readTextFile('from-python.txt');", "typescript")
    await add(session, "await Deno.writeTextFile('from-deno.txt', one + ' two')", "typescript")
    await add(session, "print(open('from-deno.txt').read())")
    executions = await session.run_all()

    assert [execution.state for execution in executions] == ["ok"] * 4
    assert "one two" in executions[-1].text


async def test_each_language_keeps_its_own_state(session: Session) -> None:
    await run(session, "x = 1")
    await run(session, "const x = 2", "typescript")
    python, typescript = await run(session, "x"), await run(session, "x", "javascript")

    assert python.text == "1\n"
    assert typescript.text == "2\n"


async def test_a_failure_drops_what_comes_after_it_in_any_language(session: Session) -> None:
    await add(session, "a = 1")
    await add(session, "throw new Error('no')", "typescript")
    await add(session, "b = 2")
    await add(session, "const c = 3", "typescript")
    executions = await session.run_all()

    assert [execution.state for execution in executions] == ["ok", "error", "interrupted", "interrupted"]
    assert (await run(session, "'b' in globals()")).text == "False\n"


async def test_an_interrupt_reaches_the_language_that_runs(session: Session) -> None:
    await run(session, "kept = 'python'")
    await run(session, "const kept = 'typescript'", "typescript")
    execution = await session.execute(await add(session, ENDLESS, "typescript"))
    await going(execution)
    await session.interrupt()
    await execution.wait()

    assert execution.state == "interrupted"
    assert "typescript" in (await run(session, "kept", "typescript")).text
    assert "python" in (await run(session, "kept")).text


async def test_the_end_of_one_language_costs_only_its_own_state(session: Session) -> None:
    await run(session, "kept = 'python'")
    await run(session, "const kept = 'typescript'", "typescript")
    generation = session.generation
    died = await run(session, "Deno.exit(3)", "typescript")
    after = await run(session, "typeof kept", "typescript")

    assert died.state == "died"
    assert "variables" in (died.reason or "")
    assert "undefined" in shown(after)
    assert "python" in (await run(session, "kept")).text
    assert session.generation == generation


async def test_a_kernel_that_ended_between_two_cells_is_told_by_the_next(session: Session) -> None:
    await run(session, "1", "typescript")
    for process in psutil.process_iter(["name", "cmdline", "environ"]):
        if process.info["name"] == "deno" and str(session.cwd) in json.dumps(process.info["cmdline"]):
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)
    with fail_after():
        told = await run(session, "2", "typescript")
        while "started again, empty" not in shown(told):
            told = await run(session, "2", "typescript")

    assert told.ok


async def test_a_cell_beside_the_main_kernel_says_why_it_has_no_checkpoint(session: Session) -> None:
    await run(session, "x = 1")
    cell = await add(session, "throw new Error('no')", "typescript")
    failed = await session.run(cell, on_error="rollback")

    assert failed.state == "error"
    assert "beside" in (failed.record.no_checkpoint or "")
    assert (await run(session, "x")).text == "1\n"


async def test_going_back_ends_the_other_languages_and_says_so(session: Session) -> None:
    await run(session, "x = 1")
    await run(session, "const y = 1", "typescript")
    changing = await add(session, "x = 2")
    await session.run(changing, checkpoint=True)
    done = await session.roll_back(cell_id=changing)

    assert any("deno" in lost for lost in done.not_restored)
    assert (await run(session, "x")).text == "1\n"
    assert "undefined" in shown(await run(session, "typeof y", "typescript"))


@pytest.mark.parametrize("mode", ["overlay", "private"])
async def test_every_language_works_in_a_branch_and_after_its_adoption(
    engine: Engine, tmp_path: Path, mode: Mode
) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("branching", directory=tmp_path, mode=mode)
    await run(session, "open('before', 'w').write('1')")
    await run(session, "1", "typescript")
    [branch] = await engine.branch(session.id)
    await run(branch.session, "Deno.writeTextFileSync('in-branch', 'grown')", "typescript")

    assert (await run(branch.session, "print(open('in-branch').read())")).text == "grown\n"
    unseen = await run(session, "Deno.readTextFileSync('in-branch')", "typescript")
    assert unseen.state == "error"
    await engine.adopt(branch.session.id)
    again = await run(session, "Deno.readTextFileSync('in-branch')", "typescript")
    assert "grown" in shown(again)


async def test_a_full_directory_ends_no_kernel_beside_the_one_that_filled_it(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("full", directory=tmp_path, mode="private")
    # On a disk each directory takes a block of its own, in memory none.
    fill = """
import os
for n in range(50): os.mkdir(f"d{n}")
try:
    for n in range(1000): open(f"f{n}", "wb", 0).write(bytes(1 << 20))
except OSError as error:
    print(error.errno)
"""
    await run(session, "let kept = 1", "typescript")
    assert (await run(session, fill)).text == "28\n"
    slow = "await new Promise((resolve) => setTimeout(resolve, 400)); kept"
    assert (await run(session, slow, "typescript")).text == "1\n"


async def test_a_restart_empties_every_language(session: Session) -> None:
    await run(session, "const y = 1", "typescript")
    await session.restart()

    assert "undefined" in shown(await run(session, "typeof y", "typescript"))


async def test_a_replay_runs_each_cell_in_its_language(session: Session) -> None:
    await run(session, "x = 1")
    await run(session, "let y = 1", "typescript")
    await run(session, "y += 1", "typescript")
    await session.restart()
    replay = await session.replay()

    assert replay.state == "completed"
    assert (await run(session, "y", "typescript")).text == "2\n"


async def test_a_language_without_a_kernel_is_an_error_that_says_how_to_have_it(session: Session) -> None:
    failed = await run(session, "1 + 1", "julia")

    assert failed.state == "error"
    assert failed.error is not None
    assert "julia" in failed.error["evalue"]
    assert "Install it with" in failed.error["evalue"]
    assert (await run(session, "1")).ok


async def test_a_python_cell_runs_beside_a_typescript_notebook(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("ts", language="typescript", directory=tmp_path, mode="overlay")
    await run(session, "await Deno.writeTextFile('n.txt', '20')")
    await run(session, "n = int(open('n.txt').read())", "python")
    summed = await run(session, "SELECT 22 + 20 AS total", "sql")

    assert (await run(session, "n + 1", "python")).text == "21\n"
    assert "42" in shown(summed)


async def test_names_are_completed_in_the_cell_s_language(session: Session) -> None:
    await run(session, "const somethingLong = 1", "typescript")
    found = await session.complete("somethi", language="typescript")

    assert "somethingLong" in found.matches


async def test_a_cell_of_another_language_goes_on_without_its_engine(open_here: OpenEngine) -> None:
    slow = "for (let n = 0; n < 20; n++) {{ await new Promise(r => setTimeout(r, 100)); }} 'done'"
    async with open_here() as engine:
        session = await engine.create("outlives")
        await run(session, "1", "typescript")
        execution = await session.execute(await add(session, slow.format(), "typescript"))
    async with open_here() as engine:
        again = engine.session(session.id)
        live = again.runs.find(execution.id)
        finished = await live.wait(LIMIT_S) if live is not None else (await engine.history(session.id))[-1]

    assert finished.state == "ok"
    assert "done" in shown(finished)


async def test_suspending_leaves_no_process_of_any_language(open_here: OpenEngine, tmp_path: Path) -> None:
    async with open_here() as engine:
        session = await engine.create("ends")
        await run(session, "1", "typescript")
        host = host_process(tmp_path / "state")
        assert host is not None
        before = [child for child in host.children(recursive=True) if named(child) == "deno"]
        assert before
        await session.suspend()
        assert not [child for child in before if named(child) == "deno"]


def named(process: psutil.Process) -> str:
    """A process's name; empty where it has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.name() if process.status() != psutil.STATUS_ZOMBIE else ""
    return ""
