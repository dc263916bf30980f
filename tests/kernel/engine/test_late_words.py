"""What is said in the name of a cell that has ended, or that another kernel runs: kept, told as such, never its output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.engine import Execution, Session
from cellwright.mcp._replies import executions_json, executions_text, gather
from cellwright.mcp._resources import Resources
from cellwright.mcp._tool_names import ToolNames
from cellwright.mcp.context import Knowledge
from cellwright.verification import verify
from cellwright.web._notebook import cell_view
from cellwright.web._templates import render
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import until

pytestmark = pytest.mark.anyio

REMEMBER = "mine = get_ipython().kernel.get_parent()"
FORGE = """
def say_as(parent, kind, content, socket=None, **more):
    kernel = get_ipython().kernel
    kernel.session.send(socket or kernel.iopub_socket, kind, content, parent=parent, **more)
"""
FORGED = {
    "stream": {"name": "stdout", "text": "forged"},
    "execute_result": {"data": {"text/plain": "forged"}, "metadata": {}, "execution_count": 1},
    "display_data": {"data": {"text/plain": "forged"}, "metadata": {}},
    "error": {"ename": "Forged", "evalue": "forged", "traceback": []},
    "clear_output": {"wait": False},
}


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Session:
    return await engine.create("late words", directory=tmp_path)


async def ran(session: Session, source: str) -> Execution:
    cell = await session.add_cell(source)
    execution = await (await session.execute(cell.id)).wait()
    assert execution.ok, execution.text
    return execution


async def shown(session: Session, execution: Execution) -> str:
    """What the notebook's own file would hold of the cell."""
    await session.save()
    return json.dumps(session.cell(execution.cell_id or "").outputs, sort_keys=True)


async def test_nothing_that_is_said_in_its_name_changes_what_an_earlier_cell_has_put_out(
    session: Session, engine: Engine
) -> None:
    first = await ran(session, f"{REMEMBER}\nprint('true')\n42")
    before = await shown(session, first)
    said = "\n".join(f"say_as(mine, {kind!r}, {content!r})" for kind, content in FORGED.items())
    await ran(session, f"{FORGE}\n{said}")
    await ran(session, f"{FORGE}\nsay_as(mine, 'stream', {FORGED['stream']!r})")
    assert await shown(session, first) == before
    assert "forged" not in first.text
    assert first.state == "ok"
    kept = {output["output_type"] for output in first.late_outputs}
    assert kept == {"stream"}, "the forged clearing has cleared what was forged before it, and nothing else"
    again = {one.id: one for one in await engine.history(session.id)}[first.id]
    assert (again.outputs, again.late_outputs) == (first.outputs, first.late_outputs)


async def test_a_thread_that_prints_after_its_cell_is_heard_at_that_cell_and_marked(
    session: Session, engine: Engine
) -> None:
    starting = """
import pathlib, threading, time
def tell():
    while not pathlib.Path("go").exists(): time.sleep(0.02)
    print("from the thread", flush=True)
threading.Thread(target=tell).start()
"""
    first = await ran(session, starting)
    before = await shown(session, first)
    (session.cwd / "go").touch()
    await until(lambda: first.late_outputs)
    assert first.late_outputs == [{"output_type": "stream", "name": "stdout", "text": "from the thread\n"}]
    assert await shown(session, first) == before
    text, _ = executions_text(gather([first]))
    assert "After its end" in text
    assert "from the thread" in text
    view = cell_view(session, first.cell_id or "")
    page = str(render("cell_outputs.html", cell=view))
    assert page.index("After its end") < page.index("from the thread")
    told = executions_json([first], cell_id=first.cell_id)
    assert (told["stdout"], "from the thread" in told["late_output"]) == ("", True)
    first.add_late("stream", {"name": "stdout", "text": "x" * 5_000})
    told = executions_json([first], cell_id=first.cell_id)
    uri = told["late_output"].partition("left out; all of it: ")[2].partition(" ")[0]
    whole = await Resources(engine, Knowledge(engine), ToolNames()).read(uri)
    assert whole is not None
    assert whole.content == "from the thread\n" + "x" * 5_000


async def test_code_in_no_cell_is_heard_after_its_end_too(session: Session, engine: Engine) -> None:
    first = await (await session.execute_code(REMEMBER)).wait()
    await ran(session, f"{FORGE}\nsay_as(mine, 'stream', {FORGED['stream']!r})")

    async def late() -> list[str]:
        known = {one.id: one for one in await engine.history(session.id)}
        return [output["text"] for output in known[first.id].late_outputs]

    assert await late() == ["forged"]


async def test_a_display_that_a_later_cell_updates_stays_in_the_first_ones_record(session: Session) -> None:
    first = await ran(session, "handle = display('old', display_id='d')")
    before = await shown(session, first)
    second = await ran(session, "handle.update('new')\nhandle.update('newer')")
    assert await shown(session, first) == before
    assert [output["data"]["text/plain"] for output in first.late_outputs] == ["'newer'"]
    assert second.outputs == []


async def test_a_display_that_its_own_cell_updates_is_the_updated_one(session: Session) -> None:
    first = await ran(session, "handle = display('old', display_id='d')\nhandle.update('new')")
    assert [output["data"]["text/plain"] for output in first.outputs] == ["'new'"]
    assert first.late_outputs == []


async def test_a_certificate_holds_for_outputs_that_nobody_can_change_afterwards(
    engine: Engine, session: Session
) -> None:
    first = await ran(session, f"{REMEMBER}\nprint('true')")
    verified = await (await verify(engine, session)).wait()
    assert verified.verified
    before = await shown(session, first)
    await (
        await session.execute_code(f"{FORGE}\nsay_as(mine, 'stream', {FORGED['stream']!r})\nprint('x')")
    ).wait()
    assert await shown(session, first) == before


# Their own end, and that of what waits ---------------------------------------------------------------------------

END_EARLY = """
kernel = get_ipython().kernel
parent, ident = kernel.get_parent(), kernel._parent_ident["shell"]
reply = {"status": "ok", "execution_count": 7, "user_expressions": {}, "payload": []}
"""


async def test_a_cell_that_forges_its_own_end_costs_its_own_session_at_most(
    engine: Engine, session: Session
) -> None:
    neighbour = await engine.create("neighbour")
    forged = f"""{FORGE}{END_EARLY}
say_as(parent, "status", {{"execution_state": "idle"}})
say_as(parent, "execute_reply", reply, kernel.shell_stream, ident=ident)
import pathlib, time
while not pathlib.Path("go").exists(): time.sleep(0.02)
print("after its forged end", flush=True)
"""
    execution = await (await session.execute_code(forged)).wait()
    assert (execution.state, execution.outputs) == ("ok", [])
    assert (await (await neighbour.execute_code("40 + 2")).wait()).text.strip() == "42"
    following = await session.execute_code("'mine'")
    (session.cwd / "go").touch()
    assert (await following.wait()).text == "'mine'\n"


async def test_nothing_can_be_said_for_a_cell_that_waits(session: Session) -> None:
    forging = f"""{FORGE}{END_EARLY}
import pathlib, time
while not pathlib.Path("id").exists(): time.sleep(0.02)
later = {{**parent, "header": {{**parent["header"], "msg_id": pathlib.Path("id").read_text()}}}}
say_as(later, "stream", {FORGED["stream"]!r})
say_as(later, "status", {{"execution_state": "idle"}})
say_as(later, "execute_reply", {{**reply, "status": "error", "ename": "Forged"}}, kernel.shell_stream, ident=ident)
"""
    first = await session.execute_code(forging)
    second = await session.execute_code("'mine'")
    (session.cwd / "id.part").write_text(second.id)
    (session.cwd / "id.part").rename(session.cwd / "id")
    assert (await first.wait()).ok
    await second.wait()
    assert (second.state, second.text, second.late_outputs) == ("ok", "'mine'\n", [])


async def test_late_words_are_told_again_after_a_restart(open_here: OpenEngine) -> None:
    async with open_here() as engine:
        session = await engine.create("again")
        first = await ran(session, f"{REMEMBER}\nprint('true')")
        await ran(session, f"{FORGE}\nsay_as(mine, 'stream', {FORGED['stream']!r})")
        before = await shown(session, first)
    async with open_here() as engine:
        session = engine.session(session.id)
        assert await shown(session, first) == before
        again = engine.execution(first.id)
        assert [output["text"] for output in again.late_outputs] == ["forged"]
