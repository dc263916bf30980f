"""Conversations of several questions with the real agent: what is kept, compacted, lost and put right on the way."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cellwright import Engine
from cellwright.agent._compaction import SUMMARY_TAG, Fact, Summary
from cellwright.agent.conversations import FIRST, Conversations, History
from tests.support.agent.scripting import Call, Script, Wrong, run, told

pytestmark = pytest.mark.anyio

SUMMARY = Summary(
    asked=["Make a number"],
    facts=[Fact(text="x is 41", cell_id="c1")],
    decisions=[],
    open_points=[],
    files=[],
)


async def kept(engine: Engine, conversation_id: str) -> History:
    return await Conversations(engine.settings.storage / "conversations").get(conversation_id)


async def test_every_question_is_kept_also_behind_a_call_that_was_the_answer(
    ask: Any, engine: Engine
) -> None:
    answer = Call("answer", {"code": "x = 41\nprint(x)", "sentence": "It is {1}."})
    first = await ask("Make a number", Script({"main/act": [answer]}))
    again = {"conversation_id": first.conversation_id, "pattern": "react"}
    second = await ask("Add one to it", Script({"main/act": [run("print(x + 1)"), "It is 42."]}), **again)
    script = Script({"main/act": ["It was 42."]})
    await ask("What was it?", script, **again)
    assert second.session_id == first.session_id
    history = await kept(engine, first.conversation_id)
    said = told(history.messages())
    asked = [line for line in said.splitlines() if line in ("Make a number", "Add one to it", "What was it?")]
    assert asked == ["Make a number", "Add one to it", "What was it?"]
    assert list(history.segments) == [FIRST]
    assert [one.question for one in history.runs] == ["Make a number", "Add one to it", "What was it?"]
    # A restart finds just what the model was told last.
    assert told(script.prompts[-1]) == said


@pytest.mark.parametrize("reply", [pytest.param(SUMMARY, marks=pytest.mark.matrix), Wrong("overloaded")])
async def test_a_history_that_is_full_begins_anew_within_a_run(ask: Any, engine: Engine, reply: Any) -> None:
    long = [run(f"x = {number}\nprint('y' * 3_000)") for number in range(6)]
    script = Script({"main/act": [*long, run("print(x + 36)"), "It is 41."], "main/summary": [reply] * 3})
    outcome = await ask("Make a number", script.with_row(context_tokens=6_000), pattern="react")
    assert outcome.answer == "It is 41."
    compactions = script.asked.count("main/summary")
    assert compactions >= 1
    assert script.left["main/act"] == []
    history = await kept(engine, outcome.conversation_id)
    assert len(history.segments) == compactions + 1
    assert {one.why for one in history.segments.values()} == {"", "it was full"}
    assert "Make a number" in told(history.messages())
    assert f"<{SUMMARY_TAG}>" in told(history.messages())
    assert f"<{SUMMARY_TAG}>" not in told(history.messages(FIRST))
    script = Script({"main/act": ["It is still 41."]})
    await ask("And now?", script, conversation_id=outcome.conversation_id, pattern="react")
    assert f"<{SUMMARY_TAG}>" in told(script.prompts[0])


async def test_a_notebook_that_was_deleted_is_told_as_lost(ask: Any, engine: Engine) -> None:
    first = await ask("Make a number", Script({"main/act": [run("print(41)"), "It is 41."]}), pattern="react")
    name = engine.session(first.session_id).name
    await engine.delete(first.session_id, remove_file=True)
    script = Script({"main/act": ["The notebook of the earlier answer is gone."]})
    await ask("Where is it?", script, conversation_id=first.conversation_id, pattern="react")
    block = re.findall(r"<notebook_state>\n(.*?)</notebook_state>", told(script.prompts[0]), re.DOTALL)[-1]
    assert block.startswith(f"lost: the notebook {name}")


async def test_a_lost_kernel_is_run_again_and_a_deleted_sessions_file_opened_by_the_agent(
    ask: Any, engine: Engine
) -> None:
    make = Script({"main/act": [run("x = 41\nprint(x)"), "It is 41."]})
    first = await ask("Make a number", make, pattern="react")
    about = {"conversation_id": first.conversation_id, "pattern": "react"}
    session = engine.session(first.session_id)
    await session.suspend()
    second = await ask("One more?", Script({"main/act": [run("print(x + 1)"), "It is 42."]}), **about)
    assert (second.answer, second.session_id) == ("It is 42.", session.id)
    await session.save()
    await engine.delete(session.id)
    script = Script({"main/act": [run("print(x + 2)"), "It is 43."]})
    third = await ask("And then?", script.with_row(provider="xai"), **about)
    assert third.notebook == session.path
    # What this provider answers ends with the notebook's status, for a person to see.
    answer, _, status = third.answer.partition("\n\n---\n")
    assert answer == "It is 43."
    assert f"Notebook: {session.path.name}\nCode cells: 3\nVariables: x" in status
    # A notebook that somebody opened and did not run is left as it is.
    await engine.delete(third.session_id)
    opened = await engine.open(session.path)
    for named in ({"session_id": opened.id, "pattern": "react"}, about):
        await ask("What is in it?", Script({"main/act": ["Three cells."]}), **named)
        assert opened.record.generation == 0


async def test_an_answer_that_names_a_wrong_notebook_is_put_right(ask: Any, engine: Engine) -> None:
    script = Script({"main/act": [run("print(41)"), "It is 41, see s-9999999.", "It is 41."]})
    outcome = await ask("Make a number", script, pattern="react")
    assert outcome.answer == "It is 41."
    assert script.used_up
    assert "There is no session 's-9999999'" in told(script.prompts[-1])
    assert engine.session(outcome.session_id).name in told(script.prompts[-1])
