"""What JupyterLab's server sees of a session: one kernel, whose executions are the session's."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from cellwright import Engine
from cellwright.lab._channels import new_kernel_id
from cellwright.notebook.languages import cell_metadata
from tests.kernel.engine.conftest import OpenEngine
from tests.system.lab.conftest import Gate, open_gate
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_cell_run_in_lab_is_an_execution_of_the_session(gate: Gate, engine: Engine) -> None:
    cell = await gate.session.add_cell("print('hello')\n6 * 7")
    async with gate.client() as lab:
        msg_id = await lab.execute(cell.source, cell.id)
        reply = await lab.until("execute_reply", msg_id)
        await lab.until("status", msg_id, execution_state="idle")
    assert lab.kinds(msg_id) == [
        "status",
        "execute_input",
        "stream",
        "execute_result",
        "execute_reply",
        "status",
    ]
    assert reply["content"]["status"] == "ok"
    assert reply["channel"] == "shell"
    [ran] = await engine.history(gate.session.id)
    assert (ran.cell_id, ran.text, ran.record.execution_count) == (cell.id, "hello\n42\n", 1)
    assert gate.session.cell(cell.id).execution_count == 1


async def test_lab_reads_a_variable_that_the_agent_set(gate: Gate) -> None:
    await (await gate.session.execute_code("x = 41")).wait()
    async with gate.client() as lab:
        msg_id = await lab.execute("print(x + 1)")
        await lab.until("execute_reply", msg_id)
        assert lab.text(msg_id) == "42\n"


async def test_text_that_is_not_the_cells_runs_beside_it_in_the_cells_language(
    gate: Gate, engine: Engine
) -> None:
    cell = await gate.session.add_cell("select 1 as n", metadata=cell_metadata(language="sql"))
    async with gate.client() as lab:
        assert (await lab.run("select 42 as answer", cell.id))["status"] == "ok"
    [ran] = await engine.history(gate.session.id)
    assert (ran.cell_id, ran.record.language) == (None, "sql")
    assert "42" in ran.text
    assert gate.session.cell(cell.id).source == "select 1 as n"


async def test_cell_of_another_language_is_found_by_its_id(gate: Gate, engine: Engine) -> None:
    cell = await gate.session.add_cell("select 42 as answer", metadata=cell_metadata(language="sql"))
    async with gate.client() as lab:
        assert (await lab.run(cell.source, cell.id))["status"] == "ok"
    [ran] = await engine.history(gate.session.id)
    assert (ran.cell_id, ran.record.language) == (cell.id, "sql")


async def test_agents_run_is_seen_as_somebody_elses(gate: Gate) -> None:
    async with gate.client() as lab:
        execution = await gate.session.execute_code("print('from the agent')")
        await lab.until("status", execution.id, execution_state="idle")
    assert lab.kinds(execution.id) == ["status", "execute_input", "stream", "status"]
    assert lab.text(execution.id) == "from the agent\n"


def _until_there(file: Path) -> str:
    """Code that waits for a file."""
    return f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.02)"


async def test_failure_drops_what_lab_asked_for_behind_it(gate: Gate) -> None:
    async with gate.client() as lab:
        go = Path(gate.session.cwd) / f"go-{gate.session.id}"
        codes = [f"{_until_there(go)}\n1 / 0", "ran = 1", "ran = 2"]
        asked = [await lab.execute(code) for code in codes]
        await until(lambda: len(gate.session.runs.live) == len(codes))
        go.touch()
        replies = [(await lab.until("execute_reply", msg_id))["content"] for msg_id in asked]
        assert [reply["status"] for reply in replies] == ["error", "aborted", "aborted"]
        assert replies[0]["ename"] == "ZeroDivisionError"
        assert (await lab.run("ran"))["ename"] == "NameError"


async def test_failure_that_stops_nothing_drops_nothing(gate: Gate) -> None:
    async with gate.client() as lab:
        go = Path(gate.session.cwd) / f"go-{gate.session.id}"
        await lab.execute(f"{_until_there(go)}\n1 / 0", stop_on_error=False)
        behind = await lab.execute("1")
        await until(lambda: len(gate.session.runs.live) == 2)
        go.touch()
        assert (await lab.until("execute_reply", behind))["content"]["status"] == "ok"


async def test_failure_in_lab_leaves_what_the_agent_queued(gate: Gate) -> None:
    async with gate.client() as lab:
        go = Path(gate.session.cwd) / f"go-{gate.session.id}"
        msg_id = await lab.execute(f"print(1)\n{_until_there(go)}\n1 / 0")
        await lab.until("stream", msg_id)
        queued = await gate.session.execute_code("2")
        go.touch()
        assert (await queued.wait()).ok


async def test_interrupt_in_lab_stops_the_cell(gate: Gate) -> None:
    kernel = await gate.start()
    async with gate.client(kernel) as lab:
        msg_id = await lab.execute("x = 1\nprint('begun')\nwhile True: pass")
        await lab.until("stream", msg_id)
        assert (await gate.ask("POST", f"/api/kernels/{kernel}/interrupt")).status_code == 204
        assert (await lab.until("execute_reply", msg_id))["content"]["ename"] == "KeyboardInterrupt"
        assert (await lab.run("x"))["status"] == "ok"


async def test_restart_in_lab_empties_the_kernel_and_tells_the_agent(gate: Gate) -> None:
    kernel = await gate.start()
    async with gate.client(kernel) as lab:
        await lab.run("x = 1")
        assert (await gate.ask("POST", f"/api/kernels/{kernel}/restart")).status_code == 200
        assert (await lab.run("x"))["ename"] == "NameError"
    assert "restarting" not in [one["content"].get("execution_state") for one in lab.heard]
    execution = await (await gate.session.execute_code("1")).wait()
    assert "restarted from JupyterLab" in (execution.record.note or "")


async def test_restart_by_the_agent_is_told_to_lab(gate: Gate) -> None:
    async with gate.client() as lab:
        await gate.session.restart()
        await lab.until("status", execution_state="restarting")


async def test_end_of_the_kernel_is_told_with_its_cause(gate: Gate) -> None:
    async with gate.client() as lab:
        msg_id = await lab.execute("import os; os._exit(7)")
        assert (await lab.until("error", msg_id))["content"]["ename"] == "KernelDied"
        assert (await lab.until("execute_reply", msg_id))["content"]["status"] == "error"
        await lab.until("status", execution_state="restarting")
        assert (await lab.run("1"))["status"] == "ok"


async def test_shutting_down_in_lab_only_lets_go(gate: Gate) -> None:
    kernel, other = await gate.start(), await gate.start()
    await (await gate.session.execute_code("x = 1")).wait()
    assert (await gate.ask("DELETE", f"/api/kernels/{kernel}")).status_code == 204
    assert (await gate.ask("GET", f"/api/kernels/{kernel}")).status_code == 404
    assert [one["id"] for one in (await gate.ask("GET", "/api/kernels")).json()] == [other]
    assert gate.session.state == "active"
    async with gate.client() as lab:
        assert (await lab.run("x"))["status"] == "ok"


async def test_only_kernel_there_is_names_the_session(gate: Gate) -> None:
    found = (await gate.ask("GET", "/api/kernelspecs")).json()
    assert list(found["kernelspecs"]) == [found["default"]] == ["python3"]
    assert gate.session.id in found["kernelspecs"]["python3"]["spec"]["display_name"]
    assert (await gate.ask("GET", "/api/kernelspecs/python3")).json()["name"] == "python3"
    assert (await gate.ask("GET", "/api/kernelspecs/ir")).status_code == 404


async def test_suspended_session_has_its_kernel_again_when_lab_wants_one(gate: Gate) -> None:
    await gate.session.suspend()
    kernel = await gate.start()
    assert gate.session.state == "active"
    assert (await gate.ask("GET", f"/api/kernels/{kernel}")).json()["execution_state"] == "idle"


async def test_who_comes_back_is_told_again_what_became_of_its_requests(gate: Gate) -> None:
    kernel, name = await gate.start(), "the-same-window"
    code = "import time\nfor n in range(300): print(n, flush=True); time.sleep(0.005)"
    async with gate.client(kernel, name) as lab:
        msg_id = await lab.execute(code)
        await lab.until("stream", msg_id)
    lines = "".join(f"{n}\n" for n in range(300))
    async with gate.client(kernel, name) as again:
        again.heard += lab.heard  # it is the same window
        reply = await again.until("execute_reply", msg_id)
        await again.until("status", msg_id, execution_state="idle")
    assert reply["content"]["status"] == "ok"
    assert again.text(msg_id) == lines
    async with gate.client(kernel, name) as late:
        late.heard += again.heard
        await late.until("execute_reply", msg_id)
    assert late.text(msg_id) == lines


async def test_another_window_is_not_told_of_requests_that_are_not_its_own(gate: Gate) -> None:
    kernel = await gate.start()
    async with gate.client(kernel) as lab:
        await lab.run("print('mine')")
    async with gate.client(kernel) as other:
        await other.answer("kernel_info_request", {})
    assert "mine" not in str(other.heard)


async def test_questions_are_answered(gate: Gate) -> None:
    async with gate.client() as lab:
        await lab.run("number = 1")
        info = await lab.answer("kernel_info_request", {})
        assert info["language_info"]["name"] == "python"
        found = await lab.answer("complete_request", {"code": "numb", "cursor_pos": 4})
        assert "number" in found["matches"]
        looked = await lab.answer("inspect_request", {"code": "number", "cursor_pos": 6, "detail_level": 0})
        assert looked["found"]
        whole = await lab.answer("is_complete_request", {"code": "if x:"})
        assert whole["status"] == "incomplete"
        past = await lab.answer("history_request", {"hist_access_type": "tail", "n": 1})
        assert past["history"][-1][2] == "number = 1"
        assert await lab.answer("comm_info_request", {}) == {"status": "ok", "comms": {}}
        assert (await lab.answer("debug_request", {}))["status"] == "error"


async def test_questions_are_answered_while_a_cell_runs_and_the_kernel_stays_busy(gate: Gate) -> None:
    kernel = await gate.start()
    async with gate.client(kernel) as lab:
        running = await lab.execute("print(1)\nwhile True: pass")
        await lab.until("stream", running)
        assert (await lab.answer("kernel_info_request", {}))["status"] == "ok"
        await lab.until("status", running, execution_state="busy")
        found = await lab.answer("complete_request", {"code": "impo", "cursor_pos": 4})
        assert (found["matches"], found["cursor_start"]) == ([], 4)
        await gate.session.interrupt()
        await lab.until("execute_reply", running)


async def test_comms_are_refused(gate: Gate) -> None:
    async with gate.client() as lab:
        await lab.send("comm_open", {"comm_id": "w1", "target_name": "jupyter.widget", "data": {}})
        assert (await lab.until("comm_close"))["content"]["comm_id"] == "w1"


async def test_what_is_no_message_is_passed_over(gate: Gate) -> None:
    async with gate.client() as lab:
        await lab.socket.send("nonsense")
        await lab.socket.send(b"\x00\x01")
        await lab.socket.send('{"header": {"msg_id": 7}}')
        assert (await lab.run("1"))["status"] == "ok"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
async def test_nobody_else_gets_in(gate: Gate, headers: dict[str, str], status: int) -> None:
    assert (await gate.ask("GET", "/api/kernelspecs", **headers)).status_code == status


async def test_kernel_of_another_session_is_not_here(gate: Gate) -> None:
    stranger = "12345678-1234-5678-1234-567812345678"
    assert (await gate.ask("GET", f"/api/kernels/{stranger}")).status_code == 404
    with pytest.raises(InvalidStatus):
        async with gate.client(stranger):
            pass


async def test_cell_of_a_language_that_nothing_runs_fails_with_the_reason(gate: Gate) -> None:
    cell = await gate.session.add_cell("f <- 1", metadata=cell_metadata(language="nolanguage"))
    async with gate.client() as lab:
        assert "nolanguage" in (await lab.run(cell.source, cell.id))["evalue"]
        assert (await lab.run("1"))["status"] == "ok"


async def test_code_that_cannot_be_queued_fails_as_code_does(open_here: OpenEngine) -> None:
    async with open_here(max_sessions=1, when_full="refuse") as engine:
        session = await engine.create("one too many")
        await session.suspend()
        await engine.create("the one that is active")
        async with open_gate(engine, session) as gate:
            assert (await gate.ask("POST", "/api/kernels")).status_code == 503
            async with gate.client(new_kernel_id(session.id)) as lab:
                assert "max_sessions" in (await lab.run("1"))["evalue"]
