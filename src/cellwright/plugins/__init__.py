"""Parts that are put in by entry points, ours and other people's: found, examined, loaded on first use, and left out if bad.

``ports`` says what a plugin of each kind is, ``registry`` finds and loads them, ``choices`` keeps what the operator switched
off. Knows no package that uses plugins: each asks the registry for its own kind. A tool's code is run by ``mcp.tools.plugins``.
"""
