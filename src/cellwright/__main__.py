"""``python -m cellwright``: the command line; without arguments the MCP server on stdin and stdout, for clients."""

from __future__ import annotations

import sys

from cellwright.cli import main

if __name__ == "__main__":
    if len(sys.argv) == 1 and not sys.stdin.isatty():
        sys.argv.append("mcp")
    main()
