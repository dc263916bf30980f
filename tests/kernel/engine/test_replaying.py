from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from cellwright import Engine, Event, Session
from cellwright.engine import Replay
from cellwright.engine._replay import run_steps
from cellwright.engine.lineage import Span, steps
from cellwright.errors import KernelBusy, KernelGone, UnknownExecution
from tests.conftest import Require
from tests.kernel.engine.conftest import OpenEngine, host_process
from tests.kernel.engine.test_survival import kill
from tests.matrix import first_of
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio

WAITS = "import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"


async def with_cells(engine: Engine, name: str, *sources: str) -> tuple[Session, list[str]]:
    """A session in which these cells ran in order."""
    session = await engine.create(name)
    ids = [(await session.add_cell(source)).id for source in sources]
    for cell_id in ids:
        await session.run(cell_id)
    return session, ids


async def value(session: Session, code: str) -> str:
    return (await (await session.execute_code(code)).wait()).text.strip()


async def replayed(session: Session, **options: Any) -> Replay:
    with fail_after():
        return await session.replay(**options)


def different_cells(replay: Replay) -> list[str | None]:
    return [redone.step.cell_id for redone in replay.redone if not redone.same]


async def until(events: Any, kind: str) -> Event:
    with fail_after():
        async for event in events:
            if isinstance(event, Event) and event.kind == kind:
                return event
    raise AssertionError(kind)


async def test_a_replayed_session_has_the_same_state_in_a_new_kernel(engine: Engine) -> None:
    session, ids = await with_cells(engine, "same", "x = [1]", "x.append(len(x) + 0.5); x", "print(x)\n1 / 0")
    await session.run(ids[1])
    await session.execute_code("hidden = 7")
    before = await value(session, "x, hidden")
    replay = await replayed(session)
    assert (replay.state, replay.same, replay.reason) == ("completed", True, None)
    assert (replay.generation, session.generation) == (2, 2)
    assert [redone.step.cell_id for redone in replay.redone] == [*ids, ids[1], None, None]
    assert [redone.now.state for redone in replay.redone] == ["ok", "ok", "error", "ok", "ok", "ok"]
    assert await value(session, "x, hidden") == before == "([1, 1.5, 2.5], 7)"


async def test_a_cell_that_puts_out_something_else_is_named_and_the_rest_runs(engine: Engine) -> None:
    session, ids = await with_cells(
        engine, "random", "import random", "y = random.random(); y", "print('after')"
    )
    replay = await replayed(session)
    assert (replay.state, replay.same, different_cells(replay)) == ("completed", False, [ids[1]])
    ((_, difference),) = replay.differences
    assert difference.output == "result text/plain"
    assert "became" in difference.why


async def test_progress_and_the_end_are_told_and_stay_in_the_journal(engine: Engine) -> None:
    session, ids = await with_cells(engine, "events", "1", "import time; time.time_ns()", "3")
    with engine.subscribe(session.id) as events:
        replay = await replayed(session)
        end = await until(events, "notebook.replay.completed")
    told = engine.events(since=0, session_id=session.id)
    progress = [event for event in told if event.kind == "notebook.replay.progress"]
    assert [(event.data["done"], event.data["total"], event.data["same"]) for event in progress] == [
        (1, 3, True),
        (2, 3, False),
        (3, 3, True),
    ]
    assert [event.cell_id for event in progress] == ids
    assert {event.generation for event in (*progress, end)} == {2}
    assert (end.data["replay_id"], end.data["state"], end.data["same"]) == (replay.id, "completed", False)
    (difference,) = end.data["differences"]
    assert difference["cell_id"] == ids[1]
    assert difference["expected"] != difference["got"]


async def test_a_step_that_fails_now_stops_the_replay_and_the_rest_is_named(
    engine: Engine,
) -> None:
    session, ids = await with_cells(
        engine, "fails", "a = 1", "open('input.txt', 'x').write('made once')", "a = 2", "a = 3"
    )
    replay = await replayed(session)
    assert (replay.state, replay.same) == ("stopped", False)
    assert "Step 2" in (replay.reason or "")
    assert ids[1] in (replay.reason or "")
    assert "FileExistsError" in (replay.reason or "")
    assert [step.cell_id for step in replay.not_run] == ids[2:]
    assert await value(session, "a") == "1"


async def test_a_step_that_failed_then_and_is_well_now_goes_on_as_a_difference(engine: Engine) -> None:
    code = "import pathlib; assert pathlib.Path('there').exists()"
    session, ids = await with_cells(engine, "well now", code, "after = 1")
    (session.cwd / "there").touch()
    replay = await replayed(session)
    assert (replay.state, different_cells(replay)) == ("completed", [ids[0]])
    assert replay.redone[0].comparison.differences[0].output == "state"


async def test_what_ran_is_replayed_where_the_cell_was_edited_since_and_that_is_said(engine: Engine) -> None:
    session, ids = await with_cells(engine, "edited", "n = 1", "m = 1", "k = 1")
    await session.edit_cell(ids[2], "k = 2")
    await session.run(ids[2])
    await session.edit_cell(ids[0], "n = 100")
    await session.delete_cell(ids[1])
    replay = await replayed(session)
    assert replay.edited == (ids[0], ids[1])
    assert replay.same
    assert await value(session, "n, m, k") == "(1, 1, 2)"
    assert session.cell(ids[0]).source == "n = 100"


async def test_what_was_interrupted_then_does_not_run_on_now(engine: Engine) -> None:
    session = await engine.create("cut")
    await value(session, "seen = 1")
    endless = await session.execute_code("print('in it', flush=True)\nwhile True: pass")
    with engine.subscribe(session.id) as events:
        if not endless.outputs:
            await until(events, "notebook.cell.output")
    await session.interrupt()
    await endless.wait()
    await value(session, "after = 2")
    replay = await replayed(session)
    assert (replay.state, [redone.now.state for redone in replay.redone]) == (
        "completed",
        ["ok", "timeout", "ok"],
    )
    assert "state" not in [difference.output for _, difference in replay.differences]
    assert await value(session, "seen, after") == "(1, 2)"


async def test_a_replay_may_end_at_a_cell_or_at_an_execution(engine: Engine) -> None:
    session, ids = await with_cells(engine, "up to", "v = 1", "v += 1", "v += 10")
    second = (await engine.history(session.id))[1]
    assert len((await replayed(session, upto=second.id)).redone) == 2
    with pytest.raises(UnknownExecution, match="no such cell"):
        await session.replay(upto="no such cell")
    assert (await replayed(session, upto=ids[2])).same
    assert await value(session, "v") == "12", "what comes after was not forgotten"


async def test_a_suspended_session_is_replayed_by_a_later_engine_on_another_host(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    async with open_here() as engine:
        session, ids = await with_cells(engine, "kept", "total = 40", "total += 2; total")
        await session.suspend()
    host = host_process(tmp_path / "state")
    assert host is not None
    host.terminate()
    host.wait(LIMIT_S)
    async with open_here() as engine:
        again = engine.session(session.id)
        replay = await replayed(again)
        assert (replay.same, [redone.step.cell_id for redone in replay.redone]) == (True, ids)
        assert await value(again, "total") == "42"


async def test_what_a_lost_kernel_held_comes_back_after_cells_failed_in_the_next_one(engine: Engine) -> None:
    session, ids = await with_cells(engine, "lost", "data = [1, 2, 3]")
    await (await session.execute_code("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")).wait()
    failed = await (await session.execute_code("len(data)")).wait()
    assert (failed.state, failed.generation) == ("error", 2)
    replay = await replayed(session)
    assert [redone.step.cell_id for redone in replay.redone] == ids, "neither what killed it nor what failed"
    assert await value(session, "len(data)") == "3"


async def test_once_something_new_ran_that_is_what_is_replayed(engine: Engine) -> None:
    session, _ = await with_cells(engine, "new", "old = 1")
    await session.restart()
    await value(session, "new = 1")
    replay = await replayed(session)
    assert [redone.step.source for redone in replay.redone] == ["new = 1"]
    assert session.record.lineage == (Span(3),)


async def test_nothing_else_runs_during_a_replay_and_none_begins_while_something_runs(engine: Engine) -> None:
    session, _ = await with_cells(engine, "busy", "b = 1")
    (session.cwd / "go").touch()
    await (await session.execute_code(WAITS)).wait()
    (session.cwd / "go").unlink()
    replay = await session.start_replay()
    with pytest.raises(KernelBusy, match=replay.id):
        await session.execute_code("b = 2")
    with pytest.raises(KernelBusy, match=replay.id):
        await session.start_replay()
    (session.cwd / "go").touch()
    with fail_after():
        await replay.wait()
    assert replay.same
    (session.cwd / "go").unlink()
    running = await session.execute_code(WAITS)
    with pytest.raises(KernelBusy, match=running.id):
        await session.start_replay()
    await session.interrupt()
    (session.cwd / "go").touch()


@pytest.mark.parametrize("how", first_of(["cancel", "interrupt", "suspend", "restart", "kill", "delete"], 2))
async def test_a_replay_that_was_stopped_can_be_made_again(engine: Engine, how: str) -> None:
    session = await engine.create(f"stopped by {how}")
    (session.cwd / "go").touch()
    for source in ("c = 1", WAITS, "c = 3"):
        await (await session.execute_code(source)).wait()
    (session.cwd / "go").unlink()
    with engine.subscribe(session.id) as events:
        replay = await session.start_replay()
        await until(events, "notebook.cell.output")
    match how:
        case "cancel":
            await replay.cancel()
        case "kill":
            pid = await _kernel_pid(session)
            subprocess.run(["kill", "-9", str(pid)], check=True)
        case "delete":
            await engine.delete(session.id)
        case _:
            await getattr(session, how)()
    with fail_after():
        await replay.wait()
    assert replay.state == "stopped"
    assert (len(replay.redone), len(replay.not_run)) == (2, 1)
    (session.cwd / "go").touch()
    if how != "delete":
        again = await replayed(session)
        assert (again.same, len(again.redone)) == (True, 3)
        assert await value(session, "c") == "3"
    (session.cwd / "go").unlink()


async def _kernel_pid(session: Session) -> int:
    """The youngest process in the session's directory that has none below it; numbers begin again at some time."""
    import psutil

    found: list[tuple[float, int]] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # others' come and go, and may be anywhere
            if process.cwd() == str(session.cwd) and not process.children():
                found.append((process.create_time(), process.pid))
    return max(found)[1]


async def test_a_replay_elsewhere_that_is_refused_leaves_the_session_where_it_is(
    open_here: OpenEngine,
) -> None:
    async with open_here(jupyter_url="http://127.0.0.1:9", jupyter_token="t") as engine:  # noqa: S106  # opens nothing
        session, _ = await with_cells(engine, "stays", "x = 1")
        before = session.record.host
        with pytest.raises(UnknownExecution):
            await session.start_replay(host="jupyter", upto="nothing")
        assert session.record.host == before
        assert await value(session, "x") == "1"


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_stopping_between_two_steps_runs_nothing_more(engine: Engine, how: str) -> None:
    session, _ = await with_cells(engine, "between", *(f"d = {number}" for number in range(30)))
    replay = await session.start_replay()
    await (replay.cancel() if how == "cancel" else session.interrupt())
    with fail_after():
        await replay.wait()
    assert (replay.state, len(replay.redone) <= 2) == ("stopped", True)
    assert "cancelled" in (replay.reason or "")
    await replay.cancel()


async def test_other_languages_are_replayed_too(engine: Engine, require: Require) -> None:
    found = "ir" in KernelSpecManager().find_kernel_specs()
    require("the R kernel", found, "apt install r-cran-irkernel")
    session = await engine.create("in R", language="r")
    for source in ("x <- c(1, 2.5)", "x <- x * 2; x", "print(runif(1))"):
        await (await session.execute_code(source)).wait()
    with fail_after(60):
        replay = await session.replay()
    assert [redone.same for redone in replay.redone] == [True, True, False]
    assert await value(session, "cat(sum(x))") == "7"


async def test_the_same_steps_can_be_run_on_another_session(engine: Engine) -> None:
    session, _ = await with_cells(engine, "original", "e = 1", "e += 1", "e += 10")
    history = await engine.history(session.id, outputs=False)
    made = steps([execution.record for execution in history], session.record.lineage)
    other = await engine.create("branch")
    journal = engine._journal  # as the engine's own rooms have it
    redone = [each async for each in run_steps(other.queue, made[:2], journal)]
    assert [each.same for each in redone] == [True, True]
    assert await value(other, "e") == "2"
    assert await value(session, "e") == "12"
    await other.suspend()
    with pytest.raises(KernelGone):
        [each async for each in run_steps(other.queue, made[:2], journal)]


# Runs cells, then replays them, and is killed while the replay waits in the second step.
DOOMED_REPLAY = """
import anyio, sys
from pathlib import Path
from cellwright import Event, Settings, open_engine

async def main(root):
    settings = Settings(
        root=root, storage=root / "state", standby_kernels=0, host_idle_s=600, cell_timeout_s=300
    )
    async with open_engine(settings) as engine:
        session = await engine.create("half-way")
        for source in ("f = 1", sys.argv[2] + "\\nf += 1", "f += 10"):
            (session.cwd / "go").touch()
            await (await session.execute_code(source)).wait()
        (session.cwd / "go").unlink()
        with engine.subscribe(session.id) as events:
            await session.start_replay()
            async for event in events:
                if event.kind == "notebook.cell.output":
                    break
        print(session.id, flush=True)
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""


async def test_a_killed_engine_leaves_the_steps_done_so_far_and_the_whole_to_be_replayed(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    doomed = subprocess.Popen(
        [sys.executable, "-c", DOOMED_REPLAY, str(tmp_path), WAITS], stdout=subprocess.PIPE, text=True
    )
    assert doomed.stdout is not None
    session_id = doomed.stdout.readline().strip()
    kill(doomed)
    async with open_here() as engine:
        session = engine.session(session_id)
        assert (session.generation, session.record.lineage, session.record.former) == (
            2,
            (Span(2),),
            (Span(1),),
        )
        (session.cwd / "go").touch()
        with fail_after():
            for execution in session.runs.live:
                await execution.wait()
        history = [execution.record for execution in await engine.history(session.id)]
        done = steps(history, session.record.lineage)
        assert [step.source.splitlines()[-1] for step in done] == ["f = 1", "f += 1"]
        replay = await replayed(session)
        assert (replay.same, len(replay.redone)) == (True, 3)
        assert await value(session, "f") == "12"
