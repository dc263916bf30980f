"""Makes a conversation fit that was had with other models. Pure; what this provider itself said is never touched.

Thoughts of others are left out: they are signed for whoever had them, and as plain text they would be taken for a way
to write. Names of calls are made anew where this provider would refuse them, or has heard them before. The rest of the
translation is done by the library.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)

__all__ = ["moved"]

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
