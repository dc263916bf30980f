"""One request to a model and what came of it, whoever the provider is. Only data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models.table import ModelRow
from cellwright.delegation import Usage
from cellwright.errors import ModelFailed

__all__ = [
    "ANSWER_TOOL",
    "Delta",
    "Heard",
    "ModelReply",
    "RequestParams",
    "ShapeMissed",
    "Speaker",
    "Unanswered",
    "parameters_of",
    "read_shape",
    "schema_in_words",
    "text_of",
    "unheard",
    "usage_of",
]


@dataclass(frozen=True, slots=True)
class RequestParams:
    """What is asked for beside the messages."""

    role: str
    """Who asks: ``act``, ``critic``, ``plan``, …"""
    branch: str = "main"
    tools: tuple[ToolDefinition, ...] = ()
    shape: type[BaseModel] | None = None
    """The type of the answer; with tools, of the answer that ends the calls."""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it comes."""

    kind: Literal["text", "thinking", "call", "again"]
    """``again``: what was heard of this reply does not count, it is asked for anew; the text says why."""
    text: str


Heard: TypeAlias = Callable[[Delta], None]


def unheard(_: Delta) -> None:
    """For whoever waits for the whole."""


def usage_of(response: ModelResponse, row: ModelRow) -> Usage:
    """What a reply took, at the price of its row."""
    took = response.usage
    money = row.price.of(
        took.input_tokens, took.output_tokens, cached=took.cache_read_tokens, written=took.cache_write_tokens
    )
    return Usage(took.input_tokens, took.output_tokens, took.cache_read_tokens, money)


class Unanswered(ModelFailed):
    """There is no answer, and yet ``usage`` was taken: by replies that were cut, empty or no replies at all."""

    def __init__(
        self,
        message: str,
        *,
        usage: Usage,
        hint: str | None = None,
        again: bool = False,
        after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint, again=again, after_s=after_s)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's reply."""

    response: ModelResponse
    row: ModelRow
    usage: Usage
    """Of this reply and of those before it that could not be used."""
    seconds: float
    troubles: tuple[str, ...] = ()
    """What went wrong before it came: retries, and models that were given up."""


class Speaker(Protocol):
    """A connection to a model: a provider's, the client's own by sampling, or one that runs on this machine."""

    row: ModelRow

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        """One request. ``heard`` is called with pieces while they come.

        Raises:
            ModelFailed: it did not answer, or not with a reply; says whether trying again makes sense.
        """
        ...


# Typed answers: how they are asked for, and how they are read from a reply. Pure, and the same for every
# provider.

T = TypeVar("T", bound=BaseModel)

ANSWER_TOOL = "final_result"

_fenced = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)

_SHOWN = 5


class ShapeMissed(ValueError):
    """A reply that is not of the shape that was asked for; the message can be told to the model."""


def parameters_of(row: ModelRow, want: RequestParams) -> ModelRequestParameters:
    """The request's parameters for a model of this row."""
    shape = want.shape
    if row.tools == "none":
        return ModelRequestParameters()
    tools = list(want.tools)
    if shape is None or row.output == "prompted":
        return ModelRequestParameters(function_tools=tools)
    schema = shape.model_json_schema()
    about = " ".join((shape.__doc__ or shape.__name__).split())
    if row.output == "native":
        wanted = OutputObjectDefinition(json_schema=schema, name=shape.__name__, description=about)
        return ModelRequestParameters(
            function_tools=tools, output_mode="native", output_object=wanted, allow_text_output=True
        )
    answer = ToolDefinition(name=ANSWER_TOOL, parameters_json_schema=schema, description=about, kind="output")
    return ModelRequestParameters(
        function_tools=tools, output_mode="tool", output_tools=[answer], allow_text_output=bool(tools)
    )


def schema_in_words(shape: type[BaseModel]) -> str:
    """What is added to a prompt for a model that is asked in words."""
    schema = json.dumps(shape.model_json_schema(), separators=(",", ":"))
    return f"Answer with one JSON object and nothing else. Its JSON schema: {schema}"


def read_shape(response: ModelResponse, shape: type[T]) -> T:
    """The typed answer in a reply.

    Raises:
        ShapeMissed: there is none.
    """
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == ANSWER_TOOL:
            return _validated(part.args_as_json_str(), shape)
    text = text_of(response)
    fenced = _fenced.search(text)
    candidate = fenced.group(1) if fenced else text[text.find("{") : text.rfind("}") + 1]
    if not candidate.strip():
        raise ShapeMissed(f"The reply has no JSON object. {schema_in_words(shape)}")
    return _validated(candidate, shape)


def text_of(response: ModelResponse) -> str:
    """What a reply says in words."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()


def _validated(text: str, shape: type[T]) -> T:
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)[:_SHOWN]
        told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the reply'}: {one['msg']}" for one in problems)
        raise ShapeMissed(f"The reply does not fit: {told}. {schema_in_words(shape)}") from None
