"""Real agents' command lines, run offline against a scripted model, with an MCP server of our choice."""
