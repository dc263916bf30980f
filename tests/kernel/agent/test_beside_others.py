"""A run beside others: a person at work in the same notebook, a notebook that goes away, branches that nobody takes back."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.agent.patterns import Ideas
from cellwright.agent.trace.steps import Step
from tests.support.agent.scripting import Call, Onlooker, Script, cut_off, run

pytestmark = pytest.mark.anyio


async def test_a_persons_failing_cell_is_neither_mended_nor_taken_out(ask: Any, engine: Engine) -> None:
    session = await engine.create("shared")
    theirs = await session.add_cell("raise ValueError('mine')")
    person = Onlooker()

    async def work() -> None:
        await person.called.wait()
        await session.execute(theirs.id)

    script = Script({"main/act": [run("import time\ntime.sleep(0.5)\nprint(7)"), "It is 7."]})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        outcome = await ask("How many?", script, session_id=session.id, watchers=[person])
    assert (outcome.ok, outcome.answer) == (True, "It is 7.")
    for execution in session.runs.live:
        await execution.wait()
    assert theirs.id in session.document
    assert session.cell(theirs.id).source == "raise ValueError('mine')"


async def test_the_answer_is_what_the_run_printed_not_what_a_person_did(ask: Any, engine: Engine) -> None:
    session = await engine.create("shared")
    theirs = await session.add_cell("print('theirs')")
    person = Onlooker()

    async def work() -> None:
        await person.called.wait()
        await session.run(theirs.id)

    code = "import time\ntime.sleep(0.5)\nprint(8)"
    script = Script({"main/act": [Call("answer", {"code": code, "sentence": "It is {1}."})]})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        outcome = await ask("How many?", script, session_id=session.id, watchers=[person])
    assert outcome.answer == "It is 8."


async def test_the_end_of_a_run_does_not_stop_what_a_person_runs(ask: Any, engine: Engine) -> None:
    session = await engine.create("shared")
    theirs = await session.add_cell("import time\ntime.sleep(3)")

    def reply(_: str) -> str:
        return "Hello."

    script = Script({"main/act": [run("x = 1"), reply]})

    class Person:
        execution: Any = None

        def began(self, step: Any) -> None: ...

        def heard(self, step: Any, delta: Any) -> None: ...

        async def ended(self, step: Any) -> None:
            if step.kind == "call":
                self.execution = await session.execute(theirs.id)

    person = Person()
    outcome = await ask("Say hello", script, session_id=session.id, watchers=[person])
    assert outcome.ok
    await person.execution.wait()
    assert person.execution.state == "ok"


async def test_a_notebook_deleted_during_a_run_stops_it_with_a_report(ask: Any, engine: Engine) -> None:
    session = await engine.create("doomed")

    class Person:
        def began(self, step: Any) -> None: ...

        def heard(self, step: Any, delta: Any) -> None: ...

        async def ended(self, step: Any) -> None:
            if step.kind == "call" and step.number < 6:
                await engine.delete(session.id)

    script = Script({"main/act": [run("x = 1"), run("x = 2"), "It is gone.", "It is gone.", "It is gone."]})
    outcome = await ask("Say hello", script, session_id=session.id, watchers=[Person()])
    assert outcome.run_id


async def test_branches_that_nobody_takes_back_keep_no_kernel(ask: Any, engine: Engine) -> None:
    endless = "import time\nwhile True: time.sleep(0.01)"
    script = Script(
        {
            "main/propose": [Ideas(ideas=["a", "b"])],
            "main.1/act": [run(endless)],
            "main.2/act": [run(endless)],
        }
    )
    async with cut_off(engine, cells=2) as scope:
        await ask("Which is best?", script)
    assert scope.cancel_called
    branches = [one for one in engine.sessions() if one.record.branch_of]
    assert len(branches) == 2
    assert [one.state for one in branches] == ["suspended", "suspended"]
    assert not any(one.runs.live for one in engine.sessions())


async def test_a_person_who_takes_the_session_over_ends_the_run_with_a_plain_sentence(
    ask: Any, engine: Engine
) -> None:
    session = await engine.create("shared with a person")

    class Ann(Onlooker):
        async def ended(self, step: Step) -> None:
            if step.kind == "call":
                await session.take_over("ann")

    script = Script({"main/act": [run("x = 1"), run("x = 2"), *(run("x = 3") for _ in range(20))]})
    outcome = await ask("Go on for ever", script, session_id=session.id, watchers=[Ann()])
    assert not outcome.ok
    assert "ann took this session over" in outcome.report
    assert [cell.source for cell in session.cells if cell.runs] == ["x = 1"]
    assert len(script.asked) == 2, "it does not try again and again"
