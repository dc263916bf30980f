"""What a session keeps on every host: one suite. Each kind of host has a test module that imports it and says where.

Such a module has a fixture ``abode``, and imports everything from here. What a host cannot do it must refuse with the
reason, and the suite accepts nothing in between.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright import Engine, Settings, open_engine
from cellwright.engine import Execution, Session
from cellwright.errors import HostCannot
from cellwright.mcp.outputs import clean
from tests.waiting import UNHURRIED, scaled, until

LINES = 60
UNICODE = "Grüße, 世界 🚀 שלום"
LOOP = """
import time, pathlib
for number in range(60):
    print("line", number, flush=True)
    if number == 19:
        while not pathlib.Path({gate!r}).exists():
            time.sleep(0.01)
"""


@dataclass(frozen=True)
class Abode:
    """Where sessions of one suite live, and how an engine for it is opened."""

    host: str
    open: Callable[[str], AbstractAsyncContextManager[Engine]]
    """By the name of its storage directory."""
    root: Path
    ours: bool = True
    """Whether kernels there are ours, with checkpoints, files and a sandbox."""


def abode_at(root: Path, host: str, *, ours: bool = True, **settings: object) -> Abode:
    """An abode whose engines have these settings."""

    def open_named(storage: str) -> AbstractAsyncContextManager[Engine]:
        values = {"root": root, "storage": root / storage, "standby_kernels": 0, "max_sessions": 100}
        return open_engine(Settings.model_validate(values | UNHURRIED | settings))

    (root / "work").mkdir()
    (root / "pyproject.toml").touch()
    return Abode(host, open_named, root, ours)


@pytest.fixture(scope="module")
async def engine(abode: Abode) -> AsyncIterator[Engine]:
    async with abode.open("state") as engine:
        yield engine


@pytest.fixture(scope="module")
async def session(engine: Engine, abode: Abode) -> AsyncIterator[Session]:
    """One for all tests that leave it usable: with a kernel, whatever its cells may be by then."""
    async with _session_at(engine, abode) as session:
        yield session


@pytest.fixture
async def own_session(engine: Engine, abode: Abode) -> AsyncIterator[Session]:
    """One whose cells and kernel are a test's own: all of its cells run when it is replayed."""
    async with _session_at(engine, abode) as session:
        yield session


@asynccontextmanager
async def _session_at(engine: Engine, abode: Abode) -> AsyncIterator[Session]:
    session = await engine.create("Contract", host=abode.host, mode="direct", directory=abode.root / "work")
    yield session
    await engine.delete(session.id, remove_file=True)


async def run(session: Session, source: str, *, timeout_s: float = 60) -> Execution:
    cell = await session.add_cell(source)
    return await session.run(cell.id, timeout_s=timeout_s)


def shown(execution: Execution) -> str:
    """Everything an execution put out, as text."""
    return json.dumps(execution.outputs, ensure_ascii=False)


async def test_a_session_says_which_host_has_its_kernel(
    session: Session, engine: Engine, abode: Abode
) -> None:
    assert session.record.host == abode.host
    assert session.state == "active"
    (found,) = [info for info in await engine.hosts.list() if info.name == (session.record.on or "local")]
    assert found.state == "ready"
    assert found.kernels >= 1


async def test_what_a_cell_defines_the_next_one_has(session: Session) -> None:
    assert (await run(session, "x = 6 * 7")).ok
    assert "42" in shown(await run(session, "x"))


async def test_an_error_shows_its_traceback_and_costs_nothing_else(session: Session) -> None:
    await run(session, "x = 42")
    failed = await run(session, "y = 1\n1 / 0")
    assert failed.state == "error"
    assert failed.error is not None
    assert failed.error["ename"] == "ZeroDivisionError"
    assert "1 / 0" in clean("".join(failed.error["traceback"]))
    assert "42" in shown(await run(session, "x"))


async def test_an_interrupted_cell_keeps_the_state(session: Session) -> None:
    await run(session, "x = 42")
    cell = await session.add_cell("import time\nprint('going', flush=True)\nwhile True: time.sleep(0.01)")
    execution = await session.execute(cell.id, timeout_s=scaled(60))
    await until(lambda: "going" in shown(execution))
    await session.interrupt()
    await execution.wait()
    assert execution.state == "interrupted"
    assert "42" in shown(await run(session, "x"))


async def test_a_cell_over_its_time_is_stopped_and_the_state_kept(session: Session) -> None:
    await run(session, "x = 42")
    stopped = await run(session, "while True: pass", timeout_s=1)
    assert stopped.state == "timeout"
    assert "42" in shown(await run(session, "x"))


async def test_a_flood_of_output_is_cut_and_counted(session: Session, engine: Engine) -> None:
    flooded = await run(session, "for _ in range(2_000): print('x' * 10_000)")
    assert flooded.state == "ok", flooded.reason
    assert len(shown(flooded)) < 4 * engine.settings.max_output_bytes
    assert flooded.record.dropped_bytes + flooded.record.dropped_messages > 0
    assert (await run(session, "1 + 1")).ok


async def test_text_in_any_script_comes_out_as_it_went_in(session: Session) -> None:
    assert UNICODE in shown(await run(session, f"print({UNICODE!r})"))


async def test_rich_output_arrives_with_its_type(session: Session) -> None:
    execution = await run(session, "from IPython.display import HTML\nHTML('<b>bold</b>')")
    assert execution.outputs[-1]["data"]["text/html"] == "<b>bold</b>"


@pytest.mark.matrix  # `languages/test_contract` and `jupyter/test_sessions` have both
async def test_names_are_completed_and_variables_shown(session: Session) -> None:
    await run(session, "longish_name = [1, 2, 3]")
    assert "longish_name" in (await session.complete("longish")).matches
    assert "longish_name" in {one.name for one in (await session.inspect()).variables}


async def test_cells_run_in_the_order_in_which_they_were_asked_for(session: Session) -> None:
    await run(session, "order = []")
    cells = [await session.add_cell(f"order.append({number})") for number in range(5)]
    executions = [await session.execute(cell.id) for cell in cells]
    for execution in executions:
        await execution.wait()
    assert "[0, 1, 2, 3, 4]" in shown(await run(session, "order"))


async def test_a_kernel_that_ends_is_told_and_the_next_cell_has_a_new_one(session: Session) -> None:
    await run(session, "x = 42")
    generation = session.generation
    died = await run(session, "import os\nos._exit(3)")
    assert died.state == "died"
    assert died.reason
    again = await run(session, "'x' in globals()")
    assert "False" in shown(again), (again.record, again.outputs)
    assert session.generation > generation


async def test_a_restarted_kernel_is_empty(own_session: Session) -> None:
    await run(own_session, "x = 42")
    await own_session.restart()
    assert "False" in shown(await run(own_session, "'x' in globals()"))


async def test_a_suspended_session_brings_its_state_back_by_replay(own_session: Session) -> None:
    await run(own_session, "x = 41")
    await run(own_session, "x += 1")
    await own_session.suspend()
    assert own_session.state == "suspended"
    replay = await own_session.replay()
    assert replay.state == "completed"
    assert "42" in shown(await run(own_session, "x"))


async def test_state_is_taken_along_to_another_host(own_session: Session) -> None:
    await run(own_session, "x = 42")
    replay = await (await own_session.start_replay(host="local")).wait()
    assert replay.state == "completed"
    assert own_session.record.host == "local"
    assert "42" in shown(await run(own_session, "x"))


async def test_a_checkpoint_brings_the_state_back_or_is_refused_with_the_reason(
    session: Session, abode: Abode
) -> None:
    await run(session, "x = 42")
    if not abode.ours:
        with pytest.raises(HostCannot, match="checkpoints need a kernel of ours"):
            await session.checkpoint()
        return
    await session.checkpoint("before")
    await run(session, "x = 0")
    await session.roll_back("before")
    assert "42" in shown(await run(session, "x"))


async def test_a_branch_goes_on_from_the_same_state_or_is_refused_with_the_reason(
    session: Session, engine: Engine, abode: Abode
) -> None:
    await run(session, "x = 42")
    if not abode.ours:
        with pytest.raises(HostCannot):
            await engine.branch(session.id)
        return
    (branch,) = await engine.branch(session.id)
    assert "42" in shown(await run(branch.session, "x"))
    assert branch.session.record.on == session.record.on
    await engine.delete(branch.session.id, remove_file=True)


async def test_files_that_code_leaves_are_told_or_refused_with_the_reason(
    session: Session, abode: Abode
) -> None:
    ran = await run(session, "open('left.txt', 'w').write('here')")
    assert ran.ok
    if not abode.ours:
        with pytest.raises(HostCannot, match="files are the server's"):
            await session.files()
        return
    await ran.wait_for_files(60)
    assert [file.path for file in ran.record.files] == ["left.txt"]


async def test_a_cell_of_another_language_runs_or_is_refused_with_the_reason(
    session: Session, abode: Abode
) -> None:
    cell = await session.add_cell(
        "const n: number = 42; n", metadata={"vscode": {"languageId": "typescript"}}
    )
    if not abode.ours:
        with pytest.raises(HostCannot, match="typescript"):
            await session.run(cell.id)
        return
    assert "42" in shown(await session.run(cell.id))


async def test_code_is_confined_or_the_session_says_that_it_is_not(session: Session, abode: Abode) -> None:
    if not abode.ours:
        assert session.tier == "remote"
        assert any("sandbox" in loss for loss in session.record.losses)
        return
    assert session.tier in ("A", "B", "C")
    refused = await run(session, "open('/etc/shadow').read()")
    assert refused.state == "error"
    assert (await run(session, "import os\nprint(os.getuid() == 0)")).text == "False\n"


async def test_an_engine_that_comes_back_finds_the_running_cell_and_every_line(abode: Abode) -> None:
    gate = abode.root / "work" / "gate"
    gate.unlink(missing_ok=True)
    async with abode.open("other") as engine:
        session = await engine.create("Comes back", host=abode.host, mode="direct", directory=gate.parent)
        cell = await session.add_cell(LOOP.format(gate=str(gate)))
        execution = await session.execute(cell.id, timeout_s=300)
        await until(lambda: "line 19" in shown(execution))
    gate.touch()
    async with abode.open("other") as engine:
        session, execution = engine.session(session.id), engine.execution(execution.id)
        await execution.wait()
        assert execution.state == "ok"
        assert execution.text.splitlines() == [f"line {number}" for number in range(LINES)]
        await engine.delete(session.id, remove_file=True)
