"""A question from its beginning to its end: what stops it, what it leaves, what is told of it."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.agent._context import Closing, ClosingContext
from cellwright.agent.budgets import Budget
from cellwright.agent.conversations import Conversations
from cellwright.agent.data_agent import TRACES
from cellwright.agent.patterns import Ideas, Pick
from cellwright.agent.trace.export import read_run
from cellwright.agent.trace.steps import Step
from cellwright.connections.known import lent
from cellwright.errors import AgentError, UnknownConversation, UnknownSession
from cellwright.notebook import NotebookMetadataSet
from cellwright.settings.model import ApprovalRules
from tests.support.agent.scripting import ROW, Call, Onlooker, Script, Wrong, cut_off, run, told
from tests.support.agent.wires.talking import Clock
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio


# What stops a run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(steps=2), "2 of 2 steps"),
        (Budget(tokens=200), "220 of 200 tokens"),
        (Budget(money=0.0001), "US dollars"),
    ],
)
async def test_a_spent_budget_stops_with_a_report_and_what_was_done_stays(
    ask: Any, engine: Engine, budget: Budget, words: str
) -> None:
    script = Script({"main/act": [run(f"x{n} = {n}") for n in range(9)]})
    outcome = await ask("Go on for ever", script, budget=budget)
    assert not outcome.ok
    assert words in outcome.report
    assert "Raise it" in outcome.report
    assert any(cell.source == "x0 = 0" for cell in engine.session(outcome.session_id).cells)


async def test_a_person_may_let_a_run_go_past_its_budget_by_as_much_again(ask: Any, engine: Engine) -> None:
    asked: list[str] = []

    async def answer() -> None:
        for choice in ("once", "refuse"):
            await until(lambda: bool(engine.approvals.waiting(session.id)))
            (question,) = engine.approvals.waiting(session.id)
            asked.append(question.matter.what)
            await engine.approvals.answer(question.id, choice, by="page:ada")

    session = await engine.create("budget")
    script = Script({"main/act": [run(f"x{n} = {n}") for n in range(9)]})
    rules, engine.approvals.rules = engine.approvals.rules, ApprovalRules(budget="ask")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            with session.questions.attended(), fail_after():
                outcome = await ask("Go on for ever", script, budget=Budget(steps=2), session_id=session.id)
    finally:
        engine.approvals.rules = rules
    assert ["2 of 2 steps" in asked[0], "4 of 4 steps" in asked[1]] == [True, True]
    assert "4 of 4 steps" in outcome.report


async def test_seconds_stop_a_cell_that_would_run_on(ask: Any, engine: Engine) -> None:
    script = Script({"main/act": [run("import time\nwhile True: time.sleep(0.01)")]})
    # There before: all the seconds may pass while one would be made.
    session = await engine.create("endless")
    outcome = await ask("Wait for ever", script, budget=Budget(seconds=4), session_id=session.id)
    assert not outcome.ok
    assert "of 4 seconds" in outcome.report
    with fail_after():
        while session.runs.live:
            await session.runs.live[0].wait(1)


async def test_a_verification_that_would_run_on_waits_no_longer_than_the_seconds(ask: Any) -> None:
    unrun = Call("cell_add", {"content": "import time\nwhile True: time.sleep(0.01)"})
    clock = Clock()

    def late(_: str) -> str:
        clock.now += 600
        return "It is 5."

    script = Script({"main/act": [[run("print(5)"), unrun], late]})
    with fail_after(60):
        outcome = await ask("Get five", script, verify=True, budget=Budget(seconds=600), clock=clock)
    assert (outcome.answer, outcome.verified) == ("It is 5.", None)


async def test_an_answer_stays_where_its_notebook_cannot_be_verified(ask: Any, engine: Engine) -> None:
    session = await engine.create("masked")
    wrong = {**session.document.metadata, "cellwright": {"verify": {"mask": ["everything"]}}}
    await session.apply([NotebookMetadataSet(wrong)])
    script = Script({"main/act": [run("print(5)"), "It is 5."]})
    outcome = await ask("Get five", script, verify=True, session_id=session.id)
    assert (outcome.answer, outcome.verified) == ("It is 5.", None)
    history = await Conversations(engine.settings.storage / "conversations").get(outcome.conversation_id)
    assert history.runs[-1].answer == "It is 5."
    directory = engine.settings.storage / "conversations" / outcome.conversation_id / TRACES
    steps = read_run(directory / f"{outcome.run_id}.jsonl")["steps"]
    verify = next(step for step in steps if step["kind"] == "verify")
    assert "everything" in verify["note"]


async def test_three_cells_that_fail_in_a_row_stop_with_the_plans_report(ask: Any, engine: Engine) -> None:
    script = Script({"main/act": [run(f"raise ValueError('try {n}')") for n in range(3)]})
    outcome = await ask("Try", script)
    assert not outcome.ok
    assert script.used_up
    assert "ValueError" in outcome.report
    assert "try 2" in outcome.report
    assert "stopped at cell 1\n" in outcome.report
    assert "Attempted Fixes: 2\n" in outcome.report, "each try after the first was one"
    assert not [cell for cell in engine.session(outcome.session_id).cells if cell.runs], (
        "failed cells leave no trace"
    )


async def test_an_error_that_a_rule_can_mend_costs_no_request(ask: Any, engine: Engine) -> None:
    script = Script({"main/act": [run("print(math.factorial(3))"), "The product is 6."]})
    outcome = await ask("Add them", script)
    assert (outcome.answer, outcome.steps) == ("The product is 6.", 2)
    assert "Fixed by rule" in told(script.prompts[1])
    assert [cell.source for cell in engine.session(outcome.session_id).cells if cell.runs] == [
        "import math\nprint(math.factorial(3))"
    ]


async def test_an_answer_from_memory_is_sent_back_to_be_computed(ask: Any) -> None:
    script = Script({"main/act": ["The sum is 338350.", run("print(338350)"), "The sum is 338350."]})
    outcome = await ask("What is the sum of the squares?", script)
    assert (outcome.answer, outcome.untraced) == ("The sum is 338350.", ())
    assert script.used_up


async def test_a_number_that_no_output_has_is_marked(ask: Any) -> None:
    script = Script({"main/act": [run("print(41)"), "It is 41, up from 17."]})
    outcome = await ask("How much?", script)
    assert outcome.untraced == ("17",)
    assert outcome.answer == "It is 41, up from 17 [not from an output]."


async def test_every_model_failing_stops_with_what_each_said(ask: Any) -> None:
    scripts = [Script({"main/act": [Wrong("no credit")]}), Script({"main/act": [Wrong("no such model")]})]
    outcome = await ask("Hello", *scripts)
    assert not outcome.ok
    assert "no credit" in outcome.report
    assert "no such model" in outcome.report


async def test_one_branch_whose_model_fails_does_not_stop_the_others(ask: Any) -> None:
    script = Script(
        {
            "main/propose": [Ideas(ideas=["a", "b"])],
            "main.1/act": [Wrong("overloaded")],
            "main.2/act": [run("print(5)"), "It is 5."],
            "main/aggregate": [Pick(best=1, why="the only one", answer="It is 5.")],
        }
    )
    outcome = await ask("Which is best?", script)
    assert (outcome.ok, outcome.answer) == (True, "It is 5.")


@pytest.mark.matrix  # `…whose_model_fails…` leaves the others alone, too
async def test_one_branch_whose_data_is_gone_does_not_stop_the_others(ask: Any, tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.touch()

    class Somebody(Onlooker):
        def began(self, step: Step) -> None:
            if step.tool == "notebook_create":
                data.unlink()

    script = Script(
        {
            "main/propose": [Ideas(ideas=["a", "b"])],
            "main.1/act": [Call("notebook_create", {"name": "another"})],
            "main.2/act": [run("print(5)"), "It is 5."],
            "main/aggregate": [Pick(best=1, why="the only one", answer="It is 5.")],
        }
    )
    outcome = await ask("Which is best?", script, data=(data,), watchers=[Somebody()])
    assert (outcome.ok, outcome.answer) == (True, "It is 5.")


@pytest.mark.parametrize(
    ("about", "error"),
    [
        ({"pattern": "magic"}, AgentError),
        ({"conversation_id": "c-none222"}, UnknownConversation),
        ({"conversation_id": "../../etc"}, UnknownConversation),
        ({"session_id": "s-none"}, UnknownSession),
    ],
)
async def test_what_cannot_be_begun_is_refused_before_a_model_is_asked(
    ask: Any, about: dict[str, Any], error: type[Exception]
) -> None:
    script = Script({})
    with pytest.raises(error):
        await ask("Hello", script, **about)
    assert script.asked == []


async def test_a_data_file_that_is_not_there_is_told(ask: Any, tmp_path: Path) -> None:
    outcome = await ask("Read it", Script({"main/act": [run("1")]}), data=(tmp_path / "none.csv",))
    assert not outcome.ok
    assert "none.csv cannot be read: No such file or directory" in outcome.report


async def test_two_data_files_of_one_name_are_refused(ask: Any, tmp_path: Path) -> None:
    paths = [tmp_path / part / "data.csv" for part in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("x\n1\n")
    outcome = await ask("Read them", Script({"main/act": [run("1")]}), data=tuple(paths))
    assert "Two data files are called 'data.csv'" in outcome.report


# Kinds of models -----------------------------------------------------------------------------------------------------


async def test_a_model_that_holds_its_context_in_json_closes_with_it(ask: Any) -> None:
    def closing(text: str) -> Closing:
        name = text.rsplit("notebook of this conversation is ", maxsplit=1)[-1].split(",", maxsplit=1)[0]
        context = ClosingContext(
            current_notebook=name, imported_modules=[], defined_functions=[], variables=["x"]
        )
        return Closing(message="x is 3.", context=context)

    script = Script({"main/act": [run("x = 3\nprint(x)"), lambda _: _lost(), closing]}).with_row(
        context="json"
    )
    outcome = await ask("Set x to 3", script)
    assert outcome.answer == "x is 3."
    assert script.wants[0].shape is Closing
    assert "math_20200101_000000" in told(script.prompts[2]), "a wrong notebook is corrected"


def _lost() -> Closing:
    return Closing(
        message="x is 3.",
        context=ClosingContext(
            current_notebook="math_20200101_000000", imported_modules=[], defined_functions=[], variables=[]
        ),
    )


async def test_a_model_of_one_call_a_turn_makes_and_fills_a_notebook_in_one(ask: Any, engine: Engine) -> None:
    cells = [{"source": "# Sums", "cell_type": "markdown"}, {"source": "a = 2"}, {"source": "print(a + 2)"}]
    script = Script(
        {"main/act": [Call("notebook_fill", {"name": "sums", "cells": cells}), "It is 4."]}
    ).with_row(tools="one")
    outcome = await ask("Make a notebook of sums", script)
    assert outcome.answer == "It is 4."
    session = engine.session(outcome.session_id)
    assert session.name.endswith("_sums")
    assert [cell.source for cell in session.cells][-3:] == ["# Sums", "a = 2", "print(a + 2)"]
    assert "notebook_fill" in {tool.name for tool in script.wants[0].tools}


async def test_a_notebook_that_cannot_be_made_is_a_reply_and_no_end(ask: Any) -> None:
    calls = [
        Call("notebook_fill", {"name": name, "cells": [{"source": "print(4)"}]}) for name in ("", "sums")
    ]
    script = Script({"main/act": [*calls, "It is 4."]}).with_row(tools="one")
    outcome = await ask("Make a notebook of sums", script)
    assert (outcome.ok, outcome.answer) == (True, "It is 4.")


async def test_models_of_many_calls_are_not_offered_what_is_for_one(ask: Any) -> None:
    script = Script({"main/act": [[run("b = 1"), run("print(b + 1)")], "It is 2."]})
    outcome = await ask("Add", script)
    assert outcome.answer == "It is 2."
    assert "notebook_fill" not in {tool.name for tool in script.wants[0].tools}


async def test_calls_of_one_turn_run_one_after_the_other(ask: Any) -> None:
    script = Script(
        {
            "main/act": [
                [
                    run("import time; time.sleep(0.2); order = ['a']"),
                    run("order.append('b')"),
                    run("print(order)"),
                ],
                "In order.",
            ]
        }
    )
    outcome = await ask("Do it in order", script)
    assert outcome.ok
    assert "['a', 'b']" in told(script.prompts[1])


# What it is told, and what it leaves ---------------------------------------------------------------------------------


async def test_data_lies_in_the_working_directory_and_its_columns_are_told(ask: Any, tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text("name,age\nAnn,31\nBo,45\n")
    count = "import csv\nprint(max(int(row['age']) for row in csv.DictReader(open('people.csv'))))"
    script = Script({"main/act": [run(count), run("print(45)"), "The oldest is 45."]})
    outcome = await ask("Who is oldest?", script, data=(data,))
    assert outcome.answer == "The oldest is 45."


async def test_data_lies_in_a_notebook_that_the_model_makes_itself(
    ask: Any, engine: Engine, tmp_path: Path
) -> None:
    data = tmp_path / "people.csv"
    data.write_text("name,age\nAnn,31\nBo,45\n")
    calls = [Call("notebook_create", {"name": "people"}), run("print(open('people.csv').read())")]
    script = Script({"main/act": [calls, "The oldest is 45."]})
    outcome = await ask("Who is oldest?", script, data=(data,))
    assert outcome.answer == "The oldest is 45."
    assert "Bo,45" in told(script.prompts[1])
    assert engine.session(outcome.session_id).name.endswith("_people")


async def test_data_of_many_megabytes_comes_into_a_project(ask: Any, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").touch()
    data = tmp_path / "large.bin"
    data.write_bytes(bytes(range(256)) * (60 << 12))
    digest = "import hashlib\nprint(hashlib.sha256(open('large.bin', 'rb').read()).hexdigest())"
    script = Script({"main/act": [run(digest), "Read."]})
    outcome = await ask("Say when it is read", script, data=(data,), directory=tmp_path / "project")
    assert (outcome.ok, outcome.report) == (True, None)
    assert engine.session(outcome.session_id).mode == "overlay"
    assert hashlib.sha256(data.read_bytes()).hexdigest() in told(script.prompts[1])


@pytest.mark.matrix  # `test_long_conversations` has it within a run
async def test_a_history_that_is_full_goes_on_with_a_summary(ask: Any, engine: Engine) -> None:
    long = "word " * 3000
    script = Script(
        {
            "main/act": [
                run("print('first', 1)"),
                run(f"print({long!r})"),
                run("print('third', 3)"),
                "It is 3.",
            ],
            "main/summary": [Wrong("too long")] * 3,
        },
        row=ROW,
    ).with_row(context_tokens=6_000)
    outcome = await ask("Print things", script)
    assert outcome.ok, outcome.report
    conversations = Conversations(engine.settings.storage / "conversations")
    history = await conversations.get(outcome.conversation_id)
    assert len(history.segments) > 1, "the old history stays"


async def test_every_step_is_in_the_trace_with_what_went_in_and_came_out(ask: Any, engine: Engine) -> None:
    script = Script({"main/act": [run("print(1 / 0)"), run("print(8)"), "It is 8."]})
    outcome = await ask("Get eight", script, verify=True)
    directory = engine.settings.storage / "conversations" / outcome.conversation_id / TRACES
    trace = read_run(directory / f"{outcome.run_id}.jsonl")
    kinds = [step["kind"] for step in trace["steps"]]
    assert kinds == [
        "question",
        "choose",
        "request",
        "call",
        "request",
        "call",
        "request",
        "verify",
        "answer",
    ]
    failed, mended = [step for step in trace["steps"] if step["kind"] == "call"]
    assert "ZeroDivisionError" in json.dumps(failed["runs"])
    assert mended["runs"][0]["code"] == "print(8)"
    assert mended["runs"][0]["stdout"] == "8\n"
    requests = [step for step in trace["steps"] if step["kind"] == "request"]
    assert "Get eight" in json.dumps(requests[-1]["prompt"])
    assert trace["outcome"]["answer"] == "It is 8."
    kept = [event.kind for event in engine.events(since=0, session_id=outcome.session_id, limit=500)]
    assert "notebook.agent.step" in kept


async def test_tools_of_a_server_of_the_users_are_offered_and_called(ask: Any, tmp_path: Path) -> None:
    program = tmp_path / "weather.py"
    program.write_text(
        "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('weather')\n"
        "@server.tool()\ndef degrees(city: str) -> str:\n    '''Degrees in a city.'''\n    return f'{city}: 23 degrees'\n"
        "server.run()\n"
    )
    script = Script({"main/act": [Call("weather_degrees", {"city": "Rome"}), "Rome has 23 degrees."]})
    server = lent("weather", f"{sys.executable} {program}")
    outcome = await ask("How warm is Rome?", script, servers=(server,))
    assert (outcome.answer, outcome.untraced) == ("Rome has 23 degrees.", ())
    assert script.used_up


async def test_a_server_that_cannot_be_started_is_told(ask: Any) -> None:
    with pytest.raises(AgentError, match="nowhere"):
        await ask("Hello", Script({}), servers=(lent("nowhere", "/no/such/program"),))


async def test_a_run_that_was_cut_off_in_a_call_is_gone_on_with(ask: Any, engine: Engine) -> None:
    first = Script({"main/act": [run("import time\nkept = 7\ntime.sleep(600)")]})
    async with cut_off(engine):
        await ask("Begin", first)
    assert not any(session.runs.live for session in engine.sessions())
    conversations = Conversations(engine.settings.storage / "conversations")
    left = (await conversations.list())[0]
    second = Script({"main/act": [run("print(6)"), "It is 6."]})
    outcome = await ask("Go on", second, conversation_id=left.id)
    assert outcome.answer == "It is 6."
    assert "ended before this call was answered" in told(second.prompts[0])
