"""What must hold when processes are killed: nothing acknowledged is lost, and what is lost is told."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import psutil
import pytest

from cellwright import Engine, Event
from cellwright.errors import SaveFailed
from cellwright.hosts import HostPaths
from cellwright.notebook import Document
from tests.conftest import Require
from tests.forks import forked
from tests.kernel.engine.conftest import OpenEngine, end_host, host_process, open_at
from tests.kernel.sandbox.conftest import let_others_in
from tests.support.engine.doomed import saves_forever
from tests.waiting import LIMIT_S, fail_after, until

pytestmark = pytest.mark.anyio

# A process in a session of its own, which nothing of the kernel's tells to end.
LEAVES_A_PROCESS = """
import subprocess
left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open("begun", "w").close()
"""

# Runs until it is killed: starts a cell that prints while a file grows, and says the execution's id.
DOOMED_ENGINE = """
import anyio, sys
from pathlib import Path
from cellwright import Settings, open_engine

async def main(root):
    settings = Settings(root=root, storage=root / "state", standby_kernels=0, host_idle_s=600)
    async with open_engine(settings) as engine:
        session = await engine.create("survives")
        cell = await session.add_cell(Path(sys.argv[2]).read_text())
        execution = await session.execute(cell.id, timeout_s=600)
        print(session.id, cell.id, execution.id, flush=True)
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""

# Prints a line whenever the test lets it, so that the test decides when the engine dies in between.
PRINTS_ON_DEMAND = """
import pathlib, time
for number in range(60):
    while not pathlib.Path({gate!r}, str(number // 20)).exists():
        time.sleep(0.01)
    print("line", number, flush=True)
"""


def start_doomed(root: Path, code: str) -> tuple[subprocess.Popen[str], list[str]]:
    source = root / "cell.py"
    source.write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED_ENGINE, str(root), str(source)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


async def test_a_killed_engine_loses_no_line_of_a_running_cell(open_here: OpenEngine, tmp_path: Path) -> None:
    gate = tmp_path / "notebooks" / "gate"  # in the kernel's own folder: it sees no other
    gate.mkdir(parents=True)
    doomed, (session_id, cell_id, execution_id) = start_doomed(
        tmp_path, PRINTS_ON_DEMAND.format(gate=str(gate))
    )
    (gate / "0").touch()
    kill(doomed)
    (gate / "1").touch()
    async with open_here() as engine:
        execution = engine.execution(execution_id)
        assert not execution.done
        (gate / "2").touch()
        with fail_after():
            await execution.wait()
        assert execution.state == "ok"
        assert execution.text == "".join(f"line {number}\n" for number in range(60))
        session = engine.session(session_id)
        assert (session.generation, session.state) == (1, "active")
        assert session.cell(cell_id).outputs[0]["text"] == execution.text


async def test_a_cell_that_ended_while_no_engine_lived_is_there_afterwards(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    doomed, (session_id, cell_id, execution_id) = start_doomed(tmp_path, "answer = 42\nprint(answer)")
    kill(doomed)
    async with open_here() as engine:
        with fail_after():
            execution = await engine.execution(execution_id).wait()
        assert (execution.state, execution.text) == ("ok", "42\n")
        session = engine.session(session_id)
        assert (await (await session.execute_code("answer")).wait()).text == "42\n"
        assert session.cell(cell_id).execution_count == 1


async def test_what_a_host_said_before_it_died_is_read_from_its_journal(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    code = "import sys, time\nsys.stdout.write('last words\\n'); sys.stdout.flush()\ntime.sleep(1000)"
    doomed, (session_id, cell_id, execution_id) = start_doomed(tmp_path, code)
    paths = HostPaths(tmp_path / "state")
    journal = paths.journal(json.loads(paths.current.read_text())["incarnation"])
    # Printed is not yet heard: only what the host has written down outlives it.
    await until(lambda: any(b"last words" in path.read_bytes() for path in journal.iterdir()))
    kill(doomed)
    host = host_process(tmp_path / "state")
    assert host is not None
    host.kill()
    host.wait(LIMIT_S)
    async with open_here() as engine:
        execution = engine.execution(execution_id)
        assert (execution.state, execution.text) == ("died", "last words\n")
        assert engine.session(session_id).state == "suspended"
        assert engine.session(session_id).cell(cell_id).outputs[0]["text"] == "last words\n"


async def test_a_killed_host_is_told_and_the_next_cell_gets_a_new_generation(
    own_engine: Engine, tmp_path: Path
) -> None:
    engine = own_engine
    session = await engine.create("host dies")
    cell = await session.add_cell("x = 1; print('before')")
    await session.run(cell.id)
    with engine.subscribe(session.id) as events:
        execution = await session.execute_code("import time; time.sleep(1000)")
        host = host_process(tmp_path / "state")
        assert host is not None
        kernels = host.children(recursive=True)
        host.kill()
        with fail_after():
            assert (await execution.wait()).state == "died"
            async for event in events:
                if isinstance(event, Event) and event.kind == "notebook.error":
                    assert event.data["cause"] == "host_lost"
                    break
        assert session.state == "suspended"
        again = await (await session.execute_code("'x' in globals()")).wait()
    assert (again.text, again.generation) == ("False\n", 2)
    assert [past.state for past in await engine.history(session.id)] == ["ok", "died", "ok"]
    assert session.cell(cell.id).outputs[0]["text"] == "before\n"
    _, alive = psutil.wait_procs(kernels, 60)
    assert alive == [], "kernels end with their host"


@pytest.mark.parametrize("namespaces", [True, False])
async def test_a_killed_host_takes_everything_with_it_that_a_confined_cell_started(
    open_root: Path, require: Require, *, namespaces: bool
) -> None:
    if not namespaces:
        let_others_in(open_root, require)
    async with open_at(open_root, sandbox_namespaces=namespaces) as engine:
        session = await engine.create("leaves something behind", mode="private")
        execution = await session.execute_code(LEAVES_A_PROCESS + "while True: pass")
        await until((session.cwd / "begun").exists)
        host = host_process(open_root / "state")
        assert host is not None
        started = host.children(recursive=True)
        assert any("sleep" in process.name() for process in started), "the cell's own process is among them"
        host.kill()
        with fail_after():
            assert (await execution.wait()).state == "died"
        _, alive = psutil.wait_procs(started, 60)
        assert alive == []
        await session.resume()  # the next host clears away what this one could not
    end_host(open_root / "state")


async def test_a_killed_kernel_is_told_with_its_cause(engine: Engine) -> None:
    session = await engine.create("kernel dies")
    execution = await (await session.execute_code("import os, signal; os.kill(os.getpid(), 9)")).wait()
    assert execution.state == "died"
    assert "SIGKILL" in (execution.reason or "")
    assert session.reason == execution.reason
    again = await (await session.execute_code("1")).wait()
    assert (again.state, again.generation) == ("ok", 2)


async def test_sessions_documents_and_history_survive_a_clean_restart(open_here: OpenEngine) -> None:
    async with open_here() as engine:
        session = await engine.create("restart")
        cell = await session.add_cell("x = 'kept'; x")
        await session.run(cell.id)
        edited = await session.edit_cell("problem", "# Restarted")
    async with open_here() as engine:
        again = engine.session(session.id)
        assert again.cell("problem") == edited
        assert again.cell(cell.id).outputs[0]["data"]["text/plain"] == "'kept'"
        assert (await (await again.execute_code("x")).wait()).text == "'kept'\n"
        assert len(await engine.history(session.id)) == 2


@pytest.mark.timeout(400)  # a hundred engines, one after another
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.matrix)])
async def test_kills_in_the_middle_of_saving_leave_a_valid_file_and_every_acknowledged_edit(
    open_here: OpenEngine, tmp_path: Path, kills: int
) -> None:
    padding = [nbformat.v4.new_markdown_cell("word " * 2_000) for _ in range(20)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_raw_cell("0", id="counter"), *padding])
    path = tmp_path / "kept.ipynb"
    nbformat.write(notebook, path)
    async with open_here():  # keeps the host warm, so that each doomed engine only attaches
        pass
    told = {"edited": 0, "saved": 0}
    for round_number in range(kills):
        with forked(saves_forever, tmp_path) as doomed:
            assert doomed.out.readline() == "ready\n", doomed.said_wrong()
            lines = [doomed.out.readline() for _ in range(1 + round_number % 7)]
            doomed.kill()
            lines += doomed.out  # what it still said before it died is acknowledged too
            told |= {what: int(number) for what, number in map(str.split, lines)}
            assert doomed.end() == -signal.SIGKILL, doomed.said_wrong()
        on_disk = nbformat.reads(path.read_text(), as_version=4)
        nbformat.validate(on_disk)
        assert int(on_disk.cells[0].source) >= told["saved"]
    async with open_here() as engine:
        assert int(engine.sessions()[0].cell("counter").source) >= told["edited"]
    saved = json.loads(path.read_text())
    assert int("".join(saved["cells"][0]["source"])) >= told["edited"]


@contextmanager
def full_disk() -> Iterator[None]:
    """A system that refuses to write anywhere, as a full disk does, to this process alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_what_a_full_disk_refuses_has_not_happened_and_can_be_repeated(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    there = tmp_path / "there.ipynb"
    there.write_bytes(Document.new().to_bytes())
    async with open_here() as engine:
        session = await engine.create("full")
        cell = await session.add_cell("ran = globals().get('ran', 0) + 1; ran")
        await session.take_over("first")
        attempts = (
            lambda: session.add_cell("added"),
            lambda: session.edit_cell(cell.id, "edited"),
            lambda: session.delete_cell(cell.id),
            lambda: session.move_cell(cell.id, 0),
            lambda: session.execute(cell.id),
            lambda: session.take_over("second"),
            lambda: engine.create("another"),
            lambda: engine.open(there),
        )
        before = session.document.to_bytes(), session.document.versions, session.record
        with full_disk():
            for attempt in attempts * 2:
                with pytest.raises(SaveFailed, match=r"Cannot|Nothing was changed"):
                    await attempt()
            assert before == (session.document.to_bytes(), session.document.versions, session.record)
            assert await engine.history(session.id) == [], "what was journalled can be read"
            assert (session.runs.live, engine.sessions()) == ([], [session])
        assert (await session.run(cell.id)).text == "1\n", "what was refused did not run"
        await session.add_cell("added")
        cells = [one.source for one in session.cells]
        assert cells.count("added") == 1
        kept = [found.name for found in (session.path.parent).iterdir()]
        assert kept == [session.path.name], "a session that was refused leaves no notebook"
    async with open_here() as engine:
        assert [one.source for one in engine.sessions()[0].cells] == cells
        assert engine.sessions()[0].held_by == "first"
