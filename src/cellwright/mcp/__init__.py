"""The MCP face: every agent's way in. It translates calls into the engine's and replies into what an agent reads.

Above is the daemon, which builds one ``Face`` and gives it connections; below is the engine, which decides.
"""

from cellwright.mcp.face import DIALECTS, Face
from cellwright.mcp.pace import Pace

__all__ = ["DIALECTS", "Face", "Pace"]
