"""The MCP server: every agent's way in. It translates calls into the engine's and replies into what an agent reads.

Above is the daemon, which builds one ``McpServer`` and gives it connections; below is the engine, which decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.mcp.clients import Pace
    from cellwright.mcp.server import McpServer, every_dialect

__all__ = ["McpServer", "Pace", "every_dialect"]

_HOMES = {
    "McpServer": "cellwright.mcp.server",
    "Pace": "cellwright.mcp.clients",
    "every_dialect": "cellwright.mcp.server",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use: the command line needs the wire, and not the engine behind the server."""
    if name == "Face":
        import warnings  # only for who uses the old name

        warnings.warn("Face is called McpServer now", DeprecationWarning, stacklevel=2)
        name = "McpServer"
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # see above

    return getattr(importlib.import_module(_HOMES[name]), name)
