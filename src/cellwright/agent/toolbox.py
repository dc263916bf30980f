"""The tools that a model may call on one branch: the MCP server's, the agent's own, and those of the user's servers.

One call at a time on each branch. What a reply means, the caller decides.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from mcp.types import CallToolResult, ImageContent, TextContent
from pydantic_ai.tools import ToolDefinition

from cellwright.errors import AgentError
from cellwright.mcp.calls import ServerTool
from cellwright.mcp.in_process import InProcessClient
from cellwright.tools.web.fetch import FETCHED

__all__ = ["NotebookTools", "ToolReply", "Tools"]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a call came to."""

    text: str
    pictures: tuple[bytes, ...] = ()
    """PNG."""
    failed: bool = False
    answer: str | None = None
    """The answer to the question, where the call was to give it."""


class Toolbox(Protocol):
    """Tools of one origin: ``NotebookTools``, ``OwnTools`` or ``ServerTools``."""

    @property
    def definitions(self) -> Sequence[ToolDefinition]: ...

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        """Call one; what goes wrong is a reply that failed."""
        ...


class Tools:
    """All tools of one branch."""

    def __init__(self, boxes: Sequence[Toolbox]) -> None:
        self._boxes = tuple(boxes)
        self._turn = anyio.Lock()

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        found: dict[str, ToolDefinition] = {}
        for box in self._boxes:
            for definition in box.definitions:
                found.setdefault(definition.name, definition)
        return tuple(found.values())

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        for box in self._boxes:
            if any(definition.name == name for definition in box.definitions):
                async with self._turn:
                    return await box.call(name, arguments)
        known = ", ".join(definition.name for definition in self.definitions)
        return ToolReply(f"There is no tool {name!r}. There are: {known}", failed=True)


# The MCP server's tools on one branch, called in this process, in that branch's session.

_FAILED_STATES = frozenset({"error", "timeout", "died", "interrupted"})

_MAKES = frozenset({"notebook_create", "notebook_open", "notebook_import"})


class NotebookTools:
    """The tools of one branch."""

    def __init__(
        self,
        client: InProcessClient,
        *,
        offered: Sequence[str],
        session_of: Callable[[], Awaitable[str]],
        room: Callable[[], Awaitable[None]],
        made: Callable[[str], Awaitable[None]],
    ) -> None:
        """``session_of`` tells the branch's session, and makes one on need.

        ``room`` is called before a new one is made, by whomever, ``made`` after.
        """
        self._client = client
        self._takes_session = {
            name
            for name, tool in client.tools.items()
            if "session_id" in tool.parameters.get("properties", {})
        }
        self._session_of = session_of
        self._room = room
        self._made = made
        self._definitions = tuple(_definition(client.tools[name]) for name in offered if name in client.tools)

    @property
    def definitions(self) -> Sequence[ToolDefinition]:
        return self._definitions

    def leave(self) -> None:
        """The branch's work is over: people who look at its session no longer see it there."""
        self._client.leave()

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        result = await self._result(name, arguments)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        pictures = tuple(
            base64.b64decode(block.data) for block in result.content if isinstance(block, ImageContent)
        )
        # Notes are a text of their own, before that of the reply.
        head = texts[-1].split("\n", 1)[0] if texts else ""
        failed = bool(result.is_error) or not _FAILED_STATES.isdisjoint(head.split(" | "))
        return ToolReply("\n".join(texts), pictures, failed=failed)

    async def data(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A reply of data.

        Raises:
            AgentError: the tool refused.
        """
        result = await self._result(name, arguments)
        if result.is_error or result.structured_content is None:
            texts = [block.text for block in result.content if isinstance(block, TextContent)]
            raise AgentError(f"{name} failed: {' '.join(texts)}")
        return dict(result.structured_content)

    async def _result(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        if (
            name in self._takes_session
            and not _is_shared(name, arguments)
            and not arguments.get("session_id")
        ):
            arguments = {**arguments, "session_id": await self._session_of()}
        if name in _MAKES:
            await self._room()
        result = await self._client.call_tool(name, arguments)
        if name in _MAKES and result.structured_content is not None and not result.is_error:
            await self._made(result.structured_content["session_id"])
        return result


def _is_shared(name: str, arguments: dict[str, Any]) -> bool:
    """Whether a call is no session's: it makes one, or reads on in a long page, which the data directory keeps."""
    if name == "file_system" and arguments.get("action") == "read":
        return str(arguments.get("path", "")).startswith(f"{FETCHED}/")
    return name in _MAKES


def _definition(tool: ServerTool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description or "", parameters_json_schema=dict(tool.parameters)
    )
