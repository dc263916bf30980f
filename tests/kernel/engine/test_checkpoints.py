"""Checkpoints and rollback of real sessions: state and files come back, what cannot is named, nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright import Event
from cellwright.engine import Engine, Session
from cellwright.errors import CheckpointRefused, FileFailed, UnknownCheckpoint
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio
MODES = ["direct", "private", "overlay"]


async def run(session: Session, code: str, **options: Any) -> str:
    cell = await session.add_cell(code)
    execution = await session.run(cell.id, **options)
    assert execution.ok or options.get("on_error"), execution.text
    return execution.text


@pytest.mark.parametrize("mode", MODES)
async def test_a_rollback_brings_state_and_files_back(engine: Engine, tmp_path: Path, mode: Any) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("go back", directory=tmp_path, mode=mode)
    await run(session, "x = [1]\nopen('a.txt', 'w').write('first')")
    kept = await session.checkpoint("before")
    await run(session, "x.append(2)\nopen('a.txt', 'w').write('second')\nopen('b.txt', 'w').write('new')")
    generation = session.generation
    done = await session.roll_back("before")
    assert (done.checkpoint.id, session.generation) == (kept.id, generation + 1)
    assert (
        await run(session, "import os; print(x, open('a.txt').read(), os.path.exists('b.txt'))")
        == "[1] first False\n"
    )
    await run(session, "open('a.txt', 'w').write('third')")
    assert await run(session, "print(open('a.txt').read())") == "third\n"


@pytest.mark.parametrize(
    "large",
    [
        "print('x' * 200_000)",
        "for number in range(800): print(number, 'x' * 300)",
        "import os; from IPython.display import Image, display; display(Image(os.urandom(150_000), format='png'))",
    ],
    ids=["line", "lines", "picture"],
)
async def test_large_outputs_leave_nothing_that_keeps_a_checkpoint_from_being_taken(
    engine: Engine, large: str
) -> None:
    session = await engine.create("large", mode="private")
    await run(session, "x = 1")
    await run(session, large)
    await session.checkpoint("after")
    await run(session, "x = 2")
    await session.roll_back("after")
    assert await run(session, "print(x)") == "1\n"


@pytest.mark.parametrize(
    ("failure", "state", "timeout_s"),
    [
        ("1 / 0", "error", 300),
        ("import time; time.sleep(1000)", "timeout", 2),
        ("import os; os.kill(os.getpid(), 9)", "died", 300),
    ],
)
async def test_a_cell_that_fails_leaves_no_trace(
    engine: Engine, tmp_path: Path, failure: str, state: str, timeout_s: float
) -> None:
    session = await engine.create("atomic", directory=tmp_path)
    await run(session, "x = [1]")
    cell = await session.add_cell(f"x.append(2)\nopen('half.txt', 'w').write('half')\n{failure}")
    execution = await session.run(cell.id, on_error="rollback", timeout_s=timeout_s)
    assert execution.state == state
    assert execution.record.rolled_back
    assert execution.record.checkpoint is not None
    assert await run(session, "import os; print(x, os.path.exists('half.txt'))") == "[1] False\n"
    assert session.cell(cell.id).metadata["cellwright"]["stale"]


async def test_after_the_kernel_was_killed_the_next_call_goes_on_from_the_last_checkpoint(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("survive", directory=tmp_path)
    await run(session, "x = [1]")
    await session.checkpoint()
    generation = session.generation
    cell = await session.add_cell("import os, time; x.append(2); os.kill(os.getpid(), 9)")
    died = await session.run(cell.id)
    assert died.state == "died"
    probe = await session.add_cell("print(x)")
    execution = await session.run(probe.id)
    assert (execution.text, execution.generation) == ("[1]\n", generation + 1)
    assert f"Lost: cell {cell.id}" in str(execution.record.note)


async def test_after_an_end_for_want_of_memory_the_last_checkpoint_takes_over(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("memory", directory=tmp_path)
    await run(session, "x = [1]")
    for number in range(3):
        await session.checkpoint(f"at{number}")
    # Each of them stays below the limit of a process: it is their sum that is watched.
    code = "import os, time\nfor _ in range(4):\n    if not os.fork():\n        held = b'x' * (200 << 20)\n        time.sleep(60)"
    cell = await session.add_cell(f"{code}\ntime.sleep(60)")
    died = await session.run(cell.id)
    assert (died.state, "max_session_memory" in str(died.reason)) == ("died", True), died.reason
    probe = await session.add_cell("print(x)")
    execution = await session.run(probe.id)
    assert execution.text == "[1]\n"
    assert "Checkpoint at2 took over" in str(execution.record.note)


async def test_where_memory_runs_out_a_kernel_and_what_it_starts_go_before_its_checkpoints(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("scores", directory=tmp_path)
    kernel = "print(open('/proc/self/oom_score_adj').read(), end='')"
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert await run(session, kernel) == f"{own + 100}\n"
    await session.checkpoint("kept")
    # A checkpoint is a child of its kernel.
    children = "open(f'/proc/self/task/{os.getpid()}/children').read().split()"
    scores = f"import os\nprint(*[open(f'/proc/{{pid}}/oom_score_adj').read().strip() for pid in {children}])"
    assert await run(session, scores) == f"{own}\n"
    await session.roll_back("kept")
    assert await run(session, kernel) == f"{own + 100}\n"


async def test_what_makes_a_fork_unsafe_is_refused_with_the_reason_and_the_session_goes_on(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("refuse", directory=tmp_path)
    await run(
        session,
        "import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait, name='worker'); t.start()",
    )
    with pytest.raises(CheckpointRefused, match="1 thread is still running: worker"):
        await session.checkpoint()
    cell = await session.add_cell("y = 1 / 0")
    execution = await session.run(cell.id, on_error="rollback")
    assert "worker" in str(execution.record.no_checkpoint)
    assert not execution.record.rolled_back
    await run(session, "stop.set(); t.join()")
    await session.checkpoint()


async def test_whoever_works_on_a_branch_at_once_finds_what_it_was_grown_from(engine: Engine) -> None:
    origin = await engine.create("branch")
    await run(origin, "kept = 7")
    cell = await origin.add_cell("print(kept)")
    async with anyio.create_task_group() as tasks:
        with engine.subscribe() as events, fail_after():
            tasks.start_soon(engine.branch, origin.id)
            async for event in events:
                if isinstance(event, Event) and event.data == {"session": "created"}:
                    break
            ran = await engine.session(event.session_id).run(cell.id)
    assert ran.text == "7\n"


@pytest.mark.parametrize("mode", MODES)
async def test_branches_go_their_own_ways_and_one_is_taken_back(
    engine: Engine, tmp_path: Path, mode: Any
) -> None:
    (tmp_path / "pyproject.toml").touch()
    origin = await engine.create("branch", directory=tmp_path, mode=mode)
    await run(origin, "x = [1]\nopen('a.txt', 'w').write('common')")
    branches = await engine.branch(origin.id, count=2)
    assert [branch.by for branch in branches] == ["checkpoint"] * 2, branches[0].reason
    one, two = (branch.session for branch in branches)
    await run(one, "x.append('one')\nopen('a.txt', 'w').write('one')\nopen('/tmp/t.txt', 'w').write('one')")
    await run(two, "x.append('two')\nopen('b.txt', 'w').write('two')")
    look = "import os; print(x, open('a.txt').read(), os.path.exists('b.txt'), os.path.exists('/tmp/t.txt'))"
    assert await run(origin, look) == "[1] common False False\n"
    assert await run(one, look) == "[1, 'one'] one False True\n"
    assert await run(two, look) == "[1, 'two'] common True False\n"
    adopted = await engine.adopt(one.id)
    assert (adopted.session.id, adopted.dropped) == (origin.id, (two.id,))
    assert await run(origin, look) == "[1, 'one'] one False True\n"
    await run(origin, "open('c.txt', 'w').write('after')")
    if mode == "direct":
        assert (tmp_path / "c.txt").read_text() == "after"
    assert {session.id for session in engine.sessions()} & {one.id, two.id} == set()


async def test_a_cell_without_a_checkpoint_is_gone_back_to_by_replay(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("replay", directory=tmp_path)
    await run(session, "x = [1]")
    cell = await session.add_cell("x.append(2)")
    await session.run(cell.id)
    done = await session.roll_back(cell_id=cell.id)
    assert (done.by, done.stale) == ("replay", (cell.id,))
    assert await run(session, "print(x)") == "[1]\n"
    await session.run(cell.id)
    assert "stale" not in session.cell(cell.id).metadata["cellwright"]


async def test_one_can_go_back_again_and_again_and_forward_too(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("to and fro", directory=tmp_path)
    for number in range(3):
        await run(session, f"n = {number}")
        await session.checkpoint(f"at{number}")
    for number in (0, 2, 1, 2, 0, 0):
        await session.roll_back(f"at{number}")
        assert await run(session, "print(n)") == f"{number}\n"
    with pytest.raises(UnknownCheckpoint, match="It keeps: at0, at1, at2"):
        await session.roll_back("at9")


async def test_checkpoints_survive_the_engine(open_here: Any, tmp_path: Path) -> None:
    async with open_here() as first:
        session = await first.create("outlive", directory=tmp_path)
        await run(session, "x = 1")
        kept = await session.checkpoint("kept")
        await run(session, "x = 2")
    async with open_here() as second:
        session = second.session(session.id)
        assert [record.id for record in session.checkpoints] == [kept.id]
        await session.roll_back("kept")
        assert await run(session, "print(x)") == "1\n"


async def test_a_rollback_that_fails_half_way_keeps_the_checkpoints_and_can_be_tried_again(
    engine: Engine, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    session = await engine.create("again", directory=work)
    await run(session, "x = 1")
    await session.checkpoint("kept")
    await run(session, "x = 2")
    work.rename(tmp_path / "elsewhere")
    with pytest.raises(FileFailed, match="cannot be opened"):
        await session.roll_back("kept")
    assert session.state == "suspended"
    (tmp_path / "elsewhere").rename(work)
    await session.roll_back("kept")
    assert await run(session, "print(x)") == "1\n"


async def test_a_return_that_an_engine_began_is_completed_by_the_next(open_here: Any, tmp_path: Path) -> None:
    async with open_here() as first:
        session = await first.create("half-way", directory=tmp_path / "work")
        await run(session, "x = 1")
        kept = await session.checkpoint("kept")
        await run(session, "x = 2")
        generation = session.generation
        # As far as an engine comes that is killed between the host's answer and its own journal.
        await session.checkpointing._begin_return(kept)
    async with open_here() as second:
        session = second.session(session.id)
        assert (session.state, session.generation) == ("active", generation + 1)
        assert await run(session, "print(x)") == "1\n"
