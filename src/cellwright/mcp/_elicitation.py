"""Asks the person behind a client what a cell waits for, or whether something may be done, by MCP's elicitation.

Passwords are asked for only where the client says it is a terminal.

A client of the handshake era is asked while its call waits. Since 2026-07-28 the call is answered with what is needed,
and the client calls again with the answer: that call goes on waiting for the same executions, or does
what was asked about, which no call has begun before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from cellwright.engine.approvals import AnsweredLater, Approval, Approvals, Choice, Decision, asked_through
from cellwright.engine.questions import Question
from cellwright.errors import QuestionOver
from cellwright.mcp.clients import Caller
from cellwright.mcp.outputs import clean

__all__ = [
    "OUR_STATE",
    "InputNeeded",
    "Round",
    "ask_in_turn",
    "asked_by_call",
    "form_of",
    "needs_input",
    "read_round",
    "take_answer",
    "take_approvals",
]

OUR_STATE = "cellwright:"
"""How the state begins that a client brings back with the answer to a question of a cell."""

_APPROVALS_STATE = "approvals:"

_DECISION = "decision"

_ANSWER = "input"

_TEXT = "answer"


class InputNeeded(AnsweredLater):  # no error: the call is answered with it
    """A call cannot go on without its client's person; the client calls again with what the result asks for."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("the client's person is asked")
        self.result = result


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


async def ask_in_turn(caller: Caller, session: Session, executions: Sequence[Execution]) -> Question | None:
    """Ask a client of the handshake era every question of these executions, until cancelled.

    Returns a question that only the client's next call can answer, for a client of the newest protocol.
    """
    while True:
        question = _of(session, executions)
        if question is None or (question.is_password and not caller.asks_passwords):
            await session.questions.change()
        elif caller.asks == "rounds":
            return question
        else:
            await _ask(caller, session, question)


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


async def _ask(caller: Caller, session: Session, question: Question) -> None:
    """Ask once; whatever becomes of that, the question is over afterwards."""
    given: ElicitResult | None = None
    async with anyio.create_task_group() as tasks:

        async def withdraw() -> None:
            while session.questions.current == question:
                await session.questions.change()
            tasks.cancel_scope.cancel()

        tasks.start_soon(withdraw)
        try:
            given = await caller.elicit(form_of(session, question))
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


# Whether something may be done: the same, with a choice instead of a text.


@contextmanager
def asked_by_call(caller: Caller, notes: list[str]) -> Iterator[None]:
    """Have what is to be approved meanwhile put to the person behind a call, who can be asked.

    Where somebody else was faster, ``notes`` say so.
    """
    asker = _CallAsker(caller, notes)
    try:
        with asked_through(asker):
            yield
    finally:
        asker.over = True


def _approvals_of(state: str) -> tuple[str, ...]:
    """The ids in the state of a call that was answered with something to approve."""
    return (
        tuple(state.removeprefix(_APPROVALS_STATE).split(",")) if state.startswith(_APPROVALS_STATE) else ()
    )


async def take_approvals(approvals: Approvals, caller: Caller) -> None:
    """Take what a client's person answered to what an earlier call of this one asked."""
    for question_id in _approvals_of(caller.request_state):
        if isinstance(given := caller.answers.get(question_id), ElicitResult):
            with suppress(QuestionOver):  # on the page somebody was faster
                await approvals.answer(question_id, _choice(given), by=_person(caller))


class _CallAsker:
    """Asks the person behind one call (see ``engine.approvals.Asker``)."""

    def __init__(self, caller: Caller, notes: list[str]) -> None:
        self._caller = caller
        self._notes = notes
        self._task = anyio.get_current_task().id
        self.name = _person(caller)
        self.earlier = list(_approvals_of(caller.request_state))
        self.over = False
        """Whether the call has been answered; what it began may go on, and has nobody to ask here."""

    def can_ask(self) -> bool:
        """Whether the call waits; one that is answered with the question must be what asks."""
        its_own = anyio.get_current_task().id == self._task
        return not self.over and (self._caller.asks == "calls" or its_own)

    def defer(self, question: Approval) -> None:
        """Answer the call with the question, where the protocol has it so.

        Raises:
            InputNeeded: it does.
        """
        if self._caller.asks == "rounds":
            ids = dict.fromkeys((*self.earlier, question.id))
            request = ElicitRequest(params=_approval_form(question))
            state = _APPROVALS_STATE + ",".join(ids)
            raise InputNeeded(InputRequiredResult(input_requests={question.id: request}, request_state=state))

    async def ask(self, question: Approval) -> Choice | None:
        """Ask during the call."""
        try:
            return _choice(await self._caller.elicit(_approval_form(question)))
        except MCPError:
            return None

    def overtaken(self, decision: Decision) -> None:
        """Have the reply say who it was."""
        self._notes.append(clean(decision.why))


def _approval_form(question: Approval) -> ElicitRequestFormParams:
    choices = question.choices
    field = {
        "type": "string",
        "title": "Allow it?",
        "enum": list(choices),
        "enumNames": list(choices.values()),
        "default": "refuse",  # what a key pressed too soon says
    }
    schema: ElicitRequestedSchema = {
        "type": "object",
        "properties": {_DECISION: field},
        "required": [_DECISION],
    }
    message = f"{clean(question.by.removeprefix('mcp:'))} asks to {clean(question.matter.what)}"
    return ElicitRequestFormParams(message=message, requested_schema=schema)


def _choice(given: ElicitResult) -> Choice:
    """What a form says; whoever leaves it without an answer refuses."""
    try:
        chosen = (given.content or {}).get(_DECISION) if given.action == "accept" else None
        choice: Choice = msgspec.convert(chosen, Choice)
    except msgspec.ValidationError:
        return "refuse"
    return choice


def _person(caller: Caller) -> str:
    return f"the person at {caller.program or 'an unnamed client'}"
