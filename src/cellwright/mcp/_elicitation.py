"""Asks the person behind a client what a cell waits for, by MCP's elicitation; passwords only where the client says it is a terminal.

A client of the handshake era is asked while its call waits. Since 2026-07-28 the call is answered with what is needed,
and the client calls again with the answer: that call goes on waiting for the same executions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import msgspec
from mcp.shared.exceptions import MCPError
from mcp.types import (
    ElicitRequest,
    ElicitRequestedSchema,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from cellwright.engine import Execution, Session
from cellwright.engine.questions import Question
from cellwright.errors import QuestionOver
from cellwright.mcp.calls import OUR_STATE, Call, InputNeeded
from cellwright.mcp.outputs import clean

__all__ = ["Round", "ask_in_turn", "form_of", "needs_input", "read_round", "take_answer"]

_ANSWER = "input"

_TEXT = "answer"


class Round(msgspec.Struct, frozen=True):
    """What a call was waiting for when it was answered with a question."""

    executions: tuple[str, ...]
    question: Question


def form_of(session: Session, question: Question) -> ElicitRequestFormParams:
    """The question as a form with one field."""
    execution = session.runs.find(question.execution_id)
    cell = f"Cell {execution.cell_id}" if execution is not None and execution.cell_id else "Code"
    prompt = clean(question.prompt).strip() or "a line of text"
    field: dict[str, Any] = {"type": "string", "title": prompt}
    if question.is_password:
        field |= {"format": "password", "writeOnly": True}
    schema: ElicitRequestedSchema = {"type": "object", "properties": {_TEXT: field}, "required": [_TEXT]}
    message = f"{cell} of {session.name} asks for input: {prompt}"
    return ElicitRequestFormParams(message=message, requested_schema=schema)


async def ask_in_turn(call: Call, session: Session, executions: Sequence[Execution]) -> Question | None:
    """Ask a client of the handshake era every question of these executions, until cancelled.

    Returns a question that only the client's next call can answer, for a client of the newest protocol.
    """
    while True:
        question = _of(session, executions)
        if question is None or (question.is_password and not call.caller.asks_passwords):
            await session.questions.change()
        elif call.caller.asks == "rounds":
            return question
        else:
            await _ask(call, session, question)


def needs_input(session: Session, executions: Sequence[Execution], question: Question) -> InputNeeded:
    """What the call is answered with, for the client to call again."""
    state = OUR_STATE + msgspec.json.encode(Round(tuple(each.id for each in executions), question)).decode()
    request = ElicitRequest(params=form_of(session, question))
    return InputNeeded(InputRequiredResult(input_requests={_ANSWER: request}, request_state=state))


async def take_answer(session: Session, question: Question, answers: Mapping[str, Any]) -> None:
    """Give the code what the client's next call brought."""
    if isinstance(given := answers.get(_ANSWER), ElicitResult):
        await _give(session, question, given)
    else:
        await session.questions.decline(question, "the client did not ask its person")


async def _ask(call: Call, session: Session, question: Question) -> None:
    """Ask once; whatever becomes of that, the question is over afterwards."""
    given: ElicitResult | None = None
    async with anyio.create_task_group() as tasks:

        async def withdraw() -> None:
            while session.questions.current == question:
                await session.questions.change()
            tasks.cancel_scope.cancel()

        tasks.start_soon(withdraw)
        try:
            given = await call.caller.elicit(form_of(session, question))
        except MCPError:
            given = ElicitResult(action="cancel")
        tasks.cancel_scope.cancel()
    if given is not None:
        await _give(session, question, given)
        while session.questions.current == question:
            await session.questions.change()


async def _give(session: Session, question: Question, given: ElicitResult) -> None:
    answer = (given.content or {}).get(_TEXT)
    if given.action != "accept" or not isinstance(answer, str):
        await session.questions.decline(question, "the person gave no answer")
        return
    try:
        await session.questions.answer(question, answer)
    except QuestionOver:
        return  # somebody answered on the page meanwhile, or the time was over


def _of(session: Session, executions: Sequence[Execution]) -> Question | None:
    current = session.questions.current
    return current if current is not None and current.execution_id in {one.id for one in executions} else None


def read_round(state: str) -> Round:
    """What a call that goes on was waiting for; the SDK has sealed it, so that it is as it was given out."""
    return msgspec.json.decode(state.removeprefix(OUR_STATE), type=Round)
