"""Puts the server object together: tools, resources, prompts, and the dialect that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from mcp.server.mcpserver import MCPServer

import cellwright
from cellwright.mcp.calls import Shared, as_tool
from cellwright.mcp.clients import Clients
from cellwright.mcp.tools_cells import CELL_TOOLS
from cellwright.mcp.tools_executions import EXECUTION_TOOLS
from cellwright.mcp.tools_notebooks import NOTEBOOK_TOOLS

__all__ = ["DIALECTS", "build_server"]

DIALECTS = ("srcbook", "jlab", "jupyter", "monadic")

_INSTRUCTIONS = (
    "Notebooks with live kernels. notebook_create gives a session_id; cell_add_and_run adds and runs code and returns "
    "output and images; state lasts between calls. notebook_read shows a notebook within a budget; session_context "
    "tells what is defined. A long cell returns an execution id: execution_wait goes on waiting. generation rises when "
    "a kernel is replaced and its variables are gone."
)


def build_server(
    shared: Shared,
    lifespan: Callable[[MCPServer[Clients]], AbstractAsyncContextManager[Clients]],
    *,
    dialect: str | None,
) -> MCPServer[Clients]:
    """The server object."""
    tools = [as_tool(definition, shared) for definition in (*NOTEBOOK_TOOLS, *CELL_TOOLS, *EXECUTION_TOOLS)]
    return MCPServer(
        "cellwright",
        title="Cellwright",
        version=cellwright.__version__,
        instructions=_INSTRUCTIONS,
        tools=tools,
        lifespan=lifespan,
        log_level="WARNING",
    )
