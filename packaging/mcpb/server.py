"""Starts the MCP server of the release that pyproject.toml names. Does nothing else: the server is in the package."""

import sys

from cellwright.cli import main

sys.argv[1:] = ["mcp", "--toolset", "core"]
main()
