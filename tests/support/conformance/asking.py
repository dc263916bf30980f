"""The suite's fixtures that ask the client something: by a request of their own until 2025-11-25, by a result that
wants input since 2026-07-28.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import mcp.types as wire
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from pydantic import BaseModel, Field

Questions = Mapping[str, wire.InputRequest]


class _Response(BaseModel):
    response: str = Field(description="User's response")


class _Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    verified: bool = True
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})


def _titled(**titles: str) -> list[Any]:
    return [{"const": value, "title": title} for value, title in titles.items()]


class _Choices(BaseModel):
    # Spelled as the suite looks for them.
    untitledSingle: str = Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})  # noqa: N815
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled(low="Low", medium="Medium", high="High")})  # noqa: N815
    untitledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}}
    )
    titledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"anyOf": _titled(feature="New", bug="Bug", docs="Docs")}}
    )
    legacyEnum: str = Field(json_schema_extra={"enum": ["s", "m", "l"], "enumNames": ["S", "M", "L"]})  # noqa: N815


async def _sampling(prompt: str, context: Context) -> str:
    message = wire.SamplingMessage(role="user", content=wire.TextContent(text=prompt))
    reply = await context.session.create_message(
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return f"LLM response: {reply.content}"


def _eliciting(schema: type[BaseModel]) -> Callable[..., Any]:
    async def elicit(context: Context, message: str = "Please provide input") -> str:
        reply = await context.elicit(message, schema)
        content = reply.data.model_dump_json() if reply.action == "accept" else "{}"
        return f"User response: action={reply.action}, content={content}"

    return elicit


def _ask(message: str, field: str, kind: str = "string") -> wire.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return wire.ElicitRequest(params=wire.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str) -> wire.CreateMessageRequest:
    message = wire.SamplingMessage(role="user", content=wire.TextContent(text=text))
    return wire.CreateMessageRequest(
        params=wire.CreateMessageRequestParams(messages=[message], max_tokens=50)
    )


def _needing(questions: Questions, state: str | None = None) -> Callable[..., Any]:
    async def answer_when_told(context: Context) -> str | wire.InputRequiredResult:
        responses = context.input_responses or {}
        if questions.keys() <= responses.keys() and context.request_state == state:
            return "state-ok " + " ".join(response.model_dump_json() for response in responses.values())
        return wire.InputRequiredResult(input_requests=dict(questions), request_state=state)

    return answer_when_told


async def _two_rounds(context: Context) -> str | wire.InputRequiredResult:
    round_number = json.loads(context.request_state)["round"] if context.request_state else 0
    match round_number, sorted(context.input_responses or {}):
        case 1, ["step1"]:
            return _round(2, _ask("What is your favourite colour?", "color"))
        case 2, ["step2"]:
            return "Both rounds are done"
        case _:
            return _round(1, _ask("What is your name?", "name"))


def _round(number: int, question: wire.ElicitRequest) -> wire.InputRequiredResult:
    state = json.dumps({"round": number})
    return wire.InputRequiredResult(input_requests={f"step{number}": question}, request_state=state)


async def _what_the_client_can(context: Context) -> wire.InputRequiredResult:
    capabilities = context.client_capabilities
    questions: dict[str, wire.InputRequest] = {}
    if capabilities is None or capabilities.sampling is not None:
        questions["sample"] = _sample("Say hello")
    if capabilities is None or capabilities.elicitation is not None:
        questions["ask"] = _ask("What is your name?", "name")
    return wire.InputRequiredResult(input_requests=questions, request_state="asked")


async def _prompt(context: Context) -> list[UserMessage] | wire.InputRequiredResult:
    responses = context.input_responses or {}
    if "user_context" in responses:
        return [UserMessage(content=wire.TextContent(text=responses["user_context"].model_dump_json()))]
    return wire.InputRequiredResult(input_requests={"user_context": _ask("Which context?", "context")})


_CONFIRM = {"confirm": _ask("Please confirm", "ok", "boolean")}
_ROOTS = {"client_roots": wire.ListRootsRequest()}

TOOLS: dict[str, Callable[..., Any]] = {
    "test_sampling": _sampling,
    "test_elicitation": _eliciting(_Response),
    "test_elicitation_sep1034_defaults": _eliciting(_Defaults),
    "test_elicitation_sep1330_enums": _eliciting(_Choices),
    "test_input_required_result_elicitation": _needing({"user_name": _ask("What is your name?", "name")}),
    "test_input_required_result_sampling": _needing(
        {"capital_question": _sample("What is the capital of France?")}
    ),
    "test_input_required_result_list_roots": _needing(_ROOTS),
    "test_input_required_result_request_state": _needing(_CONFIRM, state="asked"),
    "test_input_required_result_tampered_state": _needing(_CONFIRM, state="asked"),
    "test_input_required_result_multiple_inputs": _needing(
        {
            "user_name": _ask("What is your name?", "name"),
            "greeting": _sample("Generate a greeting"),
            **_ROOTS,
        },
        state="asked",
    ),
    "test_input_required_result_multi_round": _two_rounds,
    "test_input_required_result_capabilities": _what_the_client_can,
}

PROMPTS: dict[str, Callable[..., Any]] = {"test_input_required_result_prompt": _prompt}
