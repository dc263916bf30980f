"""Cells that ask for input: who answers, what is kept of it, and what a cell is told that nobody answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.engine import Session
from cellwright.engine.questions import Question
from cellwright.errors import QuestionOver
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio

WORD = "correct horse battery"


@pytest.fixture(scope="module")
async def session(engine: Engine) -> Session:
    return await engine.create("questions")


async def asked(session: Session) -> Question:
    with fail_after():
        while (question := session.questions.current) is None:
            await session.questions.change()
    return question


async def answered(session: Session, question: Question, value: str) -> None:
    await session.questions.answer(question, value)
    await until(lambda: session.questions.current != question)


async def test_an_answer_reaches_the_code_and_neither_the_notebook_nor_the_journal(
    engine: Engine, session: Session
) -> None:
    cell = await session.add_cell(
        "import getpass\nname = input('Name? ')\nword = getpass.getpass('Word? ')\nprint(len(name), len(word))"
    )
    with session.questions.attended():
        # The time that a person takes is not the cell's.
        execution = await session.execute(cell.id, timeout_s=60)
        first = await asked(session)
        assert (first.prompt, first.is_password) == ("Name? ", False)
        await answered(session, first, "Ada Lovelace")
        second = await asked(session)
        assert (second.prompt, second.is_password) == ("Word? ", True)
        with pytest.raises(QuestionOver, match="answered already"):
            await session.questions.answer(first, "too late")
        await session.questions.answer(second, WORD)
        with fail_after():
            await execution.wait()
    assert execution.ok, execution.error
    assert execution.text == f"Name? \nWord? \n12 {len(WORD)}\n"
    told = [
        event
        for event in engine.events(since=0, session_id=session.id)
        if event.kind.startswith("notebook.input.")
    ]
    assert [event.data.get("answered") for event in told] == [None, True, None, True]
    assert {event.cell_id for event in told} == {cell.id}
    await session.save()
    kept = session.path.read_bytes() + b"".join(
        path.read_bytes() for path in engine.settings.storage.rglob("*") if path.is_file()
    )
    for answer in (WORD, "Ada Lovelace"):
        assert answer.encode() not in kept


async def test_a_cell_that_nobody_could_answer_is_told_so_at_once_as_often_as_it_asks(
    engine: Engine, session: Session
) -> None:
    code = "for _ in range(3):\n    try: input('Name? ')\n    except EOFError as error: print(error)"
    execution = await session.execute_code(code)
    with fail_after():
        await execution.wait()
    assert execution.ok, execution.error
    lines = execution.text.splitlines()
    assert len(lines) == 3
    assert "no page is open on this notebook" in lines[0]
    assert "assign it to a variable" in lines[2]
    # A loop that asks for ever fills no journal.
    of_it = [
        event.kind
        for event in engine.events(since=0, session_id=session.id)
        if event.execution_id == execution.id
    ]
    assert of_it.count("notebook.input.requested") == 1


async def test_an_interrupt_ends_a_cell_that_waits_for_an_answer(session: Session) -> None:
    with session.questions.attended():
        execution = await session.execute_code("kept = 1\ninput()")
        question = await asked(session)
        await session.interrupt()
        with fail_after():
            await execution.wait()
        assert execution.state == "interrupted"
        assert session.questions.current is None
        with pytest.raises(QuestionOver):
            await session.questions.answer(question, "late")
    again = await session.execute_code("print(kept)")
    assert (await again.wait()).text == "1\n"


async def test_a_question_outlives_its_engine_and_is_over_after_the_stated_time(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    async with open_here(input_timeout_s=600) as engine:
        session = await engine.create("left alone")
        session_id = session.id
        with session.questions.attended():
            execution = await session.execute_code("print(input('Still there? '))")
            await asked(session)
    async with open_here(input_timeout_s=600) as engine:
        session = engine.session(session_id)
        question = await asked(session)
        assert question.prompt == "Still there? "
        await session.questions.answer(question, "yes")
        with fail_after():
            found = await engine.execution(execution.id).wait()
        assert found.text.endswith("yes\n")
    async with open_here(input_timeout_s=0.2) as engine:
        session = engine.session(session_id)
        with session.questions.attended():
            execution = await session.execute_code("input()")
            with fail_after():
                await execution.wait()
        assert "nobody answered within 0.2 s (input_timeout_s)" in json.dumps(execution.error)


async def test_typescript_asks_by_prompt_and_confirm_and_is_interrupted_while_it_waits(
    engine: Engine,
) -> None:
    session = await engine.create("script", language="typescript")
    with session.questions.attended():
        execution = await session.execute_code("[prompt('Name?'), confirm('Sure?'), prompt('Else?', 'none')]")
        for prompt, answer in (("Name? ", "Ada ✓"), ("Sure? [y/N] ", "yes"), ("Else? ", "")):
            question = await asked(session)
            assert question.prompt == prompt
            await answered(session, question, answer)
        with fail_after():
            await execution.wait()
        assert execution.text.endswith('[ "Ada ✓", true, "none" ]\n'), execution.text
        execution = await session.execute_code("globalThis.kept = 1; prompt('Name?'); kept = 2")
        await asked(session)
        await session.interrupt()
        with fail_after():
            await execution.wait()
        assert execution.state == "interrupted"
    execution = await session.execute_code("[prompt('Name?'), kept]")
    with fail_after():
        await execution.wait()
    assert "no page is open on this notebook" in execution.text
    assert "[ null, " in execution.text


async def test_code_that_asks_without_end_fills_no_journal(engine: Engine, session: Session) -> None:
    code = """
kernel = get_ipython().kernel
parent, ident = kernel.get_parent("shell"), kernel._get_shell_context_var(kernel._shell_parent_ident)
for _ in range(1_200):
    kernel.session.send(kernel.stdin_socket, "input_request", {"prompt": 1}, parent, ident=ident)
input("One more? ")
"""
    with session.questions.attended():
        execution = await session.execute_code(code)
        with fail_after():
            await execution.wait()
    told = engine.events(since=0, session_id=session.id, limit=10_000)
    kinds = [event.kind for event in told if event.execution_id == execution.id]
    assert kinds.count("notebook.input.requested") == 1_000
    assert session.questions.current is None
