"""Cells that ask for input, asked on by MCP's elicitation, in either era of the protocol."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import ElicitRequestParams, ElicitResult

from cellwright import Engine
from tests.kernel.mcp.conftest import Connect, ask, new_session, read
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

ASKS = "print(f\"{input('Name? ')} is {input('Age? ')}\")"
ASKS_A_WORD = "import getpass\ngetpass.getpass('Word? ')"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_can_ask_its_person_asks_what_a_cell_asks_for(
    connect: Connect, mode: str
) -> None:
    asked: list[str] = []
    answers: dict[str, Any] = {"Name?": "Ada", "Age?": "36"}

    async def elicit(_: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        title = params.requested_schema["properties"]["answer"]["title"]
        if title not in answers:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": answers[title]})

    async with connect(mode, elicitation_callback=elicit) as client:
        session = await new_session(client)
        with fail_after():
            text = await read(client, "cell_add_and_run", session_id=session, content=ASKS)
        assert "Ada is 36" in text
        # One cell, however often the call was made again with an answer.
        assert (await read(client, "notebook_read", session_id=session)).count("input('Name? ')") == 1
        assert [message.split(" asks for input: ")[1] for message in asked] == ["Name?", "Age?"]
        refused = await read(client, "scratch_run", session_id=session, code="input('Else? ')")
        assert "InputUnavailable" in refused
        assert "the person gave no answer" in refused
        # A form of MCP's is no place for a password.
        before = len(asked)
        secret = await read(client, "scratch_run", session_id=session, code=ASKS_A_WORD)
        assert len(asked) == before
        assert "cellwright exec" in secret


async def test_a_client_that_cannot_ask_is_told_at_once_that_nobody_answers(
    engine: Engine, connect: Connect
) -> None:
    async with connect() as client:
        session = await new_session(client)
        text = await read(client, "cell_add_and_run", session_id=session, content=ASKS)
        assert "no page is open on this notebook" in text
        # Where a person could answer elsewhere, the client is told what its call waits for.
        questions = engine.session(session).questions
        with questions.attended():
            await read(client, "scratch_run", session_id=session, code="input('Name? ')", wait=0)
            with fail_after():
                while (question := questions.current) is None:
                    await questions.change()
            told = await read(client, "execution_wait", execution_id=question.execution_id, wait=0)
            assert "It waits for a person's answer to 'Name?'" in told
            await ask(client, "kernel_interrupt", session_id=session)
