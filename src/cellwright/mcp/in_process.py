"""The server's tools for a program in the same process, such as the data agent: function calls, no protocol.

Arguments are checked and replies made as for any client: what differs is that nothing is written as JSON-RPC, and that
a cancelled task is a call taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, TextContent

from cellwright.mcp.calls import ServerTool, unknown_tool
from cellwright.mcp.clients import Caller, Client

__all__ = ["InProcessClient"]

_log = logging.getLogger(__name__)


class InProcessClient:
    """One client of a server in the same process: what it worked with is its own, as over a connection."""

    def __init__(
        self, tools: Iterable[ServerTool], client: Client, program: str, *, leave: Callable[[], None]
    ) -> None:
        """``leave`` is called when it goes."""
        self.tools = {tool.name: tool for tool in tools}
        self._client = client
        self._caller = Caller(program)
        self.leave = leave

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool; what goes wrong is in the result, as over the protocol."""
        if name not in self.tools:
            return _failed(unknown_tool(name, self.tools))
        try:
            return await self.tools[name].answer(arguments, self._client, self._caller)
        except ToolError as error:
            if isinstance(error, UnexpectedToolError):
                _log.exception("tool_failed tool=%s", name)
            return _failed(str(error))


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)
