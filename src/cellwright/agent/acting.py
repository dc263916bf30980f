"""The tool loop: ask the model, run what it calls one at a time, tell it what came of it, until there is an answer.

Who owns the branch, the budget and the tools is ``running``; what a failed cell costs is decided in ``calling``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic_ai.messages import ModelRequestPart, ModelResponse, ToolCallPart, ToolReturnPart

from cellwright.agent.branches import Branch
from cellwright.agent.calling import call_tool
from cellwright.agent.context import Closing, harmless
from cellwright.agent.messages import calls_of, objected, sound, told, with_parts, with_reply
from cellwright.agent.models.shapes import ANSWER_TOOL, ShapeMissed, read_shape, text_of
from cellwright.agent.models.table import ModelRow
from cellwright.agent.models.textactions import problem
from cellwright.agent.models.wants import Want
from cellwright.agent.objections import Given, objection, righted
from cellwright.agent.prompts import INSTRUCTIONS
from cellwright.agent.toolbox import ToolReply

if TYPE_CHECKING:
    from cellwright.agent.running import Run

__all__ = ["act"]

_ROLE = "act"
_MAX_CORRECTIONS = 2
_MAX_CALLS = 50


async def act(run: Run, branch: Branch, goal: str) -> Branch:
    """Work on a goal until there is an answer, or the branch is stopped."""
    branch.begin()
    opening = told(f"{goal}\n\n{await run.state(branch)}")
    branch.history = with_parts(branch.history, [opening], INSTRUCTIONS)
    while branch.report is None:
        reply = await _ask(run, branch)
        calls = [call for call in calls_of(reply) if call.tool_name != ANSWER_TOOL]
        if calls:
            if await _call_all(run, branch, calls):
                return branch
            continue
        misread = _misread(run, branch, reply)
        wrong = await _refused(run, branch, answer_in(reply, run.chain.row), misread)
        if wrong is None or branch.report is not None:
            return branch
        branch.history = with_parts(branch.history, objected(reply, wrong), INSTRUCTIONS)
    return branch


async def _refused(run: Run, branch: Branch, answer: Given, misread: str | None = None) -> str | None:
    """Take the answer, however it is given; or what is wrong with it. Who was told so often enough is let through."""
    answer = await righted(run, branch, answer)
    wrong = misread or await objection(run, branch, answer)
    told_enough = branch.corrections == _MAX_CORRECTIONS
    if wrong is None or (told_enough and misread is None and answer.message.strip()):
        branch.answer, branch.ok = answer.message, True
        return None
    if told_enough:
        run.stop(branch, f"{run.chain.row.full_name} gave no answer that can be read: {wrong}")
        return wrong
    branch.corrections += 1
    async with run.trace.step("correct", role=_ROLE, branch=branch.label) as step:
        step.session_id, step.note = branch.session_id, wrong
    return wrong


async def _ask(run: Run, branch: Branch) -> ModelResponse:
    await run.make_room(branch)
    row = run.chain.row
    shape = Closing if row.context == "json" else None
    want = Want(_ROLE, branch.label, tools=branch.tools.definitions, shape=shape)
    said = await run.request(branch, branch.history, want)
    branch.history = with_reply(branch.history, said.response)
    await run.keep(branch)
    return said.response


async def _call_all(run: Run, branch: Branch, calls: list[ToolCallPart]) -> bool:
    """Run a turn's calls, one at a time. Whether one of them was the answer."""
    returns: list[ModelRequestPart] = []
    pictures: list[bytes] = []
    for place, call in enumerate(calls):
        over = _over(branch, place)
        reply = await call_tool(run, branch, call) if over is None else ToolReply(over, failed=True)
        if reply.answer is not None:
            wrong = await _refused(run, branch, Given(reply.answer))
            reply = reply if wrong is None else _not_given(reply, wrong)
        outcome: Literal["failed", "success"] = "failed" if reply.failed else "success"
        returns.append(
            # What a tool returns is data: it must not pass for what the engine tells.
            ToolReturnPart(
                call.tool_name, sound(harmless(reply.text)), tool_call_id=call.tool_call_id, outcome=outcome
            )
        )
        pictures += reply.pictures
    if pictures and run.chain.row.pictures:
        returns.append(told("The pictures of these results:", pictures))
    branch.history = with_parts(branch.history, returns, INSTRUCTIONS)
    return branch.ok


def _not_given(reply: ToolReply, wrong: str) -> ToolReply:
    text = f"{reply.text}\nThe user was not told this. {wrong}"
    return ToolReply(text, reply.pictures, failed=True)


def _over(branch: Branch, place: int) -> str | None:
    """Why a call of this turn is not made, where those before it have decided that."""
    if branch.ok or branch.report is not None:
        return "Not called: the work was over before its turn came."
    return (
        f"Not called: no more than {_MAX_CALLS} are made in a turn. Look at their results first."
        if place >= _MAX_CALLS
        else None
    )


def _misread(run: Run, branch: Branch, reply: ModelResponse) -> str | None:
    """What is wrong with an action that a model without tools tried to write."""
    if run.chain.row.tools != "none":
        return None
    return problem(reply, Want(_ROLE, branch.label, tools=branch.tools.definitions))


def answer_in(reply: ModelResponse, row: ModelRow) -> Given:
    """The answer that ends the calls: structured where the model was asked for that, else its words."""
    if row.context == "json" or calls_of(reply):
        try:
            closing = read_shape(reply, Closing)
        except ShapeMissed:
            pass  # its words are an answer too
        else:
            return Given(closing.message, closing.context.current_notebook)
    return Given(text_of(reply))
