"""Tools of an MCP server that the user brought: a program that is started, or an address. Named with the server's name in
front, so that none hides one of ours."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import ImageContent, TextContent, Tool
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models.requests import ANSWER_TOOL
from cellwright.agent.own_tools import OWN_TOOLS, SERVER_TOOLS
from cellwright.agent.questions import Server
from cellwright.agent.toolbox import ToolReply
from cellwright.errors import AgentError
from cellwright.mcp.outputs import MAX_PICTURES, picture_content
from cellwright.text_budget import cut_middle

__all__ = ["ServerTools", "server_tools"]

_TAKEN = frozenset({*SERVER_TOOLS, *(tool.name for tool in OWN_TOOLS), ANSWER_TOOL})
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
_LONGEST_REPLY = 32_000
_LONGEST_ABOUT = 2_000
_LONGEST_NAME = 60
_MOST_TOOLS = 100


class ServerTools:
    """One connection to a server of the user's. What it says is bounded as our own tools' replies are."""

    def __init__(self, name: str, client: Client, tools: Sequence[Tool]) -> None:
        self._client = client
        self._names: dict[str, str] = {}
        definitions: list[ToolDefinition] = []
        for tool in tools[:_MOST_TOOLS]:
            called = _free(f"{name}_{tool.name}", {*_TAKEN, *self._names})
            self._names[called] = tool.name
            about = cut_middle(tool.description or "", _LONGEST_ABOUT)
            definitions.append(
                ToolDefinition(name=called, description=about, parameters_json_schema=dict(tool.input_schema))
            )
        self._definitions = tuple(definitions)

    @property
    def definitions(self) -> Sequence[ToolDefinition]:
        return self._definitions

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        try:
            result = await self._client.call_tool(self._names[name], arguments)
        except (MCPError, ValueError, RuntimeError, *_GONE) as error:  # a server may answer with anything
            return ToolReply(cut_middle(f"{name} failed: {error}", _LONGEST_REPLY), failed=True)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        drawn = [block for block in result.content if isinstance(block, ImageContent)][:MAX_PICTURES]
        pictures = await anyio.to_thread.run_sync(_scaled, drawn) if drawn else ()
        return ToolReply(cut_middle("\n".join(texts), _LONGEST_REPLY), pictures, failed=bool(result.is_error))


def _free(name: str, taken: Collection[str]) -> str:
    """The name as every provider takes it, and such as nothing else has."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME]
    found, number = plain, 1
    while found in taken:
        number += 1
        found = f"{plain}_{number}"
    return found


def _scaled(drawn: Sequence[ImageContent]) -> tuple[bytes, ...]:
    """The pictures as models take them: broken ones are left out."""
    scaled = (picture_content(block.data, block.mime_type) for block in drawn)
    return tuple(
        base64.b64decode(one.data) for one in scaled if one is not None and one.mime_type == "image/png"
    )


@asynccontextmanager
async def server_tools(server: Server) -> AsyncIterator[ServerTools]:
    """A connection for as long as it is needed.

    Raises:
        AgentError: it names neither a program nor an address, or cannot be reached.
    """
    if server.url is not None:
        transport: Any = streamable_http_client(server.url)
    elif server.command:
        program, *arguments = server.command
        environment = {**get_default_environment(), **server.environment}
        started = StdioServerParameters(
            command=program, args=arguments, env=environment, cwd=server.directory
        )
        transport = stdio_client(started)
    else:
        raise AgentError(f"The MCP server {server.name!r} has no command and no address")
    try:
        async with Client(transport) as client:
            yield ServerTools(server.name, client, (await client.list_tools()).tools)
    except Exception as error:  # noqa: BLE001  # boundary: transports raise what they like, in groups, with addresses in it
        raise AgentError(
            f"The MCP server {server.name!r} cannot be reached: {_why(error)}",
            hint="Check its command or address",
        ) from None


def _why(error: BaseException) -> str:
    """What happened, without what may be secret in it: an address may carry a token."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) if isinstance(error, MCPError) else type(error).__name__
