"""What a trace takes from the engine and tells it, over real kernels."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cellwright
from cellwright import Engine, Event
from cellwright.agent.models.table import ModelRow, Price
from cellwright.agent.trace import environment
from cellwright.agent.trace.environment import environment_of
from cellwright.agent.trace.redaction import MARK, Redactor
from cellwright.agent.trace.steps import CellRun, Step, StepEvents, Trace, runs_since
from cellwright.delegation import Usage
from tests.waiting import fail_after, scaled

pytestmark = pytest.mark.anyio
KEPT_BACK = "xk-9f8e7d6c5b4a"


async def told_events(engine: Engine, session_id: str, since: int) -> list[Event]:
    await engine.history(session_id)  # which waits for the journal
    events = engine.events(since=since, session_id=session_id)
    return [event for event in events if event.kind == "notebook.agent.step"]


async def test_each_step_is_told_as_an_event_of_its_session(engine: Engine) -> None:
    session = await engine.create("steps")
    trace = Trace("run-1", [StepEvents(engine, "run-1", Redactor([KEPT_BACK]))])
    trace.pattern = "react"
    with engine.subscribe(session.id) as events, fail_after():
        async with trace.step("question", role="user") as step:
            step.note = f"my key is {KEPT_BACK}\nsecond line"
        async with trace.step("request", role="act", branch="main.1") as step:
            step.session_id, step.model, step.usage = session.id, "test:scripted", Usage(10, 5, 4, 0.25)
            step.seconds.model = 1.5
        async with trace.step("call", role="act") as step:
            step.session_id, step.tool, step.failed = session.id, "cell_add_and_run", True
            step.runs = [CellRun("x-1", "c1", "1/0", "error")]
            step.result = "long " * 10_000
        seen: list[dict[str, Any]] = []
        async for event in events:
            assert isinstance(event, Event)
            assert event.kind == "notebook.agent.step"
            seen.append(dict(event.data))
            if len(seen) == 3:
                break
    question, request, call = seen
    assert (question["step"], question["step_kind"], question["note"]) == (1, "question", f"my key is {MARK}")
    assert request == {
        "run_id": "run-1", "step": 2, "step_kind": "request", "role": "act", "pattern": "react", "branch": "main.1",
        "model": "test:scripted", "tool": None, "tokens_in": 10, "tokens_out": 5, "cached": 4, "money": 0.25,
        "seconds": request["seconds"], "state": "ok", "note": "", "executions": [],
    }  # fmt: skip
    assert request["seconds"]["model"] == 1.5
    assert (call["tool"], call["state"], call["executions"]) == ("cell_add_and_run", "failed", ["x-1"])
    assert len(json.dumps(call)) < 1_000
    assert [event.data["step"] for event in await told_events(engine, session.id, 0)] == [1, 2, 3]


async def test_telling_changes_neither_the_notebook_nor_its_file(engine: Engine) -> None:
    session = await engine.create("unchanged")
    await session.save()
    written = session.path.stat().st_mtime_ns
    session.tell("notebook.agent.step", {"step": 1})
    assert not session.context.file.dirty
    await session.save()
    assert session.path.stat().st_mtime_ns == written


async def test_a_session_that_is_gone_breaks_nothing(engine: Engine) -> None:
    session = await engine.create("gone")
    await engine.delete(session.id)
    step = Step(1, "call", "act", "react", "main", 0.0, session_id=session.id)
    await StepEvents(engine, "run-1", Redactor()).ended(step)
    assert "notebook.agent.step" not in await _kinds(engine, session.id)


async def _kinds(engine: Engine, session_id: str) -> set[str]:
    await engine.history((await engine.create("a later one")).id)  # which waits for the journal
    return {event.kind for event in engine.events(since=0, session_id=session_id)}


async def test_what_ran_since_a_count_is_told_with_code_and_streams(engine: Engine) -> None:
    session = await engine.create("runs")
    await (await session.execute_code("before = 1")).wait()
    count = session.runs.count
    assert await runs_since(engine, session, count) == []
    code = "import sys\nprint('\\x1b[31mout\\x1b[0m')\nprint('err', file=sys.stderr)\n6 * 7"
    good = await session.run((await session.add_cell(code)).id)
    bad = await session.run((await session.add_cell("1/0")).id)
    stopped = await session.run((await session.add_cell("while True: pass")).id, timeout_s=0.5)
    first, second, third = await runs_since(engine, session, count)
    assert (first.execution_id, first.cell_id, first.code, first.state) == (good.id, good.cell_id, code, "ok")
    assert (first.stdout, first.stderr) == ("out\n42\n", "err\n")
    assert first.seconds == good.seconds
    assert (second.execution_id, second.state, second.stdout) == (bad.id, "error", "")
    assert "ZeroDivisionError: division by zero" in second.stderr
    assert "\x1b" not in second.stderr
    assert third.state == "timeout"
    assert str(stopped.reason) in third.stderr


async def test_the_environment_says_what_ran_where(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_TIMEOUT_S", scaled(60))
    session = await engine.create("surroundings")
    await session.run((await session.add_cell("import nbformat.v4 as v4\nfrom pydantic import BaseModel")).id)
    row = ModelRow("m", "test", 1_000, price=Price(1.0, 2.0, 0.5))
    told = await environment_of(session, [row])
    assert json.loads(json.dumps(told)) == told
    assert told["cellwright"] == cellwright.__version__
    [model] = told["models"]
    assert (model["full_name"], model["price"]["tokens_out"]) == ("test:m", 2.0)
    about = told["session"]
    assert (about["session_id"], about["tier"], about["host"]) == (session.id, session.tier, "local")
    assert {"nbformat", "pydantic"} <= set(about["packages"])
    assert "pandas" not in about["packages"]
    assert about["interpreter_version"].startswith("3.")
    await session.suspend()
    told = await environment_of(session, [])
    assert told["session"]["packages_unknown"] == "The session has no kernel"
    assert (await environment_of(None, []))["session"] is None
