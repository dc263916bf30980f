"""The harness over real kernels: solutions of three contenders, and questions to the agent, gone on with after a stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest

from cellwright import Engine
from cellwright.agent.data_agent import DataAgent
from cellwright.agent.models.chain import Chain
from cellwright.agent.questions import Question
from cellwright.mcp.server import McpServer
from datatasks.asked import Ask, Inquiry, ask_all
from datatasks.contenders import Cell, Ran, Runner, ipykernel, ours, plain_python
from datatasks.records import Asked, add_asked, read_asked
from datatasks.references import JUDGE, judge, run_references
from datatasks.reports import asked_as_json, asked_as_table, references_as_json, references_as_table
from datatasks.tasks import Step, Task, TaskSet
from tests.support.agent.scripting import Call, Script, run

pytestmark = pytest.mark.anyio

RULES = {"crash": None, "namespace_intact": None, "result": None, "namespace_check": {"x": None}}
STEPS = Task(
    "steps",
    (
        Step(cells=("x = 1",)),
        Step("Add one", ("x += 1\n[x, {'a': 1.5}]",), rules=RULES),
        Step("Fail", ("1 / 0",)),
    ),
)
SAID = Task("said", (Step("Say it", ("y = 20", "print(f'@total[{y + 1}]')"), {"total": "21"}),))
LACKING = Task("lacking", (Step("Import", ("import no_such_module",)),))


@pytest.fixture
async def face(engine: Engine) -> AsyncIterator[McpServer]:
    async with anyio.create_task_group() as tasks:
        face = McpServer(engine)
        await tasks.start(lambda task_status: face.run(task_status=task_status))
        yield face
        tasks.cancel_scope.cancel()


async def test_three_contenders_agree_on_what_passes(engine: Engine, tmp_path: Path) -> None:
    contenders: dict[str, Runner] = {JUDGE: plain_python, "ipykernel": ipykernel, "ours": ours(engine)}
    result = await run_references(TaskSet("own", (STEPS, SAID, LACKING)), contenders, tmp_path)
    assert [result.rate(name) for name in contenders] == pytest.approx([2 / 3] * 3)
    assert {one.failures for tried in result.tried.values() for one in tried} == {
        ("steps[2] ZeroDivisionError: division by zero",),
        (),
    }
    assert result.left_out == {"lacking": "needs no_such_module"}
    assert "left out, needs no_such_module: 1 task" in references_as_table(result)
    assert references_as_json("own", result)["pass_rate_to_plain_python"] == 1
    assert not list(tmp_path.iterdir())


def test_another_value_than_plain_python_has_is_no_pass() -> None:
    truth = [Ran(None, "", "aaaa 1")]
    assert judge(STEPS.steps[1], [Ran(None, "", "aaaa other text")], truth) is None
    assert judge(STEPS.steps[1], [Ran(None, "", "bbbb 2")], truth)
    assert judge(SAID.steps[0], [Ran(None, "@total[22]", "")], truth) == "wrong: total"


async def test_plain_python_that_ends_early_fails_every_cell(tmp_path: Path) -> None:
    cells: Sequence[Cell] = [Cell("import os; os._exit(3)", ""), Cell("1", "")]
    _, told = await plain_python(cells, "", tmp_path)
    assert [one.failure for one in told] == ["the process ended with 3"] * 2


def _asks(face: McpServer, *scripts: Script) -> Ask:
    left = list(scripts)

    async def connect(_: Question) -> Chain:
        return Chain([left.pop(0)])

    return DataAgent(face, connect=connect).ask


async def test_the_agent_is_asked_and_judged_by_text_and_by_values(
    engine: Engine, face: McpServer, tmp_path: Path
) -> None:
    solved = Task("steps", STEPS.steps[:2])
    said = Script({"main/act": [Call("answer", {"code": "print(21)", "sentence": "@total[{1}]"})]})
    added = Script({"main/act": [run("x += 1\n[x, {'a': 1.5}]"), "It is 2."]})
    out, inquiry = tmp_path / "out.jsonl", Inquiry("scripted", ("react",))
    asked = await ask_all(
        engine,
        _asks(face, said, added),
        TaskSet("own", (SAID, solved)),
        inquiry,
        scratch=tmp_path / "work",
        out=out,
    )
    assert [(one.task, one.step, one.right, one.failure, one.wrong) for one in asked] == [
        ("said", 0, True, None, ()),
        ("steps", 1, True, None, ()),
    ]
    assert (asked[0].tokens_in, asked[0].requests, asked[0].parts) == (100, 1, {"total": True})
    assert read_asked(out) == asked
    assert not [session for session in engine.sessions() if session.path.is_relative_to(tmp_path)]


async def test_a_run_that_is_begun_again_asks_only_what_is_left(
    engine: Engine, face: McpServer, tmp_path: Path
) -> None:
    other = Task("other", SAID.steps)
    out = tmp_path / "out.jsonl"
    add_asked(out, Asked("own", "said", 0, "react", "scripted", right=True, money=0.5))
    with out.open("a") as file:
        file.write('{"set": "own", "task": "ot')  # cut off
    script = Script({"main/act": [run("print(22)"), "@total[22]"]})
    asked = await ask_all(
        engine,
        _asks(face, script),
        TaskSet("own", (SAID, other, LACKING)),
        Inquiry("scripted", ("react",)),
        scratch=tmp_path / "work",
        out=out,
    )
    assert [(one.task, one.right, one.wrong) for one in asked] == [
        ("said", True, ()),
        ("other", False, ("total",)),
    ]
    assert script.used_up
    (row,) = asked_as_json(read_asked(out))
    assert (row["pattern"], row["questions"], row["right"], row["failed"], row["money"]) == (
        "react", 2, 0.5, 0, pytest.approx(0.5, abs=0.01),
    )  # fmt: skip
    assert "50.0%" in asked_as_table(read_asked(out))
