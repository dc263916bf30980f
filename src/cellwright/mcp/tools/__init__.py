"""The MCP tools, a module for each set of them: arguments in, one call of the engine, a reply out.

Which client sees which of them is ``toolsets``'s to say; how a plain function becomes a tool is ``calls``'s.
"""
