"""Speaks to one model through its library: one request, heard while it comes, and whole or not at all.

What is wrong with a request or a reply is said by ``failures``. Trying again, and others, is the business of ``chain``.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache

import httpx2
from pydantic_ai import direct
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from cellwright.agent.models import text_actions
from cellwright.agent.models._failures import failure_of, flaw_of
from cellwright.agent.models.requests import Delta, Heard, RequestParams, parameters_of, schema_in_words
from cellwright.agent.models.table import ModelRow
from cellwright.errors import ModelFailed

__all__ = ["ModelSpeaker", "http_client", "moved", "trust_for"]


class ModelSpeaker:
    """A model of ``pydantic_ai`` as a speaker. Whoever makes it closes it."""

    def __init__(
        self,
        row: ModelRow,
        model: Model,
        settings: ModelSettings | None = None,
        *,
        secrets: Sequence[str] = (),
        says_end: bool = True,
        streams: bool = True,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.row = row
        self.model = model
        self._settings = settings or ModelSettings()
        self._secrets = tuple(secrets)
        self._says_end = says_end
        self._streams = streams
        self._close = close

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        """One request; see ``requests.Speaker``."""
        told = outgoing(self.row, moved(messages, self.model.system), want)
        try:
            response = await self._ask(told, parameters_of(self.row, want), self._chosen(want), heard)
        except Exception as error:  # noqa: BLE001  # boundary: libraries raise what they like, with keys in it
            failure: ModelFailed | None = failure_of(self.row, error, self._secrets)
        else:
            failure = flaw_of(self.row, response, says_end=self._says_end)
        # Raised here, so that it does not carry the library's error along.
        if failure is not None:
            raise failure
        return text_actions.read(response, want) if self.row.tools == "none" else response

    async def aclose(self) -> None:
        """Let go of its connections."""
        if self._close is not None:
            await self._close()

    def _chosen(self, want: RequestParams) -> ModelSettings:
        settings = ModelSettings(**self._settings)
        if self.row.temperature is not None:
            settings["temperature"] = self.row.temperature
        if want.max_tokens is not None:
            settings["max_tokens"] = want.max_tokens
        if want.tools and self.row.tools == "one":
            settings["parallel_tool_calls"] = False
        return settings

    async def _ask(
        self,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        settings: ModelSettings,
        heard: Heard,
    ) -> ModelResponse:
        if self._streams:
            try:
                return await self._streamed(messages, parameters, settings, heard)
            except NotImplementedError:
                self._streams = False
        response = await direct.model_request(
            self.model,
            messages,
            model_settings=settings,
            model_request_parameters=parameters,
            instrument=False,
        )
        for part in response.parts:
            _tell(PartStartEvent(index=0, part=part), heard)
        return response

    async def _streamed(
        self,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        settings: ModelSettings,
        heard: Heard,
    ) -> ModelResponse:
        async with direct.model_request_stream(
            self.model,
            messages,
            model_settings=settings,
            model_request_parameters=parameters,
            instrument=False,
        ) as stream:
            async for event in stream:
                _tell(event, heard)
            return stream.get()


def outgoing(row: ModelRow, messages: Sequence[ModelMessage], want: RequestParams) -> list[ModelMessage]:
    """The messages as they go to a model of this row; what is added stands at the tail."""
    if row.tools == "none":
        return text_actions.told(messages, want, pictures=row.pictures)
    told = list(messages)
    if want.shape is None or row.output != "prompted":
        return told
    words = UserPromptPart(schema_in_words(want.shape))
    if told and isinstance(told[-1], ModelRequest):
        last = told[-1]
        return [*told[:-1], replace(last, parts=[*last.parts, words])]
    return [*told, ModelRequest(parts=[words])]


def _tell(event: ModelResponseStreamEvent, heard: Heard) -> None:
    piece = _piece(event)
    if piece is not None and piece.text:
        heard(piece)


def _piece(event: ModelResponseStreamEvent) -> Delta | None:
    part = event.part if isinstance(event, PartStartEvent) else None
    delta = event.delta if isinstance(event, PartDeltaEvent) else None
    match part or delta:
        case TextPart(content=text) | TextPartDelta(content_delta=text):
            return Delta("text", text)
        case ThinkingPart(content=thought) | ThinkingPartDelta(content_delta=thought):
            return Delta("thinking", thought or "")
        case ToolCallPart() as call:
            return Delta("call", f"{call.tool_name} {call.args_as_json_str() if call.args else ''}")
        case ToolCallPartDelta(args_delta=str() as arguments):
            return Delta("call", arguments)
    return None


# Makes a conversation fit that was had with other models. Pure; what this provider itself said is never
# touched.

# What every provider takes; some take more.
_plain_id = re.compile(r"^[A-Za-z0-9_-]{1,64}$")


def moved(messages: Sequence[ModelMessage], provider: str) -> list[ModelMessage]:
    """The messages as they go to a provider. Those that came from it, or from nobody, are the very same objects."""
    heard: set[str] = set()
    names: dict[str, str] = {}
    fitted: list[ModelMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            foreign = message.provider_name not in (None, provider)
            names = _names(message, heard, place) if foreign else {}
            fitted.append(_response(message, names) if foreign else message)
            heard |= {names.get(call.tool_call_id, call.tool_call_id) for call in _calls(message)}
        else:
            fitted.append(_request(message, names))
    return fitted


def _calls(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _names(response: ModelResponse, heard: set[str], place: int) -> dict[str, str]:
    """New names for calls, made from the place in the conversation: the same ones whenever it is sent."""
    return {
        call.tool_call_id: f"call_{hashlib.sha256(f'{place} {call.tool_call_id}'.encode()).hexdigest()[:24]}"
        for call in _calls(response)
        if call.tool_call_id in heard or not _plain_id.match(call.tool_call_id)
    }


def _response(response: ModelResponse, names: dict[str, str]) -> ModelResponse:
    parts: list[ModelResponsePart] = [
        replace(part, tool_call_id=names.get(part.tool_call_id, part.tool_call_id))
        if isinstance(part, ToolCallPart)
        else part
        for part in response.parts
        if not isinstance(part, ThinkingPart)
    ]
    return replace(response, parts=parts)


def _request(request: ModelRequest, names: dict[str, str]) -> ModelRequest:
    if not names:
        return request
    parts: list[ModelRequestPart] = [
        replace(part, tool_call_id=names.get(part.tool_call_id, part.tool_call_id))
        if isinstance(part, ToolReturnPart)
        else part
        for part in request.parts
    ]
    return replace(request, parts=parts)


# HTTP clients for the providers' libraries. Whom to trust is read once for all of them: it takes a tenth of
# a second.

_CONNECT_S = 10.0


def http_client(address: str, timeout_s: float) -> httpx2.AsyncClient:
    """A client, which its owner closes. ``timeout_s`` is how long the other side may say nothing."""
    timeout = httpx2.Timeout(timeout_s, connect=_CONNECT_S)
    return httpx2.AsyncClient(timeout=timeout, verify=trust_for(address))


def trust_for(address: str) -> ssl.SSLContext:
    """Whom a client of this address trusts. Without encryption it is nobody: a redirect to TLS then fails."""
    return _authorities() if address.startswith("https://") else _nobody()


@cache
def _authorities() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
