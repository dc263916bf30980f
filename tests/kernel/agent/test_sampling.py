"""A client's own model, asked through MCP's sampling by a real server over a real wire, in each era."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ImageContent,
    SamplingMessage,
    TextContent,
)
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from cellwright import Engine
from cellwright.agent import DataAgent, Outcome, Question
from cellwright.agent.models import sampling
from cellwright.agent.models.chain import Chain
from cellwright.agent.models.requests import Delta, RequestParams, text_of
from cellwright.agent.trace.steps import runs_since
from cellwright.errors import CellwrightError, ModelFailed
from cellwright.mcp.server import McpServer

pytestmark = pytest.mark.anyio

RUN = ToolDefinition(
    name="cell_add_and_run",
    description="Add a code cell and run it.",
    parameters_json_schema={
        "type": "object",
        "properties": {"code": {"type": "string"}},
        "required": ["code"],
    },
)
QUESTION = [ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("What is 6 times 7?")])]


class Lender:
    """A client's side: what it was asked, and what its model says to that."""

    def __init__(self, *replies: str | CreateMessageResult | ErrorData) -> None:
        self.asked: list[CreateMessageRequestParams] = []
        self._replies = list(replies)

    async def __call__(
        self, _: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        self.asked.append(params)
        reply = self._replies.pop(0)
        return said(reply) if isinstance(reply, str) else reply


def said(text: str, **more: Any) -> CreateMessageResult:
    content = TextContent(type="text", text=text)
    return CreateMessageResult(role="assistant", content=content, model="a-model", **more)


class Asking:
    """A server with one tool, which asks the model of whoever calls it."""

    def __init__(
        self, messages: Sequence[ModelMessage] = QUESTION, want: RequestParams | None = None
    ) -> None:
        self.messages, self.want = messages, want or RequestParams("act", tools=(RUN,))
        self.response: ModelResponse | None = None
        self.error: CellwrightError | None = None
        self.heard: list[Delta] = []
        self.server = MCPServer("asking")

        @self.server.tool()
        async def ask(context: Context[Any, Any]) -> str:
            """Ask."""
            try:
                speaker = sampling.speaker(context.session)
                self.response = await speaker.say(self.messages, self.want, self.heard.append)
            except CellwrightError as error:
                self.error = error
            return json.dumps({"offered": sampling.offered(context.session)})

    async def called(self, lender: Lender | None, mode: str = "legacy") -> bool:
        """Call the tool; whether the client was found to lend its model."""
        async with Client(self.server, mode=mode, sampling_callback=lender) as client:
            result = await client.call_tool("ask", {})
        assert not result.is_error
        (block,) = result.content
        assert isinstance(block, TextContent)
        return bool(json.loads(block.text)["offered"])


async def test_the_clients_model_acts_in_the_dialect() -> None:
    lender, asking = Lender("I compute it.\n```python\nprint(6 * 7)\n```"), Asking()
    assert await asking.called(lender)
    assert asking.response is not None
    (call,) = [part for part in asking.response.parts if isinstance(part, ToolCallPart)]
    assert (call.tool_name, call.args_as_dict()) == (RUN.name, {"code": "print(6 * 7)"})
    assert asking.response.model_name == "a-model"
    assert [delta.kind for delta in asking.heard] == ["text"]
    (order,) = lender.asked
    assert order.system_prompt is not None
    assert order.system_prompt.startswith("Be brief.\n\nYou cannot call functions")
    assert order.tools is None
    assert [(message.role, message.content.text) for message in order.messages] == [  # type: ignore[union-attr]
        ("user", "What is 6 times 7?")
    ]


async def test_a_conversation_goes_on_in_turns() -> None:
    messages = [
        *QUESTION,
        ModelResponse([ToolCallPart(RUN.name, {"code": "print(42)"})]),
        ModelRequest([ToolReturnPart(RUN.name, "42", tool_call_id="1")]),
    ]
    lender, asking = Lender("It is 42."), Asking(messages)
    await asking.called(lender)
    assert asking.response is not None
    assert text_of(asking.response) == "It is 42."
    assert [message.role for message in lender.asked[0].messages] == ["user", "assistant", "user"]


async def test_a_question_is_answered_by_the_clients_model_over_real_kernels(
    face: McpServer, engine: Engine
) -> None:
    lender = Lender(
        '```action\n{"tool": "run_it", "arguments": {"code": "6 * 7"}}\n```',
        "First I compute.\n```python\nx = 6 * 7\nprint(x)\n```\nIt printed 41.",
        "It is 42.",
    )
    outcomes: list[Outcome] = []
    server = MCPServer("asking")

    @server.tool()
    async def ask(context: Context[Any, Any]) -> str:
        """Ask."""

        async def connect(_: Question) -> Chain:
            return Chain([sampling.speaker(context.session)])

        question = Question("What is 6 times 7?", verify=False, directory=Path(engine.settings.root))
        outcomes.append(await DataAgent(face, connect=connect).ask(question))
        return outcomes[0].answer

    async with Client(server, mode="legacy", sampling_callback=lender) as client:
        await client.call_tool("ask", {})
    (outcome,) = outcomes
    assert (outcome.answer, outcome.ok, outcome.steps) == ("It is 42.", True, 3), outcome.report
    assert outcome.session_id is not None
    (run,) = await runs_since(engine, engine.session(outcome.session_id), 0)
    assert (run.code, run.stdout) == ("x = 6 * 7\nprint(x)", "42\n")
    told = [message.content.text for message in lender.asked[2].messages]  # type: ignore[union-attr]
    assert told[1] == '```action\n{"tool": "run_it", "arguments": {"code": "6 * 7"}}\n```'
    assert told[2].startswith("Your action could not be read: there is no tool 'run_it'")
    assert told[3] == "First I compute.\n\n```python\nx = 6 * 7\nprint(x)\n```"
    assert told[4].startswith("Result of cell_add_and_run:")


async def test_tokens_are_estimated_and_the_reply_says_so() -> None:
    asking = Asking()
    await asking.called(Lender("It is forty-two."))
    assert asking.response is not None
    assert asking.response.usage.input_tokens > 50
    assert asking.response.usage.output_tokens == 4
    assert asking.response.provider_details == {sampling.ESTIMATED: True}


async def test_a_picture_goes_as_a_message_of_its_own() -> None:
    picture = BinaryContent(b"png", media_type="image/png")
    lender = Lender("A line that rises.")
    await Asking([ModelRequest([UserPromptPart(["What is drawn?", picture])])]).called(lender)
    first, second = lender.asked[0].messages
    assert isinstance(first, SamplingMessage)
    assert isinstance(second.content, ImageContent)
    assert base64.b64decode(second.content.data) == b"png"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_lends_nothing_is_told_what_to_do(mode: str) -> None:
    asking = Asking()
    assert not await asking.called(None, mode)
    assert asking.error is not None
    assert asking.error.code == "no_model"
    assert asking.error.hint is not None
    assert "Name a model with a key" in asking.error.hint


async def test_the_newest_protocol_lends_no_model_during_a_call() -> None:
    lender, asking = Lender(), Asking()
    assert not await asking.called(lender, "2026-07-28")
    assert "2026-07-28" in str(asking.error)
    assert lender.asked == []


async def test_a_person_who_says_no_is_taken_at_their_word() -> None:
    asking = Asking()
    await asking.called(Lender(ErrorData(code=INVALID_REQUEST, message="User rejected sampling request")))
    assert isinstance(asking.error, ModelFailed)
    assert "User rejected" in str(asking.error)
    assert not asking.error.again


async def test_a_picture_is_no_reply() -> None:
    drawn = CreateMessageResult(
        role="assistant", content=ImageContent(type="image", data="", mime_type="image/png"), model="a-model"
    )
    asking = Asking()
    await asking.called(Lender(drawn))
    assert isinstance(asking.error, ModelFailed)
    assert asking.error.again


async def test_a_reply_that_was_cut_off_is_none() -> None:
    asking = Asking()
    await asking.called(Lender(said("It is forty-", stop_reason="maxTokens")))
    assert isinstance(asking.error, ModelFailed)
    assert "cut off" in str(asking.error)


async def test_nobody_asks_where_there_is_no_client() -> None:
    connect: Callable[..., object] = sampling.connect
    with pytest.raises(CellwrightError, match="none is asking"):
        connect(sampling.CLIENT, None)
