"""The daemon: engine and MCP servers in one process that outlives its clients, and the way to it.

The composition root: nothing else builds an engine and MCP servers for clients. ``pump``, ``connect``, ``paths`` and
``handshake`` run on the client's side and need only the standard library; import from the modules, this one is empty so
that they stay quick.
"""
