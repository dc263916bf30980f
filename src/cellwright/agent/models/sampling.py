"""The model of the client that asks, through MCP's sampling: it pays, and it may look at each request before it goes.

Sampling carries no tools, so the dialect of text actions is spoken; it tells no usage, so tokens are estimated and the
reply says so. Only the handshake era lets a server ask while a call is under way. From 2026-07-28 on sampling is
deprecated and requests travel in the result that ends a call, which an answer of many requests cannot use: such a
client is told to give a key instead.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ImageContent,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_ai.messages import FinishReason, ModelMessage, ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from cellwright.agent.models._failures import flaw_of
from cellwright.agent.models.requests import Delta, Heard, RequestParams
from cellwright.agent.models.table import ROWS, ModelRow
from cellwright.agent.models.text_actions import Turn, estimated_tokens, read, spoken, told
from cellwright.errors import ModelFailed, NoModel

__all__ = ["CLIENT", "ESTIMATED", "SamplingSpeaker", "connect", "offered", "speaker"]

CLIENT = next(row for row in ROWS if row.provider == "sampling")
"""Which model a client has, it does not say before it answers."""
ESTIMATED = "usage_estimated"
"""In a reply's details: its tokens are not counted by whoever made it."""

_MOST_TOKENS = 4_096
_ASK = "sampling"
_ENDS: dict[str, FinishReason] = {"maxTokens": "length"}
_OTHER = "Name a model with a key, such as claude-sonnet-5-5, or ask with a client that offers sampling"


def offered(session: ServerSession) -> bool:
    """Whether the client lends its model to a call that is under way."""
    return _refusal(session) is None


def speaker(session: ServerSession) -> SamplingSpeaker:
    """The client's own model, for as long as the call lasts that ``session`` belongs to.

    Raises:
        NoModel: the client does not lend it.
    """
    refusal = _refusal(session)
    if refusal is not None:
        raise NoModel(refusal, hint=_OTHER)
    return SamplingSpeaker(session)


def connect(row: ModelRow, _: object = None) -> SamplingSpeaker:
    """Only for a client that asks: there is none here.

    Raises:
        NoModel: always.
    """
    raise NoModel(f"{row.full_name} is the model of an MCP client, and none is asking", hint=_OTHER)


class SamplingSpeaker:
    """The model of one client."""

    def __init__(self, session: ServerSession, row: ModelRow = CLIENT) -> None:
        self.row = row
        self._session = session

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        """One request; see ``requests.Speaker``."""
        system, turns = spoken(told(messages, want, pictures=self.row.pictures))
        order = CreateMessageRequestParams(
            messages=[message for turn in turns for message in _messages(turn)],
            system_prompt=system or None,
            max_tokens=want.max_tokens or _MOST_TOKENS,
        )
        result = await self._asked(order)
        if not isinstance(result.content, TextContent):
            raise ModelFailed(
                f"{result.model} answered with {result.content.type} instead of words", again=True
            )
        heard(Delta("text", result.content.text))
        usage = RequestUsage(
            input_tokens=estimated_tokens(system, turns),
            output_tokens=estimated_tokens("", [Turn("assistant", result.content.text)]),
        )
        response = ModelResponse(
            parts=[TextPart(result.content.text)],
            usage=usage,
            model_name=result.model,
            provider_name=self.row.provider,
            provider_details={ESTIMATED: True},
            finish_reason=_ENDS.get(result.stop_reason or "", "stop"),
        )
        flaw = flaw_of(self.row, response)
        if flaw is not None:
            raise flaw
        return read(response, want)

    async def _asked(self, order: CreateMessageRequestParams) -> CreateMessageResult:
        try:
            # As part of the call that asks: over HTTP only its stream is there for sure.
            return await self._session.send_request(
                CreateMessageRequest(params=order),
                CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=_ASK),
            )
        except NoBackChannelError:
            raise ModelFailed(
                "The client cannot be asked for its model over this connection", hint=_OTHER
            ) from None
        except MCPError as error:
            raise ModelFailed(f"The client did not lend its model: {error}", hint=_OTHER) from None
        except ValidationError:
            raise ModelFailed(
                "The client answered with something that is no reply of a model", again=True
            ) from None


def _refusal(session: ServerSession) -> str | None:
    """Why the client's model cannot be asked; None where it can."""
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return (
            f"In version {session.protocol_version} of MCP a client's own model cannot be asked during a call"
        )
    if not session.check_client_capability(ClientCapabilities(sampling=SamplingCapability())):
        return "This client has no model to lend: it does not offer sampling"
    return (
        None if session.can_send_request else "The client cannot be asked for its model over this connection"
    )


def _messages(turn: Turn) -> list[SamplingMessage]:
    """A message for each text and picture: one with several parts is not for every version of the protocol."""
    said = (
        [SamplingMessage(role=turn.role, content=TextContent(type="text", text=turn.text))]
        if turn.text
        else []
    )
    for picture in turn.pictures:
        data = base64.b64encode(picture.data).decode()
        content = ImageContent(type="image", data=data, mime_type=picture.media_type)
        said.append(SamplingMessage(role=turn.role, content=content))
    return said
